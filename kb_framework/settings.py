"""Settings, validated: the host's own as `KB_<FIELD>`, a plugin's section as `KB_<SECTION>_<FIELD>`.

The place in a TOML file is the same name in lower case, where a section's name may be a table: `KB_BULK_PLAN_SECONDS` is
`bulk_plan_seconds` or `plan_seconds` in `[bulk]`, never both.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from kb_framework.api import SettingsSection, resolve
from kb_framework.bootstrap import Bootstrap, Source, default_data_dir, split_list
from kb_framework.errors import ConfigInvalid
from kb_framework.masking import MASK, masked, masked_address
from kb_framework.messages import finding_words, nearest

S = TypeVar("S", bound="Section")

StringList = Annotated[list[str], NoDecode, BeforeValidator(split_list)]


def _whole_number(value: Any) -> Any:
    """Only plain digits: pydantic would also take `70.0`, ` 70 ` and TOML's `true`."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    digits = isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit()
    if not plain and not digits:
        raise ValueError("not a whole number")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def _without_credentials(value: Any) -> Any:
    """Refuse an address with a password: addresses are shown, logged and recorded. The message does not repeat it."""
    if isinstance(value, str) and "@" in value:
        raise ValueError(
            "holds credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    return value


def _without_password(value: Any) -> Any:
    try:
        # Without a host it is no address, and what is before the @ may still be a password.
        holds_one = isinstance(value, str) and "@" in (urlsplit(value).netloc or value)
    except ValueError:
        raise ValueError("not an address") from None
    if holds_one:
        raise ValueError(
            "holds a name or a password: give the key in the setting API_KEY of the same section instead"
        )
    return value


# An http address without a password, since addresses are shown, logged and recorded.
Address = Annotated[str, BeforeValidator(_without_password)]
WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Number = Annotated[float, BeforeValidator(_number)]


class DatabaseUrl(SecretStr):
    """An address whose password is shown to nobody."""

    def _display(self) -> str:
        shown = re.sub(r"\A([^/]*//[^/@:]*:).*(@)", rf"\1{MASK}\2", self.get_secret_value())
        return re.sub(r"((?:^|[?&\s])(?:ssl)?password=)[^&\s]*", rf"\1{MASK}", shown)


def valid_database_url(value: Any) -> Any:
    """Validate the address of a database. Which schemes there are depends on plugins."""
    if value == "":
        # So that the environment can say "none" where a file names one.
        return None
    if isinstance(value, str) and "://" not in value:
        raise ValueError("it must begin with a scheme, as postgresql:// does")
    if isinstance(value, str):
        # A client would take a part of such a password for the host, and show it in its messages.
        before, _, _ = value.partition("?")[0].rpartition("@")
        if "@" in before or "/" in before.partition("//")[2]:
            raise ValueError("write @ in a password as %40, and / as %2F")
    return value


class Section(BaseSettings):
    """A plugin's settings: subclass it, give every field a default and a description."""

    # A value may be a secret, so errors leave it out.
    model_config = SettingsConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # `load_settings` reads the sources one by one, to know where each value came from.
        return (init_settings,)

    def misfit(self, host: HostSettings) -> tuple[str, str] | None:
        """Return a field that does not go with the host's settings, and why; None where all do."""
        return None


class HostSettings(Section):
    data_dir: Path = Field(
        default_factory=default_data_dir, description="Holds everything: database, files, keys."
    )
    files_url: Annotated[str | None, BeforeValidator(_without_credentials)] = Field(
        None,
        description="Where files are stored: s3://BUCKET/PREFIX?endpoint=URL or file:///FOLDER; by default the data folder.",
    )
    config_file: Path | None = Field(
        None,
        description="A TOML or .env file to read instead of those in the data and configuration folders; also --config.",
    )
    engine_url: Address | None = Field(
        None, description="Use the engine at this address instead of one in this process."
    )
    api_key: SecretStr | None = Field(None, description="The key to send to that engine.")
    disabled_plugins: StringList = Field(
        [], description="Plugins that are not loaded, comma-separated."
    )
    required_plugins: StringList = Field(
        [], description="Plugins without which nothing starts, comma-separated."
    )
    trace_hooks: bool = Field(False, description="Log every hook call with its results.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much the engine logs."
    )
    database_url: Annotated[DatabaseUrl | None, BeforeValidator(valid_database_url)] = Field(
        None,
        description="postgresql://… for a PostgreSQL database; by default a SQLite file in the data folder.",
    )
    busy_timeout: Number = Field(
        30.0, gt=0, le=3600, description="Seconds to wait for another process's write."
    )
    disk_reserve_bytes: WholeNumber = Field(
        4_000_000,
        ge=0,
        description="With less room than this on its disk the engine reports the disk as full; 0 never does.",
    )
    bulk_safety_percent: WholeNumber = Field(
        70,
        ge=0,
        le=100,
        description="Bulk operations on a larger share of all documents need force; 0 switches this off.",
    )
    worker_lease: Number = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Seconds after which the file of a worker that gave no sign of life is taken over.",
    )
    max_file_bytes: WholeNumber = Field(100_000_000, ge=1, description="Larger files are refused.")
    max_text_chars: WholeNumber = Field(
        20_000_000,
        ge=1000,
        description="Characters of a file's text that are read; what is longer is cut there.",
    )
    max_archive_files: WholeNumber = Field(
        10_000, ge=1, description="An archive with more files than this is refused."
    )
    extract_timeout: float = Field(
        60.0, gt=0, le=3600, description="Seconds that reading one file may take."
    )
    extract_memory_bytes: WholeNumber = Field(
        2_000_000_000, ge=100_000_000, description="Memory that reading one file may take."
    )
    max_body_bytes: WholeNumber = Field(
        32_000_000, ge=1024, description="Larger JSON bodies are refused."
    )
    body_timeout: Number = Field(
        60.0, gt=0, le=3600, description="Seconds to wait for more of a request's body."
    )
    unauthorized_per_minute: WholeNumber = Field(
        100, ge=0, description="How many wrong keys an address may try in a minute; 0 is no limit."
    )
    local_secret: Literal["auto", "required"] = Field(
        "auto",
        description="Without keys: auto lets in the data folder's owner, by the user id of the connection where the system tells "
        "it; required asks every client for the secret in engine.json.",
    )
    trusted_proxies: StringList = Field(
        [], description="Addresses of proxies whose X-Forwarded-For tells the caller's address."
    )
    search_reranker: str = Field(
        "none", description="What orders the best hits of a hybrid search anew; 'none' for nothing."
    )
    chunker: str = Field("structure", description="How text is cut into chunks.")
    allowed_hosts: StringList = Field(
        [], description="Host names, beyond loopback, under which this engine is reached."
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """One value as `kb config` shows it."""

    variable: str
    # The place in a TOML file: `embedder`, `weather.city`.
    key: str
    value: Any
    origin: str
    description: str

    @property
    def shown(self) -> Any:
        """Return the value as it may be shown and recorded: plain data without secrets."""
        value = self.value
        if isinstance(value, list):
            return [masked(item) if isinstance(item, str) else item for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return masked(str(value)) if not isinstance(value, SecretStr) else str(value)


@dataclass(frozen=True, slots=True)
class Settings:
    host: HostSettings
    sections: Mapping[str, Section]
    values: tuple[Setting, ...]
    unknown_variables: tuple[str, ...]


class SettingMissing(ConfigInvalid):
    """A setting without a default is not set: this costs its plugin, not every command."""

    def __init__(self, section: str, variable: str) -> None:
        super().__init__(f"{variable} is not set, and has no default")
        self.section = section


def load_settings(
    bootstrap: Bootstrap,
    sections: Iterable[SettingsSection] | None = None,
    *,
    plugins: Mapping[str, str] | None = None,
    inactive: Collection[str] = (),
    idle: Iterable[SettingsSection] = (),
) -> Settings:
    """Read and validate all settings, or raise for the first that cannot be used.

    `plugins` maps a section to its plugin, for messages; `inactive` names plugins whose tables may stay in a file, `idle` are
    sections of such plugins whose settings may stay. Without `sections` only the host's settings are read, and unknown ones
    are not looked for.
    """
    # The data folder was decided before its own files could be read.
    host, shown = _load(
        HostSettings, "KB_", bootstrap.sources, settled={"data_dir": bootstrap.data_dir}
    )
    loaded: dict[str, Section] = {}
    names = {section.name: section for section in sections or ()}
    tables = [name for name, section in names.items() if not section.top_level]
    for source in bootstrap.sources:
        if wrong := next(
            (
                name
                for name in tables
                if source.is_table and not isinstance(source.values.get(name, {}), dict)
            ),
            None,
        ):
            raise ConfigInvalid(f"[{wrong}] in {source.name} must be a table")
    for name, section in names.items():
        model: type[Section] = resolve(section.target)
        table = "" if section.top_level else name
        owner = (plugins or {}).get(name, name)
        loaded[name], more = _load(
            model, section.prefix, bootstrap.sources, section=table, plugin=owner
        )
        if misfit := loaded[name].misfit(host):
            field, reason = misfit
            setting = next(item for item in more if item.variable == section.prefix + field.upper())
            value = _shown(model.model_fields[field], setting.value)
            raise ConfigInvalid(f"{setting.variable} is {value} ({setting.origin}): {reason}")
        shown += more
    known = {setting.variable: setting for setting in shown}
    if sections is not None:
        unused = {
            section.prefix + field.upper()
            for section in idle
            for field in resolve(section.target).model_fields
        }
        for source in bootstrap.sources:
            _check_table(source, known, inactive, unused)
        known_or_unused = known.keys() | unused
    else:
        known_or_unused = known.keys()
    given = {name for source in bootstrap.sources if not source.is_table for name in source.values}
    unknown = sorted(given - known_or_unused)
    return Settings(host, loaded, tuple(shown), tuple(unknown))


def _check_table(
    source: Source, known: Mapping[str, Setting], inactive: Collection[str], unused: Collection[str]
) -> None:
    """Raise for an entry of a TOML file that no setting has. A table of an installed plugin that is not active may stay."""
    if not source.is_table:
        return
    for place, variable, _ in source.leaves():
        table, _, key = place.partition(".")
        if (
            variable in known
            or variable in unused
            or (key and (table in inactive or f"KB_{table.upper()}" in known))
        ):
            continue
        near = nearest(variable, known)
        meant = (
            f"; did you mean {known[near].key} ({near})?"
            if near
            else "; kb config lists the settings"
        )
        raise ConfigInvalid(f"{place} in {source.name} is not a setting{meant}")


def _load(
    model: type[S],
    prefix: str,
    sources: Sequence[Source],
    *,
    section: str = "",
    plugin: str = "",
    settled: Mapping[str, Any] | None = None,
) -> tuple[S, list[Setting]]:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    places: dict[str, str] = {}
    for name, info in model.model_fields.items():
        variable = prefix + name.upper()
        for source in sources:
            if (found := source.find(variable)) is not None:
                places[name], raw = found
                origins[name] = source.name
                values[name] = raw if source.is_table else _decoded(info, raw)
                break
    values |= settled or {}
    missing = next(
        (
            name
            for name, info in model.model_fields.items()
            if info.is_required() and name not in values
        ),
        None,
    )
    if missing:
        raise SettingMissing(section, prefix + missing.upper())
    whose = f" (plugin {plugin})" if plugin else ""
    try:
        loaded = model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        # Without the value, which may be a secret.
        reason = finding_words({part: given for part, given in first.items() if part != "input"})
        if not first["loc"]:
            raise ConfigInvalid(f"{prefix}*{whose}: {reason}") from None
        name = str(first["loc"][0])
    except Exception as error:  # noqa: BLE001 - a plugin's validator may raise anything
        name = _culprit(model, values)
        reason = f"its validator raised {type(error).__name__}: {error}"
        if name is None:
            raise ConfigInvalid(f"{prefix}*{whose}: {reason}") from None
    else:
        shown = [
            Setting(
                prefix + name.upper(),
                f"{section}.{name}" if section else name,
                getattr(loaded, name),
                origins.get(name, "default"),
                info.description or "",
            )
            for name, info in model.model_fields.items()
        ]
        return loaded, shown
    info = model.model_fields[name]
    raise ConfigInvalid(
        f"{prefix}{name.upper()}{whose} is {_shown(info, values.get(name))} ({places.get(name, 'default')}): {reason}; "
        f"allowed: {allowed_values(info)}"
    ) from None


def _culprit(model: type[Section], values: Mapping[str, Any]) -> str | None:
    """Return the setting whose validator raises something else than a ValueError."""
    for name, value in values.items():
        try:
            model(**{name: value})
        except ValidationError:
            continue
        except Exception:  # noqa: BLE001 - this is what is looked for
            return name
    return None


def _decoded(info: FieldInfo, text: str) -> Any:
    """Return the value of a variable as its field's type wants it: lists are comma-separated or JSON, tables are JSON."""
    kind = get_origin(_plain_type(info.annotation)) or _plain_type(info.annotation)
    if NoDecode in info.metadata or not isinstance(kind, type):
        return text
    if issubclass(kind, list | set | frozenset | tuple) and not text.lstrip().startswith("["):
        return split_list(text)
    if issubclass(kind, list | set | frozenset | tuple | dict | Mapping):
        try:
            return json.loads(text)
        except ValueError:
            # The text itself is refused, in words, by the field.
            return text
    return text


def _plain_type(annotation: Any) -> Any:
    """Return a type without `None` and without annotations."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            others = [item for item in get_args(annotation) if item is not type(None)]
            if len(others) != 1:
                return annotation
            annotation = others[0]
        else:
            return annotation


def _shown(info: FieldInfo, value: Any) -> str:
    """Return a value as an error may show it."""
    if any(word in str(info.annotation) for word in ("Secret", "DatabaseUrl")):
        return f"'{MASK}'"
    return repr(masked_address(value)) if isinstance(value, str) else masked(repr(value))


def allowed_values(info: FieldInfo) -> str:
    """Describe what a field takes: `a whole number from 0 to 100`, `debug | info`."""
    annotation = _plain_type(info.annotation)
    if get_origin(annotation) is Literal:
        return " | ".join(str(value) for value in get_args(annotation))
    inner = (
        get_args(get_args(info.annotation)[0])[1:]
        if get_origin(info.annotation) in (Union, types.UnionType)
        else ()
    )
    limits = [*info.metadata, *inner]
    bounds = {
        kind: getattr(item, kind)
        for item in limits
        for kind in ("ge", "gt", "le", "lt")
        if hasattr(item, kind)
    }
    name = _TYPE_WORDS.get(annotation)
    name = name or (
        "a comma-separated list"
        if get_origin(annotation) in (list, set, frozenset, tuple)
        else str(annotation)
    )
    words = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}
    return " ".join([name, *(words[kind].format(value) for kind, value in bounds.items())])


_TYPE_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    Path: "a path",
    SecretStr: "a text",
    DatabaseUrl: "postgresql://…",
    dict: "a table",
}
