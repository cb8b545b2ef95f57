"""What an engine must offer below SQLAlchemy: connections, full text, vectors, health. Everything else is portable SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from kb_framework.errors import KBError
from kb_framework.store.expression import Expression


@dataclass(frozen=True, slots=True)
class VectorFill:
    """How well a vector index uses its space: rows that are there, rows there is room for, and room that is needed."""

    rows: int
    slots: int
    needed: int
    bytes: int

    @property
    def share(self) -> float:
        return self.rows / self.slots if self.slots else 1.0

    @property
    def is_fragmented(self) -> bool:
        """Whether more than half of the space is lost to holes that new rows never fill."""
        return self.slots > 2 * self.needed


class Backend(Protocol):
    name: str
    reader: sa.Engine
    writer: sa.Engine
    # Why vectors cannot be stored, or None.
    vectors_missing: str | None
    has_job_types: bool
    # Called with the number of chunks that a transaction, not yet committed, has indexed.
    on_written: Callable[[int], None]

    @property
    def side_folder(self) -> Path:
        """Where the segments of side indexes are."""
        ...

    def close(self) -> None: ...

    def explain(self, error: BaseException | None) -> KBError | None:
        """What an error says of the database itself (busy, full, read-only, damaged), for a person; else None."""
        ...

    def time_limit(self, connection: sa.Connection, seconds: float) -> AbstractContextManager[None]:
        """Within it, a statement that runs on after so many seconds fails."""
        ...

    def begin_plan(self, connection: sa.Connection) -> None:
        """Make the transaction's own, empty `plan_items`."""
        ...

    # Full text belongs to an organization: another's size does not slow it down, another's words do not count in its scores.

    def create_full_text(self, connection: sa.Connection) -> None:
        """What must be there before the first chunk of any organization is indexed."""
        ...

    def drop_full_text(self, connection: sa.Connection, organization_id: str | None = None) -> None:
        """Remove an organization's full text, or that of all, however damaged; what is added next begins a new one."""
        ...

    def prepare_text(self, connection: sa.Connection, organization_id: str) -> object:
        """Make what the first chunk of an organization needs; asked for before a savepoint, within which it may be impossible."""
        ...

    def add_text(self, connection: sa.Connection, organization_id: str, rows: Iterable[tuple[int, str, str, str]]) -> None:
        """Index chunks: number, title, headings, body."""
        ...

    def remove_text(self, connection: sa.Connection, organization_id: str, chunks: sa.Select) -> None:
        """Must be told while the chunks are still in their table."""
        ...

    def search_text(
        self,
        connection: sa.Connection,
        organization_id: str,
        text: str,
        allowed: sa.Select,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        """The best allowed chunks for any of the words; higher scores are better. `allowed` are chunks of the organization."""
        ...

    def search_expression(
        self,
        connection: sa.Connection,
        organization_id: str,
        expression: Expression,
        allowed: sa.Select,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        """The best allowed chunks that match the expression; higher scores are better."""
        ...

    def matches(
        self, connection: sa.Connection, organization_id: str, wanted: str | Expression, chunk: sa.ColumnElement[int]
    ) -> sa.ColumnElement[bool]:
        """The condition that a chunk of the organization, by its number, has any of the words, or matches an expression."""
        ...

    def count_text(self, connection: sa.Connection, organization_id: str) -> int: ...

    def has_text(self, connection: sa.Connection, organization_id: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """The condition that a chunk of the organization, by its number, is indexed."""
        ...

    def remove_stray_text(self, connection: sa.Connection, organization_id: str) -> int:
        """Take out what belongs to no chunk of the organization; how many that was."""
        ...

    def check_text(self, connection: sa.Connection, organization_id: str) -> str | None:
        """What is wrong with the structure of an organization's full text, or None. Needs a writing transaction."""
        ...

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None: ...

    def add_vectors(
        self, connection: sa.Connection, index: str, organization_id: str, rows: Iterable[tuple[int, bytes]]
    ) -> None: ...

    def remove_vectors(self, connection: sa.Connection, index: str, organization_id: str, chunks: sa.Select) -> None: ...

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

    def has_vector(self, index: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """The condition that a chunk, by its number, has a vector."""
        ...

    def read_vectors(self, connection: sa.Connection, index: str, chunks: Sequence[int]) -> dict[int, bytes]:
        """The vectors of those of the chunks that have one."""
        ...

    def show_vectors(self, connection: sa.Connection, index: str | None) -> None:
        """Make an index the one that `vector_of` reads, for whoever sees this transaction; None for none."""
        ...

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        """A chunk's vector in the index that is shown, by its number, as part of a query; null where it has none."""
        ...

    def remove_stray_vectors(self, connection: sa.Connection, index: str) -> int:
        """Take out what belongs to no chunk; how many that was."""
        ...

    def check_vectors(self, connection: sa.Connection, index: str) -> str | None:
        """What is wrong with the structure of a vector index, or None."""
        ...

    def vector_fill(self, connection: sa.Connection, index: str) -> VectorFill: ...

    def drop_vectors(self, connection: sa.Connection, index: str) -> None:
        """Remove a vector index, however damaged."""
        ...

    def copy_to(self, connection: sa.Connection, target: Path) -> None:
        """Write the database as this transaction sees it to a new file, while others go on writing."""
        ...

    def check(self, connection: sa.Connection) -> list[str]:
        """What the engine itself finds wrong; nothing when all is well."""
        ...

    def describe(self) -> dict[str, str]:
        """Driver and vector engine, for `kb doctor`."""
        ...
