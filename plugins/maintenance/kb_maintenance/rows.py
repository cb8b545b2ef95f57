"""Rows of tables as lines of an archive, with whatever columns a database has: plugins add theirs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api.parts import Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import document_tags

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
    return {
        name: _read(value) for name, value in row.items() if name in table.c and name not in _LOCAL
    }


def _read(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES])
    return value


def unknown_columns(table: sa.Table, row: Mapping[str, Any]) -> set[str]:
    return {f"{table.name}.{name}" for name in row if name not in table.c and name != "tags"}


def export_rows(
    tx: Tx,
    table: sa.Table,
    order: Sequence[str],
    *conditions: sa.ColumnElement[bool],
    lost: list[int] | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """The organization's rows, some at a time. With `lost`, rows of a damaged file are left out, and their number noted there."""
    columns = [table.c[name] for name in order]
    query = sa.select(table).where(tx.owns(table), *conditions)
    last: dict[str, Any] | None = None
    try:
        result = tx.connection.execute(
            query.order_by(*columns), execution_options={"yield_per": _AT_ONCE}
        )
        for part in result.mappings().partitions(_AT_ONCE):
            rows = [dict(row) for row in part]
            last = rows[-1]
            yield rows
    except exc.DatabaseError:
        if lost is None or tx.engine.name != "sqlite":
            raise
        if last is not None:
            query = query.where(
                sa.tuple_(*columns) > sa.tuple_(*(sa.literal(last[name]) for name in order))
            )
        yield from _readable(tx, table, query, lost)


def _readable(
    tx: Tx, table: sa.Table, query: sa.Select, lost: list[int]
) -> Iterator[list[dict[str, Any]]]:
    """The rows that can be read: a range of row numbers in which one cannot is halved, down to that row."""
    number = sa.literal_column(f'"{table.name}".rowid', sa.Integer)
    ranges = [(1, _highest(tx, table))]
    while ranges:
        low, high = ranges.pop()
        try:
            rows = tx.rows(query.where(number.between(low, high)).order_by(number))
        except exc.DatabaseError:
            if low == high:
                lost.append(low)
            else:
                middle = (low + high) // 2
                # The lower half first: documents come in the order of their ids.
                ranges += [(middle + 1, high), (low, middle)]
            continue
        if rows:
            yield rows


def _highest(tx: Tx, table: sa.Table) -> int:
    given = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name").bindparams(
        name=table.name
    )
    for query in (sa.text(f'SELECT max(rowid) FROM "{table.name}"'), given):
        try:
            return tx.scalar(query) or 1
        except exc.DatabaseError:
            continue
    return 1


def tags_of(tx: Tx, document_ids: Iterable[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {number: [] for number in document_ids}
    query = sa.select(document_tags.c.document_id, document_tags.c.tag).order_by(
        document_tags.c.tag
    )
    for number, tag in tx.execute(query.where(among(document_tags.c.document_id, list(found)))):
        found[number].append(tag)
    return found
