"""One table on both sides of a copy: read in batches by its key, written, and compared by a check sum.

Both sides are known by reflection, so any plugin's tables and columns are copied; values are converted by SQLAlchemy's types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, NamedTuple

import sqlalchemy as sa

Position = list[Any]


class CheckSum(NamedTuple):
    rows: int
    sha256: str


class TableCopy:
    def __init__(self, source: sa.Table, target: sa.Table) -> None:
        self.name = source.name
        self.target = target
        self._source = source
        self._names = [column.name for column in source.c]
        self._key = [column.name for column in source.primary_key]
        self._is_json = [isinstance(target.c[name].type, sa.JSON) for name in self._names]
        self._insert = sa.insert(target).values(
            {name: self._bound(number, name) for number, name in enumerate(self._names)}
        )

    def count(self, connection: sa.Connection) -> int:
        """How many rows either side has."""
        return connection.execute(
            sa.select(sa.func.count()).select_from(sa.table(self.name))
        ).scalar_one()

    def read(
        self, connection: sa.Connection, after: Position | None, limit: int
    ) -> tuple[list[Sequence[Any]], Position | None]:
        """The next rows of the source, and where they end."""
        # Where there is no key, SQLite numbers the rows.
        key = [self._source.c[name] for name in self._key] or [
            sa.literal_column("rowid", sa.Integer)
        ]
        plain = [
            sa.type_coerce(column, sa.Integer if isinstance(column.type, sa.Integer) else sa.Text)
            for column in key
        ]
        query = sa.select(*self._columns(self._source), *plain).order_by(*key).limit(limit)
        if after is not None:
            query = query.where(
                sa.tuple_(*plain) > sa.tuple_(*after) if len(key) > 1 else plain[0] > after[0]
            )
        rows = connection.execute(query).all()
        width = len(self._names)
        return [row[:width] for row in rows], list(rows[-1][width:]) if rows else None

    def write(self, connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> None:
        connection.execute(
            self._insert,
            [{f"v{number}": value for number, value in enumerate(row)} for row in rows],
        )

    def check_sum(
        self, connection: sa.Connection, *, of_target: bool, at_once: int
    ) -> Iterator[int | CheckSum]:
        """Numbers of rows as they are read, then the check sum: SHA-256 over the rows, as JSON, in the order of their key."""
        table = self.target if of_target else self._source
        key = [table.c[name] for name in self._key]
        # Text in the order of its bytes, as in SQLite, whatever the language of the database.
        ordered = [
            column.collate("C") if of_target and isinstance(column.type, sa.String) else column
            for column in key
        ]
        query = sa.select(*self._columns(table)).order_by(*ordered)
        digest, count = hashlib.sha256(), 0
        lines: list[bytes] = []
        for part in connection.execute(query, execution_options={"yield_per": at_once}).partitions(
            at_once
        ):
            for row in part:
                line = self._line(row)
                if key:
                    digest.update(line)
                else:
                    lines.append(hashlib.sha256(line).digest())
            count += len(part)
            yield len(part)
        # Rows without a key have no order of their own.
        digest.update(b"".join(sorted(lines)))
        yield CheckSum(count, digest.hexdigest())

    def _columns(self, table: sa.Table) -> list[sa.ColumnElement[Any]]:
        """JSON as the text that it is, since there a null of JSON differs from none; the rest as values of the target's types."""
        return [
            (
                sa.cast(table.c[name], sa.Text)
                if is_json
                else sa.type_coerce(table.c[name], _generic(self.target.c[name]))
            ).label(f"c{number}")
            for number, (name, is_json) in enumerate(zip(self._names, self._is_json, strict=True))
        ]

    def _bound(self, number: int, name: str) -> sa.ColumnElement[Any]:
        kind = self.target.c[name].type
        if self._is_json[number]:
            return sa.cast(sa.bindparam(f"v{number}", type_=sa.Text()), kind)
        return sa.bindparam(f"v{number}", type_=kind)

    def _line(self, row: Sequence[Any]) -> bytes:
        values = [
            {"json": json.loads(value)} if is_json and value is not None else _plain(value)
            for value, is_json in zip(row, self._is_json, strict=True)
        ]
        return json.dumps(values, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _generic(column: sa.Column[Any]) -> sa.types.TypeEngine[Any]:
    try:
        return column.type.as_generic()
    except NotImplementedError:
        return column.type


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value.normalize())}
    if isinstance(value, date | time):
        return {"time": value.isoformat()}
    return (
        value
        if value is None or isinstance(value, str | int | float | bool)
        else {"text": str(value)}
    )


def reflected(connection: sa.Connection, names: Sequence[str]) -> Mapping[str, sa.Table]:
    """Tables by name, those first that others refer to."""
    metadata = sa.MetaData()
    metadata.reflect(connection, only=lambda name, _: name in names)
    return {table.name: table for table in metadata.sorted_tables if table.name in names}
