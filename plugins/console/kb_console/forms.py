"""Controls made of models: what a field takes says which control it gets."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kb_framework.api.models import clean_tag, takes_list

Kind = Literal["text", "long", "tags", "list", "number", "choice", "flag", "maybe", "date", "json"]

# Longer text gets more than a line.
_LONG = 500
_DATES = ("_after", "_before")


class Control(NamedTuple):
    """A control of a form, with what is in it."""

    name: str
    label: str
    help: str
    kind: Kind
    required: bool
    values: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    @property
    def value(self) -> str:
        return self.values[0] if self.values else ""


def controls(
    model: type[BaseModel],
    names: Iterable[str] | None = None,
    given: Mapping[str, list[str]] | None = None,
) -> list[Control]:
    """Return a control for each of a model's fields, or of some of them."""
    wanted = (
        model.model_fields
        if names is None
        else [name for name in names if name in model.model_fields]
    )
    return [
        _control(name, model.model_fields[name], tuple((given or {}).get(name, ())))
        for name in wanted
    ]


def _control(name: str, info: FieldInfo, values: tuple[str, ...]) -> Control:
    bare = _bare(info.annotation)
    marks = [*info.metadata, *_marks(info.annotation)]
    choices = tuple(map(str, typing.get_args(bare))) if typing.get_origin(bare) is Literal else ()
    required = info.is_required()
    if (
        not values
        and not required
        and isinstance(info.default, str | int)
        and not isinstance(info.default, bool)
    ):
        values = (str(info.default),)
    return Control(
        name,
        name.replace("_", " ").capitalize(),
        info.description or "",
        _kind(name, info.annotation, bare, marks, optional=not required and info.default is None),
        required,
        values,
        choices,
        _bound(marks, annotated_types.Ge, "ge"),
        _bound(marks, annotated_types.Le, "le"),
    )


def _kind(name: str, annotation: Any, bare: Any, marks: list[Any], *, optional: bool) -> Kind:
    if takes_list(annotation):
        return "tags" if _holds_tags(annotation) else "list"
    if typing.get_origin(bare) is Literal:
        return "choice"
    if bare is bool:
        return "maybe" if optional else "flag"
    if bare in (int, float):
        return "number"
    if typing.get_origin(bare) is dict or bare is dict or _is_model(bare):
        return "json"
    if name.endswith(_DATES) or name in ("since", "until"):
        return "date"
    longest = _bound(marks, annotated_types.MaxLen, "max_length")
    return (
        "long"
        if longest is not None and longest > _LONG and name in ("text", "snippet_text")
        else "text"
    )


def _is_model(bare: Any) -> bool:
    return isinstance(bare, type) and issubclass(bare, BaseModel)


def _holds_tags(annotation: Any) -> bool:
    return any(getattr(mark, "func", None) is clean_tag for mark in _marks(annotation))


def _marks(annotation: Any) -> list[Any]:
    """Return what `Annotated` says anywhere in a type."""
    found: list[Any] = []
    if typing.get_origin(annotation) is Annotated:
        for mark in typing.get_args(annotation)[1:]:
            found += [mark, *getattr(mark, "metadata", ())]
    for part in typing.get_args(annotation):
        found += _marks(part)
    return found


def _bound(marks: list[Any], kind: type, attribute: str) -> int | None:
    return next((getattr(mark, attribute) for mark in marks if isinstance(mark, kind)), None)


def _bare(annotation: Any) -> Any:
    if typing.get_origin(annotation) is Annotated:
        return _bare(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        return _bare(parts[0])
    return annotation
