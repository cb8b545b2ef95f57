"""Vectors on PostgreSQL by pgvector: a table per embedding space, whole float32 numbers, an HNSW index where it pays.

An organization with few vectors, or a filter that leaves few, is searched exactly. A large organization has an HNSW index of its
own, partial on it, so that another's vectors are never walked through. It holds half-precision numbers, which halves it; what it
finds is ordered anew by the whole ones. Filters are applied while the index is walked (`hnsw.iterative_scan`), and the walk goes
on until there is enough, so that a filter loses no hits.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from kb_framework.api.engine import Columns, VectorFill
from kb_postgres.dialect import VectorBytes, from_sent, to_text
from kb_postgres.partitions import create_table

# Up to so many vectors an exact search is as fast as an index, and never misses.
EXACT = 20_000
# What pgvector can index in half precision.
MAX_DIMENSIONS = 4000
_INLINE_DIMENSIONS = 1900
_CANDIDATES = 100
_chunks = sa.table("chunks", sa.column("seq", sa.BigInteger))
_shown = sa.table(
    "active_vectors", sa.column("seq", sa.BigInteger), sa.column("embedding", VectorBytes())
)


def _table(index: str) -> sa.TableClause:
    columns = (
        sa.column("seq", sa.BigInteger),
        sa.column("organization_id", sa.String),
        sa.column("embedding"),
    )
    return sa.table(index, *columns)


def hnsw_name(index: str, organization_id: str) -> str:
    return f"{index}_hnsw_{hashlib.blake2b(organization_id.encode(), digest_size=8).hexdigest()}"


def has_hnsw(connection: sa.Connection, index: str, organization_id: str) -> bool:
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
    return bool(connection.exec_driver_sql(valid, (hnsw_name(index, organization_id),)).scalar())


def create_vector_table(connection: sa.Connection, index: str, dimensions: int) -> None:
    # A vector that fits a page stays in its row, which an exact search reads faster.
    storage = "PLAIN" if dimensions <= _INLINE_DIMENSIONS else "EXTERNAL"
    create_table(
        connection,
        index,
        "seq BIGINT NOT NULL, organization_id VARCHAR(36) NOT NULL, "
        f"embedding vector({dimensions}) STORAGE {storage} NOT NULL, PRIMARY KEY (seq, organization_id)",
    )


def index_vectors(connection: sa.Connection, index: str) -> None:
    connection.exec_driver_sql(
        f"CREATE INDEX {index}_by_organization ON {index} (organization_id, seq)"
    )


def create(connection: sa.Connection, index: str, dimensions: int) -> None:
    create_vector_table(connection, index, dimensions)
    index_vectors(connection, index)


def show(connection: sa.Connection, index: str | None) -> None:
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_shown.name}")
    rows = "SELECT NULL::bigint, NULL::bytea WHERE FALSE"
    if index:
        rows = f"SELECT seq, vector_send(embedding) FROM {index}"
    connection.exec_driver_sql(f"CREATE VIEW {_shown.name} (seq, embedding) AS {rows}")


def vector_of(chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
    return sa.select(_shown.c.embedding).where(_shown.c.seq == chunk).scalar_subquery()


class PostgresVectors:
    def __init__(self, connection: sa.Connection, index: str, organization_id: str) -> None:
        self._connection = connection
        self._index = index
        self._table = _table(index)
        self._owner = organization_id

    @property
    def maintenance(self) -> PostgresVectorMaintenance:
        return PostgresVectorMaintenance(self._connection, self._index)

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        values = [(seq, self._owner, to_text(vector)) for seq, vector in rows]
        if values:
            columns = "(seq, organization_id, embedding)"
            insert = f"INSERT INTO {self._index} {columns} VALUES (%s, %s, %s::vector)"
            self._connection.exec_driver_sql(insert, values)

    def remove(self, chunks: sa.Select) -> None:
        mine = self._table.c.organization_id == self._owner
        self._connection.execute(sa.delete(self._table).where(mine, self._table.c.seq.in_(chunks)))

    def search(
        self, vectors: Sequence[bytes], within: sa.Select | None, limit: int
    ) -> list[Columns]:
        return [self._search_one(vector, within, limit) for vector in vectors]

    def _search_one(self, vector: bytes, within: sa.Select | None, limit: int) -> Columns:
        table, connection = self._table, self._connection
        parameters = {"owner": self._owner, "asked": to_text(vector), "limit": limit}
        candidates = sa.select(table.c.seq, table.c.embedding)
        candidates = candidates.where(table.c.organization_id == sa.bindparam("owner"))
        if within is not None:
            candidates = candidates.where(table.c.seq.in_(within))
        if has_hnsw(connection, self._index, self._owner) and not self._few(within):
            half = f"halfvec({len(vector) // 4})"
            wide = max(4 * limit, _CANDIDATES)
            connection.exec_driver_sql(
                "SET LOCAL hnsw.iterative_scan = relaxed_order; "
                f"SET LOCAL hnsw.ef_search = {min(wide, 1000)}; "
                "SET LOCAL hnsw.max_scan_tuples = 2147483647; "
                "SET LOCAL hnsw.scan_mem_multiplier = 8; SET LOCAL enable_seqscan = off"
            )
            nearest = sa.text(f"{self._index}.embedding::{half} <=> CAST(:asked AS {half})")
            candidates = candidates.order_by(nearest).limit(wide)
        found = candidates.subquery("candidates")
        distance = sa.text("candidates.embedding <=> CAST(:asked AS vector) AS distance")
        query = sa.select(found.c.seq, distance).order_by(sa.text("distance"), found.c.seq)
        query = query.limit(sa.bindparam("limit", type_=sa.Integer))
        rows = connection.execute(query, parameters).all()
        # A vector without length has no direction, and so no distance: it is near to nothing.
        scores = [0.0 if math.isnan(distance) else 1.0 - distance for _, distance in rows]
        return [row[0] for row in rows], scores

    def _few(self, within: sa.Select | None) -> bool:
        if within is None:
            return False
        some = within.limit(EXACT + 1).subquery()
        count = sa.select(sa.func.count()).select_from(some)
        return self._connection.execute(count).scalar_one() <= EXACT

    def has(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        return sa.exists().where(self._table.c.seq == chunk)

    def read(self, chunks: Sequence[int], *, anywhere: bool = False) -> dict[int, bytes]:
        query = (
            f"SELECT seq, vector_send(embedding) FROM {self._index} WHERE seq = ANY(%s::bigint[])"
        )
        wanted: tuple[object, ...] = (list(chunks),)
        if not anywhere:
            # Spares looking in the partitions of others.
            query, wanted = f"{query} AND organization_id = %s", (*wanted, self._owner)
        rows = self._connection.exec_driver_sql(query, wanted)
        return {seq: from_sent(sent) for seq, sent in rows}


class PostgresVectorMaintenance:
    def __init__(self, connection: sa.Connection, index: str) -> None:
        self._connection = connection
        self._run = connection.exec_driver_sql
        self._index = index

    def count(self) -> int:
        return self._run(f"SELECT count(*) FROM {self._index}").scalar_one()

    def check(self) -> str | None:
        if self._run("SELECT to_regclass(%s)", (self._index,)).scalar() is None:
            return f"the table {self._index} is missing"
        return None

    def remove_strays(self) -> int:
        table = _table(self._index)
        known = sa.exists().where(_chunks.c.seq == table.c.seq)
        return self._connection.execute(sa.delete(table).where(~known)).rowcount

    def drop(self) -> None:
        self._run(f"DROP TABLE IF EXISTS {self._index}")

    def fill(self) -> VectorFill:
        """Return the size. PostgreSQL reuses space by itself."""
        rows = self.count()
        # A table without partitions has no tree; one with partitions has no size of its own.
        parts = "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(to_regclass(%s))"
        size = f"SELECT pg_total_relation_size(to_regclass(%s)) + coalesce(({parts}), 0)::bigint"
        used = self._run(size, (self._index, self._index)).scalar_one()
        return VectorFill(rows=rows, slots=rows, needed=rows, bytes=used)
