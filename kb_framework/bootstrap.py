"""The few settings that must be known before plugins load, read without importing pydantic.

Precedence: environment, `.env` in the current folder, the TOML file. `kb_framework.settings` validates everything, these
included; it is skipped only where nothing but these is configured (`nothing_else`), since defaults need no validation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kb_framework.errors import ConfigInvalid

_KNOWN = {
    "KB_DATA_DIR",
    "KB_CONFIG_FILE",
    "KB_ENGINE_URL",
    "KB_API_KEY",
    "KB_DISABLED_PLUGINS",
    "KB_REQUIRED_PLUGINS",
}
DOTENV = Path(".env")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    data_dir: Path
    config_file: Path
    engine_url: str | None
    api_key: str | None
    disabled_plugins: frozenset[str]
    required_plugins: frozenset[str]
    trace_hooks: bool
    nothing_else: bool

    @property
    def plugin_state_file(self) -> Path:
        return self.data_dir / "plugins.json"


def read_bootstrap(environ: Mapping[str, str] | None = None) -> Bootstrap:
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = dict(_read_dotenv()) | {k.upper(): v for k, v in environ.items()}
    chosen_file = values.get("KB_CONFIG_FILE")
    if chosen_file and not Path(chosen_file).is_file():
        raise ConfigInvalid(f"KB_CONFIG_FILE is {chosen_file!r}: there is no such file")
    table = read_toml(Path(chosen_file)) if chosen_file else {}
    data_dir = Path(values.get("KB_DATA_DIR") or table.get("data_dir") or default_data_dir()).expanduser()
    config_file = Path(chosen_file) if chosen_file else data_dir / "kb.toml"
    if not chosen_file:
        table = read_toml(config_file)
    values = {f"KB_{key.upper()}": value for key, value in table.items()} | values
    engine_url = values.get("KB_ENGINE_URL") or None
    if engine_url and not _is_address(str(engine_url)):
        raise ConfigInvalid(f"KB_ENGINE_URL is {engine_url!r}: it must look like http://127.0.0.1:8420")
    from_command = _disabled_by_command(data_dir)
    return Bootstrap(
        data_dir=data_dir,
        config_file=config_file,
        engine_url=engine_url,
        api_key=values.get("KB_API_KEY") or None,
        disabled_plugins=frozenset(split_list(values.get("KB_DISABLED_PLUGINS"))) | from_command,
        required_plugins=frozenset(split_list(values.get("KB_REQUIRED_PLUGINS"))),
        trace_hooks=str(values.get("KB_TRACE_HOOKS", "")).lower() in {"1", "true", "yes", "on"},
        nothing_else=not {k for k in values if k.startswith("KB_")} - _KNOWN,
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def default_data_dir() -> Path:
    import platformdirs

    return platformdirs.user_data_path("kb", appauthor=False)


def split_list(value: Any) -> list[str]:
    """A list as people write it in an environment variable: `a, b`."""
    if value is None:
        return []
    parts = value.split(",") if isinstance(value, str) else list(value)
    return [str(part).strip() for part in parts if str(part).strip()]


def read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read as TOML: {error}") from None


def _read_dotenv() -> dict[str, str]:
    if not DOTENV.is_file():
        return {}
    from dotenv import dotenv_values

    try:
        found = dotenv_values(DOTENV)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{DOTENV} cannot be read: {error}") from None
    return {k.upper(): v for k, v in found.items() if v is not None and k.upper().startswith("KB_")}


def _disabled_by_command(data_dir: Path) -> frozenset[str]:
    path = data_dir / "plugins.json"
    try:
        return frozenset(json.loads(path.read_text(encoding="utf-8"))["disabled"])
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigInvalid(f"{path} cannot be read: {error}", hint="delete it, then disable plugins again") from None


def disable_plugin(bootstrap: Bootstrap, name: str, *, disabled: bool) -> None:
    """Remember that a plugin is switched off (or on again), without loading it."""
    names = set(_disabled_by_command(bootstrap.data_dir))
    names = names | {name} if disabled else names - {name}
    path = bootstrap.plugin_state_file
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"disabled": sorted(names)}) + "\n", encoding="utf-8")
    temporary.replace(path)
