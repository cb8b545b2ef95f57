"""SQL pieces that every engine spells its own way."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement


class JsonValues(ColumnElement[Any]):
    """The values of a JSON array as a subquery: one bound parameter however many there are."""

    inherit_cache = True
    _traverse_internals = [("document", sa.sql.visitors.InternalTraversal.dp_clauseelement)]

    def __init__(self, values: Iterable[int | str]) -> None:
        self.document = sa.bindparam(None, json.dumps(list(values)), type_=sa.Text, unique=True)


def among(column: ColumnElement[Any], values: Iterable[int | str]) -> ColumnElement[bool]:
    """`column IN (values)` for any number of values."""
    return column.op("IN", is_comparison=True, return_type=sa.Boolean())(JsonValues(values))
