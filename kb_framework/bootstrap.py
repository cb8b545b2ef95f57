"""The settings needed before plugins load, and the sources of all settings, read without importing pydantic.

Sources, the first that has a setting wins:

1. the environment;
2. the file that `--config` or `KB_CONFIG_FILE` names; then no other file is read;
3. `.env` and `kb.toml` in the data folder;
4. `.env` and `kb.toml` in the user's configuration folder.

The current folder is no source: its files may be somebody else's. `kb_framework.settings` validates everything. It is skipped
only where nothing but the settings of this module is set (`nothing_else`), since defaults need no validation.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kb_framework.errors import ConfigInvalid
from kb_framework.masking import masked_address

_KNOWN = {
    "KB_DATA_DIR",
    "KB_CONFIG_FILE",
    "KB_ENGINE_URL",
    "KB_API_KEY",
    "KB_DISABLED_PLUGINS",
    "KB_REQUIRED_PLUGINS",
}
TOML_NAME = "kb.toml"
# Former names of plugins, still accepted where plugins are switched off or required.
_RENAMED = {"embeddings": "models", "kb-framework:embeddings": "kb-framework:models"}
_DOTENV_NAME = ".env"
_LOOKED_AT_BYTES = 1 << 16
_ASSIGNMENT = re.compile(
    rb"^[ \t]*(?:export[ \t]+)?KB_[A-Z0-9_]+[ \t]*=", re.MULTILINE | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Source:
    """The settings of one place: variables of the environment or a `.env` file, or the table of a TOML file."""

    name: str
    values: Mapping[str, Any]
    is_table: bool = False

    def find(self, variable: str) -> tuple[str, Any] | None:
        """Return where this source has a setting, and its value. In a table `[bulk] plan_seconds` is `KB_BULK_PLAN_SECONDS`."""
        if not self.is_table:
            return (self.name, self.values[variable]) if variable in self.values else None
        found = [(place, value) for place, name, value in self.leaves() if name == variable]
        top = variable.removeprefix("KB_").lower()
        if isinstance(self.values.get(top), dict):
            # A setting whose value is itself a table.
            found.append((top, self.values[top]))
        if len(found) > 1:
            raise ConfigInvalid(
                f"{variable} is set twice in {self.name}: {found[0][0]} and {found[1][0]}"
            )
        return (f"{found[0][0]} in {self.name}", found[0][1]) if found else None

    def leaves(self) -> Iterator[tuple[str, str, Any]]:
        """Yield every entry of a table: its place as people write it, its variable, its value."""
        for key, value in self.values.items():
            if isinstance(value, dict):
                for inner, leaf in value.items():
                    yield f"{key}.{inner}", variable_of((key, inner)), leaf
            else:
                yield key, variable_of((key,)), value

    def variables(self) -> set[str]:
        return {variable for _, variable, _ in self.leaves()} if self.is_table else set(self.values)


def variable_of(path: Sequence[str]) -> str:
    """Return the variable of a place in a TOML file."""
    return "KB_" + "_".join(path).upper()


@dataclass(frozen=True, slots=True)
class Bootstrap:
    data_dir: Path
    # The TOML file that `kb config set` writes.
    config_file: Path
    engine_url: str | None
    api_key: str | None
    disabled_plugins: frozenset[str]
    required_plugins: frozenset[str]
    trace_hooks: bool
    nothing_else: bool
    sources: tuple[Source, ...] = ()

    @property
    def plugin_state_file(self) -> Path:
        return self.data_dir / "plugins.json"

    def with_values(self, values: Mapping[str, str], origin: str = "environment") -> Bootstrap:
        """Return the same settings with some changed, as if the environment said so."""
        environment = Source(origin, {**self.sources[0].values, **values})
        data_dir = Path(values.get("KB_DATA_DIR") or self.data_dir)
        return _bootstrap((environment, *self.sources[1:]), data_dir, self.config_file)


def read_bootstrap(environ: Mapping[str, str] | None = None) -> Bootstrap:
    environ = os.environ if environ is None else environ
    environment = Source(
        "environment",
        {name.upper(): value for name, value in environ.items() if name.upper().startswith("KB_")},
    )
    if chosen := environment.values.get("KB_CONFIG_FILE"):
        file = Path(chosen).expanduser()
        if not file.is_file():
            raise ConfigInvalid(f"KB_CONFIG_FILE is {chosen!r}: there is no such file")
        sources = (environment, _read_file(file))
        data_dir = _data_dir(sources)
        return _bootstrap(sources, data_dir, data_dir / TOML_NAME if _is_dotenv(file) else file)
    user_folder = config_dir(environ)
    of_the_user = _read_folder(user_folder) if user_folder else ()
    data_dir = _data_dir((environment, *of_the_user))
    of_the_data = () if data_dir == user_folder else _read_folder(data_dir)
    return _bootstrap((environment, *of_the_data, *of_the_user), data_dir, data_dir / TOML_NAME)


def _bootstrap(sources: tuple[Source, ...], data_dir: Path, config_file: Path) -> Bootstrap:
    engine_url = _first(sources, "KB_ENGINE_URL") or None
    shown = masked_address(str(engine_url))
    if engine_url and not _is_address(str(engine_url)):
        raise ConfigInvalid(f"KB_ENGINE_URL is {shown!r}: it must look like http://127.0.0.1:8420")
    if engine_url and "@" in urlsplit(str(engine_url)).netloc:
        raise ConfigInvalid(
            f"KB_ENGINE_URL is {shown!r}: it holds a name or a password; give the key with KB_API_KEY"
        )
    return Bootstrap(
        data_dir=data_dir,
        config_file=config_file,
        engine_url=engine_url,
        api_key=_first(sources, "KB_API_KEY") or None,
        disabled_plugins=_switched_off(sources, data_dir),
        required_plugins=_plugin_names(_first(sources, "KB_REQUIRED_PLUGINS")),
        trace_hooks=str(_first(sources, "KB_TRACE_HOOKS") or "").lower()
        in {"1", "true", "yes", "on"},
        nothing_else=not {name for source in sources for name in source.variables()} - _KNOWN,
        sources=sources,
    )


def _first(sources: Sequence[Source], variable: str) -> Any:
    return next((found[1] for source in sources if (found := source.find(variable))), None)


def _data_dir(sources: Sequence[Source]) -> Path:
    return Path(_first(sources, "KB_DATA_DIR") or default_data_dir()).expanduser()


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def default_data_dir() -> Path:
    import platformdirs

    return platformdirs.user_data_path("kb", appauthor=False)


def config_dir(environ: Mapping[str, str]) -> Path | None:
    """Return the user's configuration folder for this program."""
    if sys.platform in ("win32", "darwin"):
        import platformdirs

        return platformdirs.user_config_path("kb", appauthor=False)
    # By hand, because importing platformdirs costs every command some milliseconds. A relative path is invalid here.
    folder = environ.get("XDG_CONFIG_HOME", "")
    try:
        return (Path(folder) if folder.startswith("/") else Path.home() / ".config") / "kb"
    except RuntimeError:
        return None


