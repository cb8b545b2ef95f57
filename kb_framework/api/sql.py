"""SQL pieces that every engine spells its own way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from kb_framework.api.nesting import MAX_STORED_DEPTH, PROBLEM, is_deeper

_CLAUSES = sa.sql.visitors.InternalTraversal.dp_clauseelement_list


def from_json(text: str | bytes) -> Any:
    """As `json.loads`, several times faster: most rows that are read carry a JSON column.

    What no answer could hold is replaced by an object that says so, so that one such row costs only itself.
    """
    try:
        value = _decoded(text)
    except RecursionError:
        return _too_deep()
    except ValueError:
        return {PROBLEM: "this is not JSON, so it cannot be shown"}
    brackets = (b"[", b"{") if isinstance(text, bytes) else ("[", "{")
    if sum(map(text.count, brackets)) > MAX_STORED_DEPTH and is_deeper(value, MAX_STORED_DEPTH):  # type: ignore[arg-type]
        return _too_deep()
    return value


def _decoded(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # `json` writes what it alone reads: NaN, and halves of characters.
        return json.loads(text)


def _too_deep() -> dict[str, str]:
    return {
        PROBLEM: f"this is nested more than {MAX_STORED_DEPTH} levels deep, so it cannot be shown"
    }


class JsonValues(ColumnElement[Any]):
    """The values of a JSON array as a subquery: one bound parameter however many there are."""

    inherit_cache = True
    _traverse_internals = [
        ("document", sa.sql.visitors.InternalTraversal.dp_clauseelement),
        ("numbers", sa.sql.visitors.InternalTraversal.dp_boolean),
    ]

    def __init__(self, document: sa.BindParameter[str], *, numbers: bool) -> None:
        self.numbers = numbers
        self.document = document


def among(column: ColumnElement[Any], values: Iterable[int | str]) -> ColumnElement[bool]:
    """`column IN (values)` for any number of values."""
    return _in(column, sa.bindparam(None, json.dumps(list(values)), type_=sa.Text, unique=True))


def among_given(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """`column IN (values)`, with the values as a JSON array given under a name to a statement that is made once."""
    return _in(column, sa.bindparam(name, type_=sa.Text))


def _in(column: ColumnElement[Any], document: sa.BindParameter[str]) -> ColumnElement[bool]:
    values = JsonValues(document, numbers=isinstance(column.type, sa.Integer))
    return column.op("IN", is_comparison=True, return_type=sa.Boolean())(values)


class NewUuid(ColumnElement[Any]):
    """A random UUID as text, a new one for every row."""

    inherit_cache = True
    type = sa.Text()


class JsonObject(ColumnElement[Any]):
    """A JSON object made of columns, row by row."""

    inherit_cache = True
    type = sa.JSON()
    _traverse_internals = [
        ("names", sa.sql.visitors.InternalTraversal.dp_string_list),
        ("values", _CLAUSES),
    ]

    def __init__(self, fields: Mapping[str, ColumnElement[Any]]) -> None:
        self.names = list(fields)
        self.values = list(fields.values())


class Forbidden(sa.schema.ExecutableDDLElement):
    """A trigger that refuses UPDATE or DELETE on a table, with a message: it can only be added to."""

    def __init__(self, table: str, verb: Literal["UPDATE", "DELETE"], message: str) -> None:
        self.table = table
        self.verb = verb
        self.message = message
        self.name = f"{table}_no_{verb.lower()}"
