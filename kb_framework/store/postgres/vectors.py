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

from kb_framework.store.backend import Columns, VectorFill
from kb_framework.store.postgres.dialect import VectorBytes, from_sent, to_text
from kb_framework.store.postgres.partitions import create_table

# Up to so many vectors an exact search is as fast as an index, and never misses.
EXACT = 20_000
# What pgvector can index in half precision.
MAX_DIMENSIONS = 4000
_INLINE_DIMENSIONS = 1900
_CANDIDATES = 100
_chunks = sa.table("chunks", sa.column("seq", sa.BigInteger))
_shown = sa.table("active_vectors", sa.column("seq", sa.BigInteger), sa.column("embedding", VectorBytes()))


def _table(index: str) -> sa.TableClause:
    columns = (sa.column("seq", sa.BigInteger), sa.column("organization_id", sa.String), sa.column("embedding"))
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
    connection.exec_driver_sql(f"CREATE INDEX {index}_by_organization ON {index} (organization_id, seq)")


class PostgresVectors:
    """The part of the backend that is about vectors."""

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None:
        create_vector_table(connection, index, dimensions)
        index_vectors(connection, index)

    def add_vectors(self, connection: sa.Connection, index: str, organization_id: str, rows: Iterable[tuple[int, bytes]]) -> None:
        values = [(seq, organization_id, to_text(vector)) for seq, vector in rows]
        if values:
            insert = f"INSERT INTO {index} (seq, organization_id, embedding) VALUES (%s, %s, %s::vector)"
            connection.exec_driver_sql(insert, values)

    def remove_vectors(self, connection: sa.Connection, index: str, organization_id: str, chunks: sa.Select) -> None:
        table = _table(index)
        mine = table.c.organization_id == organization_id
        connection.execute(sa.delete(table).where(mine, table.c.seq.in_(chunks)))

    def search_vectors(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vector: bytes,
        allowed: sa.Select | None,
        limit: int,
    ) -> list[tuple[int, float]]:
        table = _table(index)
        parameters = {"owner": organization_id, "asked": to_text(vector), "limit": limit}
        candidates = sa.select(table.c.seq, table.c.embedding).where(table.c.organization_id == sa.bindparam("owner"))
        if allowed is not None:
            candidates = candidates.where(table.c.seq.in_(allowed))
        if has_hnsw(connection, index, organization_id) and not self._few(connection, allowed):
            half = f"halfvec({len(vector) // 4})"
            wide = max(4 * limit, _CANDIDATES)
            connection.exec_driver_sql(
                f"SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {min(wide, 1000)}; "
                "SET LOCAL hnsw.max_scan_tuples = 2147483647; SET LOCAL hnsw.scan_mem_multiplier = 8; "
                "SET LOCAL enable_seqscan = off"
            )
            nearest = sa.text(f"{index}.embedding::{half} <=> CAST(:asked AS {half})")
            candidates = candidates.order_by(nearest).limit(wide)
        found = candidates.subquery("candidates")
        distance = sa.text("candidates.embedding <=> CAST(:asked AS vector) AS distance")
        query = sa.select(found.c.seq, distance).order_by(sa.text("distance"), found.c.seq)
        query = query.limit(sa.bindparam("limit", type_=sa.Integer))
        # A vector without length has no direction, and so no distance: it is near to nothing.
        rows = connection.execute(query, parameters)
        return [(seq, 0.0 if math.isnan(distance) else 1.0 - distance) for seq, distance in rows]

    def search_all_vectors(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vectors: Sequence[bytes],
        allowed: sa.Select | None,
        limit: int,
    ) -> list[Columns]:
        found = (self.search_vectors(connection, index, organization_id, vector, allowed, limit) for vector in vectors)
        return [([seq for seq, _ in pairs], [score for _, score in pairs]) for pairs in found]

    def _few(self, connection: sa.Connection, allowed: sa.Select | None) -> bool:
        if allowed is None:
            return False
        some = allowed.limit(EXACT + 1).subquery()
        return connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one() <= EXACT

    def count_vectors(self, connection: sa.Connection, index: str) -> int:
        return connection.exec_driver_sql(f"SELECT count(*) FROM {index}").scalar_one()

    def has_vector(self, index: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        table = _table(index)
        return sa.exists().where(table.c.seq == chunk)

    def read_vectors(
        self, connection: sa.Connection, index: str, chunks: Sequence[int], organization_id: str | None = None
    ) -> dict[int, bytes]:
        query = f"SELECT seq, vector_send(embedding) FROM {index} WHERE seq = ANY(%s::bigint[])"
        wanted: tuple[object, ...] = (list(chunks),)
        if organization_id is not None:
            query, wanted = f"{query} AND organization_id = %s", (*wanted, organization_id)
        return {seq: from_sent(sent) for seq, sent in connection.exec_driver_sql(query, wanted)}

    def show_vectors(self, connection: sa.Connection, index: str | None) -> None:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_shown.name}")
        rows = f"SELECT seq, vector_send(embedding) FROM {index}" if index else "SELECT NULL::bigint, NULL::bytea WHERE FALSE"
        connection.exec_driver_sql(f"CREATE VIEW {_shown.name} (seq, embedding) AS {rows}")

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        return sa.select(_shown.c.embedding).where(_shown.c.seq == chunk).scalar_subquery()

    def remove_stray_vectors(self, connection: sa.Connection, index: str) -> int:
        table = _table(index)
        known = sa.exists().where(_chunks.c.seq == table.c.seq)
        return connection.execute(sa.delete(table).where(~known)).rowcount

    def check_vectors(self, connection: sa.Connection, index: str) -> str | None:
        if connection.exec_driver_sql("SELECT to_regclass(%s)", (index,)).scalar() is None:
            return f"the table {index} is missing"
        return None

    def vector_fill(self, connection: sa.Connection, index: str) -> VectorFill:
        """PostgreSQL uses room again by itself."""
        rows = self.count_vectors(connection, index)
        # A table without partitions has no tree; one that has them has no size of its own.
        size = (
            "SELECT pg_total_relation_size(to_regclass(%s)) + "
            "(SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_partition_tree(to_regclass(%s)))"
        )
        return VectorFill(rows=rows, slots=rows, needed=rows, bytes=connection.exec_driver_sql(size, (index, index)).scalar_one())

    def drop_vectors(self, connection: sa.Connection, index: str) -> None:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {index}")
