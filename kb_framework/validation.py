"""Bad input, said clearly: field types for bodies, and one translation of pydantic's findings."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from kb_framework.errors import InvalidInput

M = TypeVar("M", bound=BaseModel)

MAX_INT = 2**63 - 1


def _clean_text(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must not contain a lone surrogate") from None
    return text


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
        raise ValueError("a tag has 1 to 128 characters")
    if "," in tag or any(unicodedata.category(char).startswith("C") and char != "\u200d" for char in tag):
        raise ValueError("a tag has no commas and no control characters")
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
JsonObject = Annotated[dict[str, Any], AfterValidator(_clean_json)]


class Model(BaseModel):
    """The base of what goes over the wire. What validates it is made when it is first used: most commands use a few of all."""

    model_config = ConfigDict(defer_build=True)


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


def validate(model: type[M], values: Any) -> M:
    try:
        return model.model_validate(values, strict=True)
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError) -> InvalidInput:
    """The first finding, with the field it is about."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "body"
    return InvalidInput(f"{field}: {in_words(first['msg'])}", field=field)


def in_words(message: str) -> str:
    """A validator's message as the end of a sentence that begins with the field."""
    message = message.removeprefix("Value error, ")
    plain = {
        "Extra inputs are not permitted": "is not a field of this request",
        "Field required": "is required",
    }
    return plain.get(message) or message[:1].lower() + message[1:]
