"""The bases and field types of what goes over the wire, and one translation of pydantic's findings."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from kb_framework.api.messages import finding_words, shown, unknown
from kb_framework.api.nesting import MAX_DEPTH, is_deeper
from kb_framework.api.times import parse_time
from kb_framework.bootstrap import split_list as split_list
from kb_framework.errors import InvalidInput, error_codes

M = TypeVar("M", bound=BaseModel)

MAX_INT = 2**63 - 1
MAX_TAGS = 1000
# Of a document's metadata, as JSON. A page of a list has up to a hundred of them.
MAX_JSON_BYTES = 262_144


def _clean_text(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must not contain a lone surrogate") from None
    return text


def _bounded_json(value: dict[str, Any]) -> dict[str, Any]:
    if problem := too_much_json(value):
        raise ValueError(f"must not be {problem}")
    return _clean_json(value)


def too_much_json(value: Any) -> str | None:
    """Why this is more than a document's metadata may be; None where it is not."""
    if is_deeper(value, MAX_DEPTH):
        return f"nested more than {MAX_DEPTH} levels deep"
    if len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) > MAX_JSON_BYTES:
        return f"larger than {MAX_JSON_BYTES} bytes as JSON"
    return None


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        _clean_text(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _clean_text(key)
            _clean_json(inner)
    elif isinstance(value, list):
        for inner in value:
            _clean_json(inner)
    return value


def clean_tag(tag: str) -> str:
    """A tag as it is stored: trimmed and composed; case is kept and matters."""
    tag = unicodedata.normalize("NFC", _clean_text(tag).strip())
    if not 1 <= len(tag) <= 128:
        raise ValueError(f"{shown(tag)} has {len(tag)} characters; a tag has 1 to 128 characters")
    if "," in tag or any(
        unicodedata.category(char).startswith("C") and char != "\u200d" for char in tag
    ):
        raise ValueError(
            f"{shown(tag)} is not a tag: a tag has no commas and no control characters"
        )
    return tag


def is_chunk_id(text: str) -> bool:
    """Whether it is 8-4-4-4-12 hexadecimal digits, of any version and in any case."""
    return _CHUNK_ID.fullmatch(text) is not None


def _well_formed(text: str) -> str:
    if not is_chunk_id(text):
        raise ValueError("must be an id like 6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    return text.lower()


_CHUNK_ID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
Text = Annotated[str, AfterValidator(_clean_text)]
Tag = Annotated[str, AfterValidator(clean_tag)]
Id = Annotated[int, Field(ge=-MAX_INT - 1, le=MAX_INT)]
ChunkId = Annotated[str, AfterValidator(_well_formed)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_bounded_json)]
# As an archive has it; see `too_much_json`.
StoredJson = Annotated[dict[str, Any], AfterValidator(_clean_json)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]
Time = Annotated[Text, Field(min_length=1, max_length=64), AfterValidator(parse_time)]


class Model(BaseModel):
    """The base of what goes over the wire. What validates it is made when it is first used: most commands use a few of all."""

    model_config = ConfigDict(defer_build=True)


class ErrorV1(Model):
    """An error of search, of the CLI's `--json`, of MCP; `code` is from the closed list."""

    schema_version: Literal["error.v1"]
    code: str = Field(json_schema_extra={"enum": [*error_codes()]})
    message: str
    details: dict[str, Any]
    hint: str | None


def made(model: type[M], fields: dict[str, Any], more: dict[str, Any] | None = None) -> M:
    """What `model_construct` makes of all fields, in a tenth of the time; `more` are those beyond, where the model allows any."""
    item = model.__new__(model)
    # As pydantic does it, but without looking for aliases and defaults: an answer may have a thousand of these.
    object.__setattr__(item, "__dict__", fields)
    object.__setattr__(item, "__pydantic_fields_set__", set(fields))
    object.__setattr__(item, "__pydantic_extra__", more)
    object.__setattr__(item, "__pydantic_private__", None)
    return item


class Body(Model):
    """The base of request bodies: no unknown fields, no guessing of types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _take_whole_numbers(cls, values: Any) -> Any:
        return with_whole_numbers(cls, values)


class Question(Body):
    """The base of bodies that only ask: an empty text is a field that was not given."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        optional = {
            name
            for name, info in cls.model_fields.items()
            if not info.is_required() and takes_text(info.annotation)
        }
        return {
            name: value for name, value in values.items() if value != "" or name not in optional
        }


def takes_text(annotation: Any) -> bool:
    """Return whether it is a text, and no list of texts, no choice of words, and nothing with a format such as an id."""
    parts = get_args(annotation)
    if any(
        isinstance(part, FieldInfo)
        and isinstance(extra := part.json_schema_extra, dict)
        and "format" in extra
        for part in parts
    ):
        return False
    return annotation is str or (get_origin(annotation) is not list and any(map(takes_text, parts)))


def takes_choice(annotation: Any) -> bool:
    """Return whether it is one of several words, or may be."""
    if get_origin(annotation) is Literal:
        return True
    return get_origin(annotation) is not list and any(map(takes_choice, get_args(annotation)))


def takes_list(annotation: Any) -> bool:
    """Return whether it is a list, or may be one."""
    return get_origin(annotation) is list or any(map(takes_list, get_args(annotation)))


def with_whole_numbers(model: type[BaseModel], values: Any) -> Any:
    """The values with 3 for 3.0 where the model takes a whole number: to JSON they are the same."""
    if not isinstance(values, dict):
        return values
    return {
        name: _whole(value) if name in _whole_fields(model) else value
        for name, value in values.items()
    }


@functools.cache
def _whole_fields(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(
        name for name, info in model.model_fields.items() if _takes_whole(info.annotation)
    )


def _takes_whole(annotation: Any) -> bool:
    return annotation is int or any(map(_takes_whole, get_args(annotation)))


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def validate(model: type[M], values: Any) -> M:
    try:
        return model.model_validate(values, strict=True)
    except ValidationError as error:
        raise invalid(error, model) from None


def invalid(
    error: ValidationError, model: type[BaseModel] | None = None, prefix: tuple[str, ...] = ()
) -> InvalidInput:
    """Return the first finding, with the field it is about; `model` tells which fields there are."""
    findings = error.errors(include_url=False)
    # A misspelt field explains why another one is missing.
    first = next((item for item in findings if item["type"] == "extra_forbidden"), findings[0])
    path, inner = _located((*prefix, *first["loc"]), model)
    field = ".".join(path) or "body"
    if first["type"] == "extra_forbidden":
        message, hint = unknown(
            field, list(inner.model_fields) if inner else [], "a field of this request"
        )
        return InvalidInput(message, hint=hint if inner else None, field=field)
    return InvalidInput(f"{field}: {finding_words(first)}", field=field)


def _located(
    place: Iterable[Any], model: type[BaseModel] | None
) -> tuple[list[str], type[BaseModel] | None]:
    """Return the path to a finding, without the branches of unions, and the model that holds it."""
    path: list[str] = []
    holder = inner = model
    for part in place:
        info = inner.model_fields.get(part) if inner and isinstance(part, str) else None
        if info is None and isinstance(part, str) and ("[" in part or part in _BRANCHES):
            continue
        path.append(str(part))
        if isinstance(part, str):
            holder, inner = inner, _model_in(info.annotation) if info else None
    return path, holder


# What pydantic calls the branches of a union.
_BRANCHES = {"str", "int", "float", "bool", "none", "list", "dict"}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
