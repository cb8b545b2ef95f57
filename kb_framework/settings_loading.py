"""Reading all settings from their sources, with the origin of each value."""

from __future__ import annotations

import json
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from kb_framework.api import SettingsSection, resolve
from kb_framework.api.messages import finding_words, nearest
from kb_framework.api.settings import DatabaseUrl, Section
from kb_framework.bootstrap import Bootstrap, Source, split_list
from kb_framework.errors import ConfigInvalid
from kb_framework.masking import MASK, masked, masked_address
from kb_framework.settings import HostSettings

S = TypeVar("S", bound="Section")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value as `kb config` shows it."""

    variable: str
    # The place in a TOML file: `embedder`, `weather.city`.
    key: str
    value: Any
    origin: str
    description: str
    # What it names, where it names something that plugins contribute, and whether "none" is a name too: "embedder".
    names: str | None = None
    may_be_none: bool = False

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
    # Variables that no setting has, each with the name of the nearest setting, if one is near.
    unknown_variables: Mapping[str, str | None]


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
    unknown = {name: nearest(name, known) for name in sorted(given - known_or_unused)}
    return Settings(host, loaded, tuple(shown), unknown)


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
                *_what_it_names(info),
            )
            for name, info in model.model_fields.items()
        ]
        return loaded, shown
    info = model.model_fields[name]
    raise ConfigInvalid(
        f"{prefix}{name.upper()}{whose} is {_shown(info, values.get(name))} ({places.get(name, 'default')}): {reason}; "
        f"allowed: {allowed_values(info)}"
    ) from None


def _what_it_names(info: FieldInfo) -> tuple[str | None, bool]:
    extra = info.json_schema_extra
    if not isinstance(extra, dict) or not isinstance(names := extra.get("names"), str):
        return None, False
    return names, bool(extra.get("none"))


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
