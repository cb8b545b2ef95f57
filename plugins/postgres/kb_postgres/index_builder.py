"""Keeps the HNSW indexes of large organizations, while others work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework.api.tables import embedding_spaces
from kb_postgres.vectors import EXACT, MAX_DIMENSIONS, has_hnsw, hnsw_name

if TYPE_CHECKING:
    from kb_framework.api.parts import Store


class PostgresIndexBuilder:
    def __init__(self, store: Store, engine: sa.Engine) -> None:
        self._store = store
        self._engine = engine

    def run(self, stop: Callable[[], bool] = lambda: False, patience: float = 0.0) -> list[str]:
        """Build what is due; a sentence for each index that was made."""
        done = []
        for index, dimensions, owner in self._due():
            if stop():
                break
            self._build(index, dimensions, owner)
            done.append(f"built the vector index of an organization ({owner})")
        return done

    def _build(self, index: str, dimensions: int, owner: str) -> None:
        name = hnsw_name(index, owner)
        # Others go on writing meanwhile, so this cannot be part of a transaction.
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("SET statement_timeout = 0; SET lock_timeout = 0")
            try:
                # What a killed process left half-built is of no use.
                connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
                # The table, or of one in partitions that in which the organization is: only there can it be built meanwhile.
                where = f"SELECT tableoid::regclass::text FROM {index} WHERE organization_id = '{owner}' LIMIT 1"
                connection.exec_driver_sql(
                    f"CREATE INDEX CONCURRENTLY {name} ON {connection.exec_driver_sql(where).scalar() or index} "
                    f"USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops) WHERE organization_id = '{owner}'"
                )
            finally:
                # Its settings are no longer those of the others.
                connection.invalidate()

    def _due(self) -> list[tuple[str, int, str]]:
        found = []
        with self._store.read() as tx:
            columns = embedding_spaces.c
            for index, dimensions in tx.execute(
                sa.select(columns.index_name, columns.dimensions).where(columns.active)
            ).all():
                if dimensions > MAX_DIMENSIONS:
                    continue
                large = f"SELECT organization_id FROM {index} GROUP BY 1 HAVING count(*) > {EXACT}"
                for owner in tx.connection.exec_driver_sql(large).scalars().all():
                    if not has_hnsw(tx.connection, index, owner):
                        found.append((index, dimensions, owner))
        return found

    def check(self) -> dict[int, str]:
        return {}

    def forget(self, numbers: Iterable[int]) -> None:
        """Nothing is ever found wrong."""

    def missing(self) -> int:
        """How many organizations are searched without an index that should have one."""
        return len(self._due())

    def state(self) -> list[str]:
        return []
