"""SQLite's vectors: one vec0 table per embedding space, partitioned by organization."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api.engine import Columns, VectorFill
from kb_sqlite import virtual_tables

if TYPE_CHECKING:
    from kb_sqlite.engine import SqliteEngine

# How many vectors vec0 keeps in one of its chunks. Reading or writing one goes along all pages before it in its chunk, and
# a chunk is freed only when all of its rows are gone: so far fewer than the 1024 that vec0 would choose itself.
_SLOTS = 64
# vec0 answers with no more than this.
_MOST = 4096

_shown = sa.table("active_vectors", sa.column("seq"), sa.column("embedding", sa.LargeBinary))


def create(connection: sa.Connection, index: str, dimensions: int) -> None:
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE {index} USING vec0(organization_id text partition key, "
        f"embedding float[{dimensions}], chunk_size={_SLOTS})"
    )
    index_partitions(connection, index)


def index_partitions(connection: sa.Connection, index: str) -> None:
    """Let vec0 find an organization's blocks of vectors without reading those of all."""
    name = f"{index}_by_organization"
    connection.exec_driver_sql(f"CREATE INDEX IF NOT EXISTS {name} ON {index}_chunks(partition00)")


def show(connection: sa.Connection, index: str | None) -> None:
    # A view: no query needs another one to learn the table's name, and none can use a former name.
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_shown.name}")
    rows = f"SELECT rowid, embedding FROM {index}" if index else "SELECT NULL, NULL WHERE FALSE"
    connection.exec_driver_sql(f"CREATE VIEW {_shown.name}(seq, embedding) AS {rows}")


