"""Rows of tables as lines of an archive, with whatever columns a database has: plugins add theirs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from kb_framework.store.sql import among
from kb_framework.store.store import Tx
from kb_framework.store.tables import document_tags

# They say where a row is in this very database.
_LOCAL = {"organization_id", "seq"}
_BYTES = "$bytes"
_AT_ONCE = 500


def table_here(tx: Tx, name: str) -> sa.Table | None:
    """A table with the columns that it really has."""
    if not sa.inspect(tx.connection).has_table(name):
        return None
    return sa.Table(name, sa.MetaData(), autoload_with=tx.connection, resolve_fks=False)


def to_line(row: Mapping[str, Any]) -> bytes:
    values = {name: _written(value) for name, value in row.items() if name not in _LOCAL}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _written(value: Any) -> Any:
    return {_BYTES: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def for_table(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line that the table has a column for."""
    return {name: _read(value) for name, value in row.items() if name in table.c and name not in _LOCAL}


def _read(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES])
    return value


def unknown_columns(table: sa.Table, row: Mapping[str, Any]) -> set[str]:
    return {f"{table.name}.{name}" for name in row if name not in table.c and name != "tags"}


def export_rows(
    tx: Tx, table: sa.Table, order: Iterable[str], *conditions: sa.ColumnElement[bool]
) -> Iterator[list[dict[str, Any]]]:
    """The organization's rows, some at a time."""
    query = sa.select(table).where(tx.owns(table), *conditions).order_by(*(table.c[name] for name in order))
    result = tx.connection.execute(query, execution_options={"yield_per": _AT_ONCE})
    for part in result.mappings().partitions(_AT_ONCE):
        yield [dict(row) for row in part]


def tags_of(tx: Tx, document_ids: Iterable[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {number: [] for number in document_ids}
    query = sa.select(document_tags.c.document_id, document_tags.c.tag).order_by(document_tags.c.tag)
    for number, tag in tx.execute(query.where(among(document_tags.c.document_id, list(found)))):
        found[number].append(tag)
    return found
