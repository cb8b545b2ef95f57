"""Settings, validated: the host's own as `KB_<FIELD>`, a plugin's section as `KB_<SECTION>_<FIELD>`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from kb_framework.api import SettingsSection, resolve
from kb_framework.bootstrap import DOTENV, Bootstrap, default_data_dir, read_toml, split_list
from kb_framework.errors import ConfigInvalid

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
    """An address is shown and logged, so whoever puts a password in it is told, without repeating it."""
    if isinstance(value, str) and "@" in value:
        raise ValueError("holds credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")
    return value


WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Number = Annotated[float, BeforeValidator(_number)]


class DatabaseUrl(SecretStr):
    """An address whose password is shown to nobody."""

    def _display(self) -> str:
        shown = re.sub(r"(//[^/@:]*:)[^@]*(@)", r"\1***\2", self.get_secret_value())
        return re.sub(r"((?:^|[?&\s])(?:ssl)?password=)[^&\s]*", r"\1***", shown)


def _postgres_url(value: Any) -> Any:
    if value == "":
        # So that the environment can say "none" where a file names one.
        return None
    if isinstance(value, str) and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("it must begin with postgresql://")
    return value


class Section(BaseSettings):
    """A plugin's settings: subclass it, give every field a default and a description."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

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


class HostSettings(Section):
    data_dir: Path = Field(default_factory=default_data_dir, description="Holds everything: database, files, keys.")
    files_url: Annotated[str | None, BeforeValidator(_without_credentials)] = Field(
        None, description="Where files are stored: s3://BUCKET/PREFIX?endpoint=URL or file:///FOLDER; by default the data folder."
    )
    config_file: Path | None = Field(None, description="The TOML file; by default kb.toml in the data folder.")
    engine_url: str | None = Field(None, description="Use the engine at this address instead of one in this process.")
    api_key: SecretStr | None = Field(None, description="The key to send to that engine.")
    disabled_plugins: StringList = Field([], description="Plugins that are not loaded, comma-separated.")
    required_plugins: StringList = Field([], description="Plugins without which nothing starts, comma-separated.")
    trace_hooks: bool = Field(False, description="Log every hook call with its results.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much the engine logs.")
    database_url: Annotated[DatabaseUrl | None, BeforeValidator(_postgres_url)] = Field(
        None, description="postgresql://… for a PostgreSQL database; by default a SQLite file in the data folder."
    )
    database_replica_url: Annotated[DatabaseUrl | None, BeforeValidator(_postgres_url)] = Field(
        None, description="postgresql://… of a read replica that answers searches; by default the database itself does."
    )
    database_pool_size: WholeNumber = Field(
        8, ge=1, le=1000, description="Connections to PostgreSQL that are kept, for reading and for writing each."
    )
    database_statement_timeout: Number = Field(
        600.0, gt=0, le=86_400, description="Seconds after which PostgreSQL gives up on a statement."
    )
    busy_timeout: Number = Field(30.0, gt=0, le=3600, description="Seconds to wait for another process's write.")
    bulk_safety_percent: WholeNumber = Field(
        70,
        ge=0,
        le=100,
        description="Bulk operations on a larger share of all documents need force; 0 switches this off.",
    )
    worker_lease: Number = Field(
        60.0, gt=0, le=86_400, description="Seconds after which the file of a worker that gave no sign of life is taken over."
    )
    max_file_bytes: WholeNumber = Field(100_000_000, ge=1, description="Larger files are refused.")
    max_text_chars: WholeNumber = Field(20_000_000, ge=1000, description="A file that holds more text than this is refused.")
    max_archive_files: WholeNumber = Field(10_000, ge=1, description="An archive with more files than this is refused.")
    extract_timeout: float = Field(60.0, gt=0, le=3600, description="Seconds that reading one file may take.")
    extract_memory_bytes: WholeNumber = Field(2_000_000_000, ge=100_000_000, description="Memory that reading one file may take.")
    max_body_bytes: WholeNumber = Field(32_000_000, ge=1024, description="Larger JSON bodies are refused.")
    body_timeout: Number = Field(60.0, gt=0, le=3600, description="Seconds to wait for more of a request's body.")
    unauthorized_per_minute: WholeNumber = Field(
        100, ge=0, description="How many wrong keys an address may try in a minute; 0 is no limit."
    )
    trusted_proxies: StringList = Field([], description="Addresses of proxies whose X-Forwarded-For tells the caller's address.")
    embedder: str = Field("wordllama", description="Which embedding model; 'none' for lexical search only.")
    search_reranker: str = Field("none", description="What orders the best hits of a hybrid search anew; 'none' for nothing.")
    chunker: str = Field("structure", description="How text is cut into chunks.")
    side_index_min_chunks: WholeNumber = Field(
        1000, ge=1, description="An organization with so many chunks gets a side index, which makes its searches fast."
    )
    side_index_tail_rows: WholeNumber = Field(
        8192, ge=1, description="So many new chunks are gathered before they become a segment of the side index."
    )
    allowed_hosts: StringList = Field([], description="Host names, beyond loopback, under which this engine is reached.")

    @field_validator("database_replica_url")
    @classmethod
    def _replica_of_something(cls, value: DatabaseUrl | None, info: ValidationInfo) -> DatabaseUrl | None:
        if value is not None and info.data.get("database_url") is None:
            raise ValueError("there is nothing it could be a replica of: set KB_DATABASE_URL as well")
        return value