def vector_of(chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
    return sa.select(_shown.c.embedding).where(_shown.c.seq == chunk).scalar_subquery()


class SqliteVectors:
    def __init__(
        self, engine: SqliteEngine, connection: sa.Connection, index: str, organization_id: str
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._index = index
        self._owner = organization_id

    @property
    def maintenance(self) -> SqliteVectorMaintenance:
        return SqliteVectorMaintenance(self._engine, self._connection, self._index)

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        values = [(seq, self._owner, vector) for seq, vector in rows]
        if values:
            insert = (
                f"INSERT INTO {self._index}(rowid, organization_id, embedding) VALUES (?, ?, ?)"
            )
            self._connection.exec_driver_sql(insert, values)
            added = [(seq, vector) for seq, _, vector in values]
            self._engine.changes.vectors_added(self._connection, self._index, self._owner, added)

    def remove(self, chunks: sa.Select) -> None:
        self._engine.changes.removed(self._connection, self._index, self._owner, chunks)
        table = sa.table(self._index, sa.column("rowid"))
        self._connection.execute(sa.delete(table).where(table.c.rowid.in_(chunks)))

    def search(
        self, vectors: Sequence[bytes], within: sa.Select | None, limit: int
    ) -> list[Columns]:
        if self._engine.changes.has(self._connection, self._index, self._owner):
            search = self._engine.accelerated.vectors
            found = search(self._connection, self._owner, self._index, vectors, within, limit)
            if found is not None:
                return [*found]
        return [self._scanned(vector, within, limit) for vector in vectors]

    def _scanned(self, vector: bytes, within: sa.Select | None, limit: int) -> Columns:
        """Return the nearest chunks by comparing all. Vectors have unit length, so L2 orders as cosine does."""
        names = ("rowid", "distance", "embedding", "organization_id")
        table = sa.table(self._index, *map(sa.column, names))
        query = sa.select(table.c.rowid, table.c.distance).order_by(table.c.distance)
        query = query.where(
            table.c.embedding.op("MATCH")(vector),
            sa.literal_column("k") == min(limit, _MOST),
            table.c.organization_id == self._owner,
        )
        if within is not None:
            query = query.where(table.c.rowid.in_(within))
        rows = self._connection.execute(query).all()
        return [row[0] for row in rows], [1.0 - row[1] * row[1] / 2.0 for row in rows]

    def has(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        indexed = sa.table(f"{self._index}_rowids", sa.column("rowid"))
        return sa.exists().where(indexed.c.rowid == chunk)

    def read(self, chunks: Sequence[int], *, anywhere: bool = False) -> dict[int, bytes]:
        # vec0 itself would read the whole table, or for each vector all that come before it in its chunk.
        run, index = self._connection.exec_driver_sql, self._index
        places = f"SELECT rowid, chunk_id, chunk_offset FROM {index}_rowids WHERE rowid IN (SELECT value FROM json_each(?))"
        by_chunk: dict[int, list[tuple[int, int]]] = {}
        for number, chunk, offset in run(places, (json.dumps(list(chunks)),)):
            by_chunk.setdefault(chunk, []).append((number, offset))
        read = (
            f"SELECT v.rowid, v.vectors, c.size FROM {index}_vector_chunks00 v "
            f"JOIN {index}_chunks c ON c.chunk_id = v.rowid "
            "WHERE v.rowid IN (SELECT value FROM json_each(?))"
        )
        found: dict[int, bytes] = {}
        for chunk, vectors, slots in run(read, (json.dumps(list(by_chunk)),)):
            size = len(vectors) // slots
            for number, offset in by_chunk[chunk]:
                found[number] = vectors[offset * size : (offset + 1) * size]
        return found


class SqliteVectorMaintenance:
    def __init__(self, engine: SqliteEngine, connection: sa.Connection, index: str) -> None:
        self._engine = engine
        self._connection = connection
        self._run = connection.exec_driver_sql
        self._index = index

    def count(self) -> int:
        return self._run(f"SELECT count(*) FROM {self._index}_rowids").scalar_one()

    def check(self) -> str | None:
        """Compare the parts: every row's chunk of vectors must be there, with room for its numbers."""
        index = self._index
        lost = (
            f"SELECT count(*) FROM {index}_rowids AS r "
            f"LEFT JOIN {index}_chunks AS c ON c.chunk_id = r.chunk_id "
            f"LEFT JOIN {index}_vector_chunks00 AS v ON v.rowid = r.chunk_id "
            f"WHERE c.chunk_id IS NULL OR v.vectors IS NULL"
        )
        try:
            rows = self._run(lost).scalar_one()
            self._run(f"SELECT rowid, embedding FROM {index} LIMIT 1").fetchall()
        except exc.DatabaseError as error:
            return str(error.orig)
        return f"{rows} vectors have lost their numbers" if rows else None

    def remove_strays(self) -> int:
        index = self._index
        known = f"SELECT 1 FROM chunks WHERE chunks.seq = {index}_rowids.rowid"
        strays = f"SELECT rowid FROM {index}_rowids WHERE NOT EXISTS ({known})"
        numbers = list(self._run(strays).scalars())
        for number in numbers:
            self._run(f"DELETE FROM {index} WHERE rowid = ?", (number,))
        return len(numbers)

    def drop(self) -> None:
        self._engine.forget_accelerator(self._connection, self._index)
        virtual_tables.drop(self._connection, self._index)

    def fill(self) -> VectorFill:
        index = self._index
        room = f"SELECT coalesce(sum(size), 0), coalesce(max(size), 1) FROM {index}_chunks"
        slots, per_chunk = self._run(room).one()
        joined = f"SELECT count(*) FROM {index}_rowids r JOIN {index}_chunks c USING (chunk_id) GROUP BY c.partition00"
        rows = list(self._run(joined).scalars())
        size = f"SELECT coalesce(sum(length(vectors)), 0) FROM {index}_vector_chunks00"
        return VectorFill(
            rows=sum(rows),
            slots=slots,
            needed=sum(per_chunk * -(-number // per_chunk) for number in rows),
            bytes=self._run(size).scalar_one(),
        )
