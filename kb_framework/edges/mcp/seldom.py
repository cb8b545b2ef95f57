"""Seldom used filters of a tool, described as one parameter: models pay for the description of each."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from kb_framework.api import Seldom
from kb_framework.edges.mcp.arguments import FILTERS
from kb_framework.operations import type_of


def seldom(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the filters that a tool takes in one object; none where it has a parameter of that name."""
    if FILTERS in model.model_fields:
        return ()
    return tuple(name for name, info in model.model_fields.items() if _is_seldom(info))


def described(model: type[BaseModel]) -> type[BaseModel]:
    """Return the model that a tool's parameters are described by: seldom used filters are one object."""
    names = seldom(model)
    nested = {
        name: inner for name, info in model.model_fields.items() if (inner := _filters_in(info))
    }
    if not names and not nested:
        return model
    fields: dict[str, Any] = {
        name: (type_of(info), Field(info.default, description=info.description))
        for name, info in model.model_fields.items()
        if name not in names
    }
    for name, inner in nested.items():
        words = f"{model.model_fields[name].description or ''} {_listed(inner, inner.model_fields)}"
        fields[name] = (dict[str, Any] | None, Field(None, description=words.strip()))
    if names:
        words = f"More filters: {_listed(model, names)}"
        fields[FILTERS] = (dict[str, Any] | None, Field(None, description=words))
    return create_model(model.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _filters_in(info: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that is an object with seldom used filters."""
    for part in (info.annotation, *typing.get_args(info.annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part if any(map(_is_seldom, part.model_fields.values())) else None
    return None


def _listed(model: type[BaseModel], names: Iterable[str]) -> str:
    return ", ".join(name + _shape(model.model_fields[name].annotation) for name in names) + "."


def _is_seldom(info: FieldInfo) -> bool:
    return any(isinstance(item, Seldom) for item in info.metadata)


def _shape(annotation: Any) -> str:
    """Return a short sign of what a filter takes; texts and numbers need none."""
    origin = typing.get_origin(annotation)
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    if origin is list:
        return "[]"
    if origin is typing.Literal:
        return "=" + "|".join(map(str, parts))
    if annotation is bool:
        return "=true|false"
    return _shape(parts[0]) if parts else ""
