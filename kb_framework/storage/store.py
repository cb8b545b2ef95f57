"""Transactions: one writer, many readers, each bound to an organization."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc

from kb_framework.api import DEFAULT_ORGANIZATION
from kb_framework.api.engine import Engine, TextIndex, VectorIndex
from kb_framework.api.spaces import active_space
from kb_framework.api.tables import organizations
from kb_framework.errors import UNCHANGED, PluginFailed, Unconfirmed
from kb_framework.storage.read_cache import once, snapshot
from kb_framework.storage.retry import again

# Whoever changes a row of these changes what a search finds, whichever way the statement was made.
_CHANGES_CORPUS = re.compile(
    r'\s*(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE|DELETE\s+FROM)\s+"?(?:documents|document_tags|chunks|chunks_fts(?:_\d+)?)\b',
    re.I,
)
_REVISION = sa.select(organizations.c.revision).where(organizations.c.id == sa.bindparam("owner"))
_TX = "kb_tx"
T = TypeVar("T")


class Tx:
    """A transaction of one organization."""

    def __init__(self, connection: sa.Connection, store: Store, organization_id: str) -> None:
        self.connection = connection
        self.store = store
        self.engine = store.engine
        self.organization_id = organization_id
        # Whose corpus revision moves at the commit, as a condition on organizations.
        self._moving: sa.ColumnElement[bool] | None = None

    def execute(self, statement: sa.Executable, parameters: Any = None) -> sa.CursorResult:
        return self.connection.execute(statement, parameters)  # type: ignore[return-value]

    def scalar(self, statement: sa.Executable) -> Any:
        return self.connection.execute(statement).scalar()

    def rows(self, statement: sa.Executable, parameters: Any = None) -> list[dict[str, Any]]:
        found = self.connection.execute(statement, parameters)
        names = list(found.keys())
        # All at once, and without a mapping per row in between: a mapping costs as much as the row.
        return [dict(zip(names, row, strict=True)) for row in found.all()]

    def once(self, key: Hashable, read: Callable[[], T]) -> T:
        """What `read` gives; in transactions that only read it is asked once for each key, until what they see has changed."""
        return once(self.connection, (self.organization_id, key), read)

    @property
    def text(self) -> TextIndex:
        """The organization's full text."""
        return self.text_index()

    @property
    def vectors(self) -> VectorIndex | None:
        """The organization's vectors in the active embedding space; None where nothing is embedded."""
        space = active_space(self)
        return self.vector_index(space.index_name) if space else None

    def text_index(self, organization_id: str | None = None) -> TextIndex:
        """Return the full text of another organization."""
        return self.engine.text_index(self.connection, organization_id or self.organization_id)

    def vector_index(self, index: str, organization_id: str | None = None) -> VectorIndex:
        """Return a vector index by its name, whether or not it is the active one."""
        return self.engine.vector_index(
            self.connection, index, organization_id or self.organization_id
        )

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        """Return a chunk's vector in the active space as part of a query; null where it has none."""
        return self.engine.vector_of(chunk)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo on any exception what was written inside, and no more.

        On a full disk SQLite rolls back the whole transaction, and there is no savepoint to return to. The error that did so is
        raised then, also in place of one that a caller would catch: statements that followed would be committed one by one.
        """
        self.text.prepare()
        failure: BaseException | None = None
        try:
            with self.connection.begin_nested():
                try:
                    yield
                except BaseException as error:
                    failure = error
                    raise
        except exc.DBAPIError as error:
            first = _of_database(failure)
            if first is None or first is error:
                raise
            raise first  # noqa: B904 - it came before the error of the savepoint, and keeps its own cause

    def attempt(self) -> AbstractContextManager[object]:
        """Whoever catches an error of the database, and goes on, lets it happen in here."""
        return self.engine.attempt(self.connection)

    def owns(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """The condition that a row belongs to this transaction's organization."""
        return table.c.organization_id == self.organization_id

    def corpus_revision(self) -> int:
        """A number that moves with every change to what the organization's searches may find, in the transaction of the change.

        Two reads that give the same number see the same documents, tags, chunks and indexes. It moves once per writing
        transaction, at its commit.
        """
        asked = {"owner": self.organization_id}
        return self.once("corpus revision", lambda: self.execute(_REVISION, asked).scalar()) or 0

    def corpus_changed(self, *, everywhere: bool = False) -> None:
        """Move the corpus revision at the commit: of this organization, or of all.

        Changes to documents, tags and chunks are noticed without it. It is for what decides otherwise what a search finds: a
        plugin's own table, an index made anew.
        """
        if everywhere:
            self._moving = sa.true()
        elif self._moving is None:
            self._moving = organizations.c.id == self.organization_id

    def move_revision(self) -> None:
        """What the store does last in a writing transaction."""
        if self._moving is not None:
            self.execute(
                sa.update(organizations)
                .where(self._moving)
                .values(revision=organizations.c.revision + 1)
            )
            self._moving = None