@dataclass(frozen=True, slots=True)
class Setting:
    """One value as `kb config` shows it."""

    variable: str
    value: Any
    origin: str
    description: str


@dataclass(frozen=True, slots=True)
class Settings:
    host: HostSettings
    sections: Mapping[str, Section]
    values: tuple[Setting, ...]
    unknown_variables: tuple[str, ...]


def load_settings(bootstrap: Bootstrap, sections: Iterable[SettingsSection] = ()) -> Settings:
    """Read and validate everything, or stop with the first value that cannot be used."""
    table = read_toml(bootstrap.config_file)
    names = [section.name for section in sections]
    host_table = {key: value for key, value in table.items() if key not in names}
    # Where the data is was settled before anything else could be read.
    host, shown = _load(HostSettings, "KB_", host_table, bootstrap.config_file.name, {"data_dir": bootstrap.data_dir})
    loaded: dict[str, Section] = {}
    for section in sections:
        model: type[Section] = resolve(section.target)
        own = table.get(section.name, {})
        if not isinstance(own, dict):
            raise ConfigInvalid(f"[{section.name}] in {bootstrap.config_file} must be a table")
        loaded[section.name], more = _load(model, f"KB_{section.name.upper()}_", own, bootstrap.config_file.name)
        shown += more
    known = {setting.variable for setting in shown}
    unknown = sorted({name for name in _set_variables() if name not in known})
    return Settings(host, loaded, tuple(shown), tuple(unknown))


def _set_variables() -> set[str]:
    names = set(os.environ)
    if DOTENV.is_file():
        from dotenv import dotenv_values

        names |= set(dotenv_values(DOTENV))
    return {name.upper() for name in names if name.upper().startswith("KB_")}


def _load(
    model: type[S], prefix: str, table: dict[str, Any], file: str, settled: Mapping[str, Any] | None = None
) -> tuple[S, list[Setting]]:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        (file, lambda: table),
        (str(DOTENV), DotEnvSettingsSource(model, env_file=DOTENV, env_prefix=prefix)),
        ("environment", EnvSettingsSource(model, env_prefix=prefix)),
    )
    for origin, source in sources:
        try:
            found = source()
        except SettingsError as error:
            raise ConfigInvalid(f"{prefix}*, from {origin}: {error}") from None
        for name in model.model_fields.keys() & found.keys():
            values[name], origins[name] = found[name], origin
    values |= settled or {}
    try:
        loaded = model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        shown_value = _shown(model.model_fields[name], values.get(name))
        raise ConfigInvalid(
            f"{prefix}{name.upper()} is {shown_value} ({origins.get(name, 'default')}): {reason}; "
            f"allowed: {allowed_values(model.model_fields[name])}"
        ) from None
    shown = [
        Setting(prefix + name.upper(), getattr(loaded, name), origins.get(name, "default"), info.description or "")
        for name, info in model.model_fields.items()
    ]
    return loaded, shown


def _shown(info: FieldInfo, value: Any) -> str:
    """A value as an error may show it."""
    if any(word in str(info.annotation) for word in ("Secret", "DatabaseUrl")):
        return "'***'"
    return repr(re.sub(r"(?<=//)[^/]*(?=@)", "***", value) if isinstance(value, str) else value)


def allowed_values(info: FieldInfo) -> str:
    """What a field takes, in words: `int from 0 to 100`, `debug | info`."""
    annotation = info.annotation
    if get_origin(annotation) is Literal:
        return " | ".join(str(value) for value in get_args(annotation))
    bounds = {kind: getattr(item, kind) for item in info.metadata for kind in ("ge", "gt", "le", "lt") if hasattr(item, kind)}
    name = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(annotation or str)
    name = name or ("a comma-separated list" if get_origin(annotation) is list else str(annotation))
    words = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}
    return " ".join([name, *(words[kind].format(value) for kind, value in bounds.items())])
