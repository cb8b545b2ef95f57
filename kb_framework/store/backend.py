"""What an engine must offer below SQLAlchemy: connections, full text, vectors, health. Everything else is portable SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import sqlalchemy as sa


class Backend(Protocol):
    name: str
    reader: sa.Engine
    writer: sa.Engine
    # Why vectors cannot be stored, or None.
    vectors_missing: str | None

    def close(self) -> None: ...

    def is_busy(self, error: Exception) -> bool:
        """Whether an error only says that somebody else is writing."""
        ...

    def is_damaged(self, error: Exception) -> bool:
        """Whether an error says that the database cannot be read any more."""
        ...

    def begin_plan(self, connection: sa.Connection) -> None:
        """Make the transaction's own, empty `plan_documents`."""
        ...

    def create_full_text(self, connection: sa.Connection) -> None: ...

    def add_text(self, connection: sa.Connection, rows: Iterable[tuple[int, str, str, str]]) -> None:
        """Index chunks: number, title, headings, body."""
        ...

    def remove_text(self, connection: sa.Connection, chunks: sa.Select) -> None: ...

    def search_text(
        self, connection: sa.Connection, text: str, allowed: sa.Select, limit: int, weights: Sequence[float]
    ) -> list[tuple[int, float]]:
        """The best allowed chunks for any of the words; higher scores are better."""
        ...

    def count_text(self, connection: sa.Connection) -> int: ...

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None: ...

    def add_vectors(
        self, connection: sa.Connection, index: str, organization_id: str, rows: Iterable[tuple[int, bytes]]
    ) -> None: ...

    def remove_vectors(self, connection: sa.Connection, index: str, chunks: sa.Select) -> None: ...

    def search_vectors(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vector: bytes,
        allowed: sa.Select | None,
        limit: int,
    ) -> list[tuple[int, float]]:
        """The nearest allowed chunks (None: all of the organization) with their cosine similarity."""
        ...

    def count_vectors(self, connection: sa.Connection, index: str) -> int: ...

    def check(self, connection: sa.Connection) -> list[str]:
        """What the engine itself finds wrong; nothing when all is well."""
        ...

    def describe(self) -> dict[str, str]:
        """Driver and vector engine, for `kb doctor`."""
        ...
