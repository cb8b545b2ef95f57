"""What an engine must offer below SQLAlchemy: connections, full text, vectors, health. Everything else is portable SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from kb_framework.errors import KBError
from kb_framework.store.expression import Expression

if TYPE_CHECKING:
    from kb_framework.settings import HostSettings
    from kb_framework.store.store import Store


# What a search found, best first: the numbers of chunks, and their scores; lists, or arrays of numpy.
Columns = tuple[Any, Any]


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


class Keeper(Protocol):
    """Builds what makes searches of large organizations fast, a while after their chunks were written."""

    def run(self, stop: Callable[[], bool] = ..., patience: float = ...) -> list[str]:
        """Do what is due; a sentence for each thing that was done."""
        ...

    def check(self) -> dict[int, str]:
        """What is wrong, by number."""
        ...

    def forget(self, numbers: Iterable[int]) -> None: ...

    def missing(self) -> int:
        """How many large organizations are searched without it."""
        ...

    def state(self) -> list[str]: ...


class Replica(Protocol):
    """Another server that has all of the database, a little later."""

    engine: sa.Engine
    # How often it failed for a reason of its own.
    failures: int
    # When it is asked again after that, by the monotonic clock.
    again_at: float

    def is_due(self) -> bool:
        """Whether it is to be asked: not for a while after it failed."""
        ...

    def answered(self) -> None: ...


class Backend(Protocol):
    name: str
    reader: sa.Engine
    writer: sa.Engine
    has_job_types: bool
    # For how many seconds what fails for a reason that passes is tried again.
    patience: float
    # Called with the number of chunks that a transaction, not yet committed, has indexed.
    on_written: Callable[[int], None]

    @property
    def replica(self) -> Replica | None:
        """Where questions that may lag are put to, if there is one."""
        ...

    @property
    def vectors_missing(self) -> str | None:
        """Why vectors cannot be stored, or None."""
        ...

    def close(self) -> None: ...

    def passes(self, error: BaseException) -> bool:
        """Whether this ended a transaction, or kept one from beginning, and may be over in a moment."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether the database did not answer any more: what it did last is not known."""
        ...

    def prepare(self, connection: sa.Connection) -> None:
        """What must be so before migrations, in the transaction that makes them."""
        ...

    def lock(self, connection: sa.Connection, organization_id: str | None, queue: str | None) -> None:
        """Wait, at the beginning of a writing transaction, until it may write.

        For an organization: nobody else writes for it until the commit. For a queue: nobody else of that queue does. For
        neither: nobody else writes at all. On an engine with a single writer there is nothing left to wait for.
        """
        ...

    def take_turns(self, connection: sa.Connection, what: str) -> None:
        """Wait until no other writing transaction, of whichever organization, does the same kind of thing."""
        ...

    def version(self, connection: sa.Connection) -> int | None:
        """A number that two reading transactions on one connection share only if they see the same; None if that is not known."""
        ...

    def attempt(self, connection: sa.Connection) -> AbstractContextManager[object]:
        """Within it an error of the database does no harm to the transaction around it."""
        ...

    def numbers_given(self, connection: sa.Connection, table: sa.Table, highest: int = 0) -> None:
        """Rows came with numbers of their own: those that the engine gives next must be higher, also than `highest`."""
        ...

    def keeper(self, store: Store, settings: HostSettings) -> Keeper:
        """What keeps the indexes that are built while others work."""
        ...

    def partition(self, store: Store, number: int, told: Callable[[str], None]) -> bool:
        """Keep full text and vectors in so many partitions by organization; False where they are already."""
        ...

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

    def add_text(self, connection: sa.Connection, organization_id: str, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Index chunks, each by its number and what `indexed_words` made of its title, headings and body."""
        ...

    def remove_text(self, connection: sa.Connection, organization_id: str, chunks: sa.Select) -> None:
        """Must be told while the chunks are still in their table."""
        ...

    def search_text(
        self,
        connection: sa.Connection,
        organization_id: str,
        text: str,
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        """The best allowed chunks for any of the words; higher scores are better.

        `allowed` are chunks of the organization, None is all of them.
        """
        ...

    def search_texts(
        self,
        connection: sa.Connection,
        organization_id: str,
        texts: Sequence[str],
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[Columns]:
        """The same for several texts."""
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

    def search_all_vectors(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vectors: Sequence[bytes],
        allowed: sa.Select | None,
        limit: int,
    ) -> list[Columns]:
        """The same for several vectors."""
        ...

    def count_vectors(self, connection: sa.Connection, index: str) -> int: ...

    def has_vector(self, index: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """The condition that a chunk, by its number, has a vector."""
        ...

    def read_vectors(
        self, connection: sa.Connection, index: str, chunks: Sequence[int], organization_id: str | None = None
    ) -> dict[int, bytes]:
        """The vectors of those of the chunks that have one. Whose they are, if that is known, spares looking in partitions."""
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