class Store:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Whether `jobs` has the column that the bulk plugin adds. Once it has, it stays.
        self.has_job_types = False
        event.listen(engine.writer, "before_cursor_execute", _notice_change)

    @contextmanager
    def read(
        self, organization_id: str = DEFAULT_ORGANIZATION, *, seconds: float | None = None
    ) -> Iterator[Tx]:
        """A consistent view. It never takes the write lock. With `seconds`, a query that takes longer raises."""
        with self._translated(reading=True), ExitStack() as stack:
            connection = again(
                lambda: self._begin(stack, self.engine.reader, _nothing), self.engine
            )
            with self._viewing(connection, organization_id, seconds) as tx:
                yield tx

    def look(self, organization_id: str, question: Callable[[Tx], T]) -> T:
        """What a question finds in a consistent view of all that was committed; asked again if the connection is lost meanwhile.

        Whoever tells what he has just changed asks this way: a failure would be taken for one of the change.
        """

        def asked() -> T:
            with self.read(organization_id) as tx:
                return question(tx)

        return again(asked, self.engine)

    def ask(self, organization_id: str, question: Callable[[Tx], T]) -> T:
        """What a question finds in a consistent view that may lag: that of a replica, where there is one.

        If the replica fails on the way, the question is put to the primary from the beginning, as with `look`.
        """
        replica = self.engine.replica
        if replica is not None and replica.is_due():
            failures = replica.failures
            try:
                with self._translated(reading=True), ExitStack() as stack:
                    connection = self._begin(stack, replica.engine, _nothing)
                    with self._viewing(connection, organization_id) as tx:
                        answer = question(tx)
            except Exception:
                if replica.failures == failures:
                    raise
            else:
                # A failure that the question caught, and that made its answer poorer, is one all the same.
                if replica.failures == failures:
                    replica.answered()
                    return answer
        return self.look(organization_id, question)

    @contextmanager
    def _viewing(
        self, connection: sa.Connection, organization_id: str, seconds: float | None = None
    ) -> Iterator[Tx]:
        with (
            self._limited(connection, seconds),
            snapshot(connection, lambda: self.engine.version(connection)),
        ):
            yield Tx(connection, self, organization_id)

    def run(self, organization_id: str, work: Callable[[Tx], T]) -> T:
        """What `work` gives, in a transaction that writes for the organization.

        If the database ended the transaction for a reason that passes (a deadlock, a restart), nothing of it was kept, and the
        work is done again from the beginning: outside of the database it must leave nothing behind that is in its way then.
        """

        def worked() -> T:
            with self.write(organization_id) as tx:
                return work(tx)

        return again(worked, self.engine)

    @contextmanager
    def write(
        self, organization_id: str | None = None, *, queue: str | None = None
    ) -> Iterator[Tx]:
        """All or nothing: it commits at the end, or rolls back on any exception.

        Nobody else writes for the organization meanwhile; without an organization, nobody else writes at all. Where what is
        written is nobody's but its own, a `queue` names those who have to wait for each other, and for no one else.
        """
        with self._translated(), ExitStack() as stack:

            def begun() -> sa.Connection:
                return self._begin(
                    stack,
                    self.engine.writer,
                    lambda new: self.engine.lock(new, organization_id, queue),
                )

            connection = again(begun, self.engine)
            # Once: a connection that was lost, or interrupted, has no more to tell.
            info = connection.info
            tx = info[_TX] = Tx(connection, self, organization_id or DEFAULT_ORGANIZATION)
            try:
                yield tx
                tx.move_revision()
            finally:
                info.pop(_TX, None)
            self._commit(connection)

    def _begin(
        self, stack: ExitStack, connections: sa.Engine, start: Callable[[sa.Connection], None]
    ) -> sa.Connection:
        """A transaction that ends with the stack; it is rolled back then, unless it was committed."""
        with ExitStack() as mine:
            connection = mine.enter_context(connections.connect())
            connection.begin()
            start(connection)
            stack.enter_context(mine.pop_all())
        return connection

    def _commit(self, connection: sa.Connection) -> None:
        try:
            connection.commit()
        except BaseException as error:
            # A transaction whose commit failed is still open; without this it would go back to the pool like that.
            connection.rollback()
            if not isinstance(error, exc.DBAPIError) or not self.engine.is_lost(error):
                raise
            raise Unconfirmed(
                "the connection to the database was lost while a change was being committed; it may have been made, or not",
                hint="look whether it was made, then try again",
            ) from error

    def _limited(
        self, connection: sa.Connection, seconds: float | None
    ) -> AbstractContextManager[None]:
        return nullcontext() if seconds is None else self.engine.time_limit(connection, seconds)

    @contextmanager
    def _translated(self, *, reading: bool = False) -> Iterator[None]:
        try:
            yield
        except (exc.DBAPIError, exc.TimeoutError, exc.PendingRollbackError, PluginFailed) as error:
            # A full disk that a plugin's statement met is no fault of the plugin.
            known = self.engine.explain(
                error.__cause__ if isinstance(error, PluginFailed) else error
            )
            if known is None:
                raise
            if reading:
                # Of what was committed before it, a transaction that only reads knows nothing.
                known.message = known.message.removesuffix(UNCHANGED)
            raise known from error

    def close(self) -> None:
        self.engine.close()


def _of_database(error: BaseException | None) -> exc.DBAPIError | None:
    """The error of the database that caused an error, if one did."""
    while error is not None and not isinstance(error, exc.DBAPIError):
        error = error.__cause__
    return error


def _nothing(_: sa.Connection) -> None:
    """A reader has to wait for nobody."""


def _notice_change(connection: sa.Connection, _: Any, statement: str, *__: Any) -> None:
    tx = connection.info.get(_TX)
    if tx is not None and _CHANGES_CORPUS.match(statement):
        tx.corpus_changed()