def split_list(value: Any) -> list[str]:
    """A list as people write it in an environment variable: `a, b`; `[]` is the empty one."""
    if value is None or value == "[]":
        return []
    parts = value.split(",") if isinstance(value, str) else list(value)
    return [str(part).strip() for part in parts if str(part).strip()]


# Files


def ignored_dotenv(bootstrap: Bootstrap) -> bool:
    """Return whether the current folder has a `.env` with settings of this program that is not read."""
    try:
        file = Path(_DOTENV_NAME).absolute()
        if not file.is_file() or any(_is_same(file, source.name) for source in bootstrap.sources):
            return False
        with file.open("rb") as opened:
            return _ASSIGNMENT.search(opened.read(_LOOKED_AT_BYTES)) is not None
    except OSError:
        return False


def _is_same(file: Path, name: str) -> bool:
    return Path(name).exists() and file.samefile(name)


def _read_folder(folder: Path) -> tuple[Source, ...]:
    return tuple(
        _read_file(file) for name in (_DOTENV_NAME, TOML_NAME) if _exists(file := folder / name)
    )


def _exists(file: Path) -> bool:
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigInvalid(
            f"{file} cannot be read: {error.strerror}", hint="set KB_DATA_DIR to a folder of yours"
        ) from None
    return True


def _is_dotenv(file: Path) -> bool:
    return file.suffix == _DOTENV_NAME or file.name.startswith(_DOTENV_NAME)


def _read_file(file: Path) -> Source:
    if not _is_dotenv(file):
        return Source(str(file), read_toml(file), is_table=True)
    from dotenv import dotenv_values

    try:
        found = dotenv_values(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{file} cannot be read: {error}") from None
    wanted = {name.upper(): value for name, value in found.items() if value is not None}
    return Source(
        str(file), {name: value for name, value in wanted.items() if name.startswith("KB_")}
    )


def read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read as TOML: {error}") from None


def _disabled_by_command(data_dir: Path) -> frozenset[str]:
    path = data_dir / "plugins.json"
    try:
        return _plugin_names(json.loads(path.read_text(encoding="utf-8"))["disabled"])
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error}", hint="delete it, then disable plugins again"
        ) from None


def _plugin_names(value: Any) -> frozenset[str]:
    return frozenset(map(current_name, split_list(value)))


def current_name(plugin: str) -> str:
    """Return the present name of a plugin that was renamed."""
    return _RENAMED.get(plugin, plugin)


def switched_off(bootstrap: Bootstrap) -> frozenset[str]:
    """Return the plugins that the next start does not load."""
    return _switched_off(bootstrap.sources, bootstrap.data_dir)


def _switched_off(sources: Sequence[Source], data_dir: Path) -> frozenset[str]:
    return _plugin_names(_first(sources, "KB_DISABLED_PLUGINS")) | _disabled_by_command(data_dir)


def disable_plugin(bootstrap: Bootstrap, name: str, *, disabled: bool) -> None:
    """Remember that a plugin is switched off (or on again), without loading it."""
    names = set(_disabled_by_command(bootstrap.data_dir))
    names = names | {name} if disabled else names - {name}
    write_private(bootstrap.plugin_state_file, json.dumps({"disabled": sorted(names)}) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file of the data folder at once. It is readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.touch(mode=0o600, exist_ok=False)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
