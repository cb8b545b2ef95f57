"""What a store offers: an engine below SQLAlchemy, a full-text index and a vector index. The rest is portable SQL.

A store is given terms, never text: `kb_framework.api.text_query` says what a query is. A plugin adds a store with the
hook `kb_stores`; `kb_testing.stores` has the checks that every store must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from kb_framework.api.text_query import TextQuery
from kb_framework.errors import KBError
from kb_framework.storage.read_cache import once as once

if TYPE_CHECKING:
    from kb_framework.storage.store import Store

# The hits of one query, best first: numbers of chunks, and their scores. Lists, or arrays of numpy.
Columns = tuple[Any, Any]
# A chunk by its number, with the words of its title, headings and body, each joined by spaces.
IndexedText = tuple[int, Sequence[str]]


@dataclass(frozen=True, slots=True)
class VectorFill:
    """How well a vector index uses its space: rows, the rows there is room for, and the room that is needed."""

    rows: int
    slots: int
    needed: int
    bytes: int

    @property
    def share(self) -> float:
        return self.rows / self.slots if self.slots else 1.0

    @property
    def is_fragmented(self) -> bool:
        """Return whether more than half of the space is lost to holes that new rows never fill."""
        return self.slots > 2 * self.needed


class IndexMaintenance(Protocol):
    """Checks and repairs of one index. Only doctor, repair and rebuilds use it."""

    def count(self) -> int:
        """Return the number of entries."""
        ...

    def check(self) -> str | None:
        """Return what is wrong with the structure of the index, or None. May need a writing transaction."""
        ...

    def remove_strays(self) -> int:
        """Remove entries that belong to no chunk, and return how many there were."""
        ...

    def drop(self) -> None:
        """Remove the index, however damaged."""
        ...


class VectorMaintenance(IndexMaintenance, Protocol):
    def fill(self) -> VectorFill: ...


class TextIndex(Protocol):
    """The full text of one organization, in one transaction.

    Another organization's size does not slow it down, and its words do not count in the scores.
    """

    @property
    def maintenance(self) -> IndexMaintenance: ...

    def prepare(self) -> object:
        """Make what the organization's first chunk needs. Called before a savepoint, where it may be impossible."""
        ...

    def add(self, rows: Iterable[IndexedText]) -> None:
        """Index chunks."""
        ...

    def remove(self, chunks: sa.Select) -> None:
        """Remove chunks, selected by number, that are still in their table."""
        ...

    def search(
        self, queries: Sequence[TextQuery], within: sa.Select | None, limit: int
    ) -> list[Columns]:
        """Return the best chunks for each query, by BM25; higher scores are better.

        `within` selects the numbers of chunks of the organization that may be returned; None allows all of them.
        """
        ...

    def matches(self, query: TextQuery, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """Return the condition that a chunk of the organization, by its number, matches a query."""
        ...

    def has(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """Return the condition that a chunk of the organization, by its number, is indexed."""
        ...


class VectorIndex(Protocol):
    """A vector index, bound to a transaction and an organization."""

    @property
    def maintenance(self) -> VectorMaintenance:
        """Maintenance of the whole index, of all organizations."""
        ...

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Add vectors of chunks: the bytes of little-endian float32 numbers."""
        ...

    def remove(self, chunks: sa.Select) -> None:
        """Remove the vectors of chunks, selected by number, that are still in their table."""
        ...

    def search(
        self, vectors: Sequence[bytes], within: sa.Select | None, limit: int
    ) -> list[Columns]:
        """Return the nearest chunks of the organization for each vector, with their cosine similarity."""
        ...

    def has(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        """Return the condition that a chunk of any organization, by its number, has a vector."""
        ...

    def read(self, chunks: Sequence[int], *, anywhere: bool = False) -> dict[int, bytes]:
        """Return the vectors of those of the chunks that have one; with `anywhere`, chunks of any organization."""
        ...


class IndexBuilder(Protocol):
    """Builds, beside other work, the indexes that make searches of large organizations fast."""

    def run(self, stop: Callable[[], bool] = ..., patience: float = ...) -> list[str]:
        """Do what is due, and return a sentence for each thing done."""
        ...

    def check(self) -> dict[int, str]:
        """Return what is wrong, by number."""
        ...

    def forget(self, numbers: Iterable[int]) -> None: ...

    def missing(self) -> int:
        """Return how many large organizations are searched without such an index."""
        ...

    def state(self) -> list[str]: ...


class Replica(Protocol):
    """Another server with a copy of the database that lags a little."""

    engine: sa.Engine
    # How many times it failed for a reason of its own.
    failures: int
    # When it is asked again after a failure, by the monotonic clock.
    again_at: float

    def is_due(self) -> bool:
        """Return whether to ask it now: not for a while after a failure."""
        ...

    def answered(self) -> None: ...


class Engine(Protocol):
    """Connections, locks, retries, errors, health and copies of one database, and its indexes."""

    name: str
    reader: sa.Engine
    writer: sa.Engine
    # Why nothing can be written, or None.
    read_only: str | None
    # How many seconds to retry after a failure that passes.
    patience: float
    # After how many indexed chunks there may be work for the index builder.
    builds_after: int
    # Called with the number of chunks that a transaction, not yet committed, has indexed.
    on_written: Callable[[int], None]

    @property
    def replica(self) -> Replica | None:
        """Return the replica that answers reads which may lag, if there is one."""
        ...

    @property
    def vectors_missing(self) -> str | None:
        """Return why vectors cannot be stored, or None."""
        ...

    def close(self) -> None: ...

    # Transactions

    def lock(
        self, connection: sa.Connection, organization_id: str | None, queue: str | None
    ) -> None:
        """Wait, at the beginning of a writing transaction, until it may write.

        For an organization: nobody else writes for it until the commit. For a queue: nobody else of that queue does. For
        neither: nobody else writes at all. An engine with a single writer has nothing to wait for.
        """
        ...

    def take_turns(self, connection: sa.Connection, what: str) -> None:
        """Wait until no other writing transaction, of any organization, does the same kind of thing."""
        ...

    def version(self, connection: sa.Connection) -> int | None:
        """Return a number that two reading transactions on one connection share only if they see the same; None if unknown."""
        ...

    def attempt(self, connection: sa.Connection) -> AbstractContextManager[object]:
        """Keep an error of the database from harming the transaction around this context."""
        ...

    def time_limit(self, connection: sa.Connection, seconds: float) -> AbstractContextManager[None]:
        """Make a statement inside this context fail after so many seconds."""
        ...

    def begin_plan(self, connection: sa.Connection) -> None:
        """Create the transaction's own, empty `plan_items`."""
        ...

    def numbers_given(self, connection: sa.Connection, table: sa.Table, highest: int = 0) -> None:
        """Continue a table's numbering above the numbers that rows brought with them, and above `highest`."""
        ...

    # Errors

    def passes(self, error: BaseException) -> bool:
        """Return whether a failed transaction may succeed in a moment."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Return whether the connection was lost, so that the outcome of the last statement is unknown."""
        ...

    def explain(self, error: BaseException | None) -> KBError | None:
        """Return what an error says about the database itself (busy, full, read-only, damaged), for a person; else None."""
        ...

    # The schema of indexes. All of these are no-ops where there is nothing left to do.

    def prepare(self, connection: sa.Connection) -> None:
        """Make what migrations need, in their transaction."""
        ...

    def create_text(self, connection: sa.Connection) -> None:
        """Create what the first chunk of any organization needs."""
        ...

    def drop_text(self, connection: sa.Connection) -> None:
        """Remove the full text of all organizations, however damaged."""
        ...

    def upgrade_indexes(self, connection: sa.Connection) -> None:
        """Give the indexes of a database that an older version made what they have in a new one."""
        ...

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None: ...

    def show_vectors(self, connection: sa.Connection, index: str | None) -> None:
        """Make `vector_of` read this index in everything that sees this transaction; None for no index."""
        ...

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        """Return a chunk's vector in the shown index, as part of a query; null where it has none."""
        ...

    # Indexes

    def text_index(self, connection: sa.Connection, organization_id: str) -> TextIndex: ...

    def vector_index(
        self, connection: sa.Connection, index: str, organization_id: str
    ) -> VectorIndex: ...

    def index_builder(self, store: Store) -> IndexBuilder: ...

    # Health and copies

    def check(self, connection: sa.Connection) -> list[str]:
        """Return what the engine itself finds wrong; nothing when all is well."""
        ...

    def mend(self) -> list[str]:
        """Repair derived data in a database whose storage is damaged; return a sentence for each thing done."""
        ...

    def copy_to(self, connection: sa.Connection, target: Path) -> None:
        """Write the database as this transaction sees it to a new file, while others go on writing."""
        ...

    def describe(self) -> dict[str, str]:
        """Return driver and vector engine, for `kb doctor`."""
        ...
