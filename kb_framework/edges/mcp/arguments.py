"""The arguments of a tool call: what clients send otherwise than the schema says is read as it is meant."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from kb_framework.api.models import with_whole_numbers
from kb_framework.bootstrap import split_list
from kb_framework.errors import InvalidInput

# The one parameter in which a tool takes those fields of its input that are filters.
FILTERS = "filters"


def parsed(
    model: type[BaseModel],
    given: Mapping[str, Any],
    renamed: Mapping[str, str],
    filters: Iterable[str],
) -> dict[str, Any]:
    """Return the fields that a client set, by name, checked by the model.

    Lists, objects and numbers may come as text. `renamed` maps former names to those of today; `filters` are the fields
    that may come in an object.
    """
    values = {name: value for name, value in given.items() if value is not None}
    if filters:
        values = _spread(values, frozenset(filters))
    for former, name in renamed.items():
        if former in values and name not in values:
            values[name] = values.pop(former)
    for name, info in model.model_fields.items():
        if isinstance(values.get(name), str) and not _takes_text(info.annotation):
            values[name] = _untexted(values[name], info.annotation)
    checked = model.model_validate(with_whole_numbers(model, values), strict=True)
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def _spread(values: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the arguments with those of `filters` beside the others. What is not known there stays an error."""
    inner = values.pop(FILTERS, None)
    if inner is None:
        return values
    if isinstance(inner, str):
        inner = _untexted(inner, dict)
    if not isinstance(inner, dict):
        raise InvalidInput("filters: must be an object", field=FILTERS)
    for name, value in inner.items():
        if value is None:
            continue
        if name in values:
            raise InvalidInput(f"{name}: given twice, in filters too", field=name)
        values[name] = value
    return values


def _untexted(text: str, annotation: Any) -> Any:
    """Return the list or object that a client sent as text: as JSON, or a list of texts as `a,b`."""
    if _lists_text(annotation) and text.strip() and not text.lstrip().startswith("["):
        return split_list(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _lists_text(annotation: Any) -> bool:
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is list:
        return _takes_text(parts[0])
    return any(_lists_text(part) for part in parts)


def _takes_text(annotation: Any) -> bool:
    parts = typing.get_args(annotation) if typing.get_origin(annotation) not in (list, dict) else ()
    return (
        annotation is str
        or typing.get_origin(annotation) is typing.Literal
        or any(_takes_text(part) for part in parts)
    )
