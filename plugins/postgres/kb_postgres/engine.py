"""Connections to PostgreSQL, who waits for whom, and what its errors mean.

Reading is a REPEATABLE READ, READ ONLY transaction: a consistent view that never waits for writers.

Writing is READ COMMITTED behind advisory locks that last as long as the transaction. Whoever writes for an organization has the
organization to himself, as on SQLite everybody has the file: what he has read stays so until he commits, so a frozen plan is
what is applied, and a number that was counted is still right. Writers of different organizations do not wait for each other.
Whoever writes without naming an organization (migrations, repairs, removing files) has the whole database to himself.
READ COMMITTED is what makes this work: each statement after the lock sees all that former holders committed, while a snapshot
from before the wait would not. With one order of locks (the whole, then the organization, then what is shared by name) nobody
waits in a circle. Where a plugin's own locks, a restart or a fail-over end a transaction all the same, `Store.run` does it again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from sqlalchemy import exc

import kb_postgres.dialect  # noqa: F401 - its functions are found by SQLAlchemy
from kb_framework.api import tables
from kb_framework.api.sql import from_json
from kb_framework.errors import UNCHANGED, Busy, Conflict, DiskFull, KBError, StoreUnusable
from kb_postgres import full_text, vectors
from kb_postgres.full_text import PostgresText
from kb_postgres.index_builder import PostgresIndexBuilder
from kb_postgres.ranking import Frequencies
from kb_postgres.replica import Replica
from kb_postgres.vectors import PostgresVectors

if TYPE_CHECKING:
    from kb_framework.api.parts import Store

log = logging.getLogger("kb.store")

_WHOLE = "whole"
_REPLICA_SECONDS = 3


class PostgresEngine:
    name = "postgresql"
    read_only: str | None = None
    # Its indexes are for organizations much larger than that; to look is cheap.
    builds_after = 1000

    def __init__(
        self,
        url: str,
        busy_timeout: float,
        statement_timeout: float,
        pool_size: int,
        replica_url: str | None = None,
    ) -> None:
        self.frequencies = Frequencies()
        self.patience = busy_timeout
        # Since when the server cannot be reached; one that never was is not waited for.
        self._away_since: float | None = -math.inf
        self.on_written: Callable[[int], None] = lambda _: None
        limits = {
            "statement_timeout": round(statement_timeout * 1000),
            "lock_timeout": round(busy_timeout * 1000),
            # An engine that lost its way while it held a lock must not keep the others waiting for ever.
            "idle_in_transaction_session_timeout": round(statement_timeout * 1000),
            # The best plan depends on which words and which organization are asked for.
            "plan_cache_mode": "force_custom_plan",
        }
        self._set_up = "; ".join(f"SET {name} = {value}" for name, value in limits.items())
        options: dict[str, Any] = {
            "pool_size": pool_size,
            "max_overflow": pool_size,
            "pool_timeout": busy_timeout,
            # After a fail-over the connections of before are of no use: they are noticed and made anew.
            "pool_pre_ping": True,
            "use_native_hstore": False,
            # How many rows an INSERT made is otherwise forgotten before anyone can ask.
            "execution_options": {"preserve_rowcount": True},
        }

        def engine(connect: Callable[..., psycopg.Connection[Any]], *arguments: Any) -> sa.Engine:
            return sa.create_engine(
                "postgresql+psycopg://", creator=functools.partial(connect, *arguments), **options
            )

        self.writer = engine(self._connect_primary, url, False)
        self.reader = engine(self._connect_primary, url, True)
        # Whoever searches does not wait for long to hear that a replica is away.
        self.replica = (
            Replica(engine(self._connect, replica_url, True, _REPLICA_SECONDS))
            if replica_url
            else None
        )

    def _connect_primary(self, url: str, reading: bool) -> psycopg.Connection[Any]:
        try:
            connection = self._connect(url, reading, max(2, round(self.patience)))
        except psycopg.OperationalError as error:
            # Before a login there is no SQLSTATE. A server that says so is there: it starts, stops or recovers.
            says_wait = "the database system is" in str(error)
            if self._away_since is None or (says_wait and self._away_since == -math.inf):
                self._away_since = time.monotonic()
            raise
        self._away_since = None
        return connection

    def _connect(self, url: str, reading: bool, seconds: int) -> psycopg.Connection[Any]:
        # Of a machine that is gone there is no answer at all.
        limit = conninfo_to_dict(url).get("connect_timeout", seconds)
        connection = psycopg.connect(
            url, application_name=_process(), autocommit=True, connect_timeout=limit
        )
        # A connection that was made by hand is not told what `create_engine` was given for it.
        set_json_loads(from_json, connection)
        connection.execute(self._set_up.encode())
        connection.autocommit = False
        connection.isolation_level = (
            psycopg.IsolationLevel.REPEATABLE_READ
            if reading
            else psycopg.IsolationLevel.READ_COMMITTED
        )
        connection.read_only = reading
        return connection

    def close(self) -> None:
        self.writer.dispose()
        self.reader.dispose()
        if self.replica:
            self.replica.engine.dispose()

    # Vectors need an extension, which only its owner may create.

    @property
    def vectors_missing(self) -> str | None:
        if self._vectors_missing is _UNKNOWN:
            with self.reader.connect() as connection:
                there = connection.exec_driver_sql(
                    "SELECT 1 FROM pg_extension WHERE extname = 'vector'"
                ).scalar()
            self._vectors_missing = None if there else _NO_VECTOR
        return self._vectors_missing

    _vectors_missing: Any = None

    def prepare(self, connection: sa.Connection) -> None:
        """Before migrations: what the database must have."""
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise StoreUnusable(
                f"the database keeps text as {encoding}, which cannot hold all of it",
                hint="make one with: CREATE DATABASE kb TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'",
            )
        try:
            with connection.begin_nested():
                connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
        except exc.DBAPIError as error:
            log.warning(
                "the extension vector cannot be created, so there is no vector search: %s",
                _told(error.orig),
            )

    def lock(
        self, connection: sa.Connection, organization_id: str | None, queue: str | None = None
    ) -> None:
        """Wait until this transaction may write: for an organization, for what a queue is about, or for everything."""
        if organization_id is None and queue is None:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_number(_WHOLE)})")
            return
        connection.exec_driver_sql(
            f"SELECT pg_advisory_xact_lock_shared({_number(_WHOLE)}); "
            f"SELECT pg_advisory_xact_lock({_number(f'queue {queue}' if queue else f'organization {organization_id}')})"
        )

    def take_turns(self, connection: sa.Connection, what: str) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_number(f'shared {what}')})")

    def version(self, connection: sa.Connection) -> int | None:
        """None: nothing that is read tells whether anybody has committed."""

    def attempt(self, connection: sa.Connection) -> contextlib.AbstractContextManager[Any]:
        # An error ends a transaction; within a savepoint it ends no more than that.
        return connection.begin_nested()

    def numbers_given(self, connection: sa.Connection, table: sa.Table, highest: int = 0) -> None:
        (column,) = table.primary_key
        sequence = f"pg_get_serial_sequence('{table.name}', '{column.name}')"
        connection.exec_driver_sql(
            f"SELECT setval({sequence}, greatest((SELECT max({column.name}) FROM {table.name}), nextval({sequence}), {highest}))"
        )

    # Indexes

    def create_text(self, connection: sa.Connection) -> None:
        full_text.create(connection)

    def drop_text(self, connection: sa.Connection) -> None:
        full_text.drop(connection)

    def upgrade_indexes(self, connection: sa.Connection) -> None:
        """Do nothing: they are as they were in the first version."""

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None:
        vectors.create(connection, index, dimensions)

    def show_vectors(self, connection: sa.Connection, index: str | None) -> None:
        vectors.show(connection, index)

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        return vectors.vector_of(chunk)

    def text_index(self, connection: sa.Connection, organization_id: str) -> PostgresText:
        return PostgresText(self, connection, organization_id)

    def vector_index(
        self, connection: sa.Connection, index: str, organization_id: str
    ) -> PostgresVectors:
        return PostgresVectors(connection, index, organization_id)

    def index_builder(self, store: Store) -> PostgresIndexBuilder:
        return PostgresIndexBuilder(store, self.writer)

    # Errors

    def passes(self, error: BaseException) -> bool:
        state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
        if self.is_lost(error):
            # Once somebody has waited in vain, the others are told at once.
            return self._away_since is None or time.monotonic() - self._away_since < self.patience
        return state.startswith(("40", "53300"))

    def is_lost(self, error: BaseException) -> bool:
        if isinstance(error, exc.PendingRollbackError):
            # Somebody caught the error by which the connection was lost, and went on.
            return True
        reason = error.orig if isinstance(error, exc.DBAPIError) else None
        if not isinstance(reason, psycopg.OperationalError):
            return False
        return reason.sqlstate is None or reason.sqlstate.startswith(("08", "57P"))

    def explain(self, error: BaseException | None) -> KBError | None:
        if isinstance(error, exc.TimeoutError):
            return Busy(
                "all connections to the database are in use; try again",
                hint="KB_DATABASE_POOL_SIZE sets how many",
            )
        if isinstance(error, exc.PendingRollbackError) or (
            isinstance(error, exc.DBAPIError) and error.connection_invalidated
        ):
            return Busy(f"the connection to the database was lost{UNCHANGED}", hint=_AGAIN)
        reason = error.orig if isinstance(error, exc.DBAPIError) else None
        if not isinstance(reason, psycopg.Error):
            return None
        state = reason.sqlstate
        if state is None:
            # The server was never asked.
            lost = isinstance(reason, psycopg.OperationalError)
            return (
                StoreUnusable(f"the database cannot be reached: {_told(reason)}", hint=_HINT_REACH)
                if lost
                else None
            )
        for prefix, (kind, message, hint) in _EXPLANATIONS.items():
            if state.startswith(prefix):
                return kind(message.format(reason=_told(reason)), hint=hint)
        return None

    @contextlib.contextmanager
    def time_limit(self, connection: sa.Connection, seconds: float) -> Iterator[None]:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
        try:
            yield
        except exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != "57014":
                raise
            # It is whoever set this limit who tells of it, not the setting for all statements.
            raise TimeoutError(f"it took longer than {seconds:g} s") from error

    def begin_plan(self, connection: sa.Connection) -> None:
        # Said here, not in the table: to check it SQLAlchemy imports the dialect, and users of SQLite need not wait for that.
        tables.plan_items.dialect_kwargs["postgresql_on_commit"] = "DELETE ROWS"
        connection.execute(sa.schema.CreateTable(tables.plan_items, if_not_exists=True))
        connection.execute(sa.delete(tables.plan_items))

    # Health

    def check(self, connection: sa.Connection) -> list[str]:
        """Indexes that a broken build left behind; of pages PostgreSQL itself complains when it reads them."""
        broken = (
            "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
            "WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace"
        )
        return [
            f"the index {name} is not valid"
            for name in connection.exec_driver_sql(broken).scalars()
        ]

    def copy_to(self, connection: sa.Connection, target: Path) -> None:
        raise Conflict(
            "a PostgreSQL database is backed up by its own tools, not by this one",
            hint='pg_dump --format=custom --file=kb.dump "$KB_DATABASE_URL" and copy KB_DATA_DIR/files after it; '
            "kb export makes an archive that any store can import",
        )

    def mend(self) -> list[str]:
        """Nothing: PostgreSQL has tools of its own."""
        return []

    def describe(self) -> dict[str, str]:
        with self.reader.connect() as connection:
            server = connection.exec_driver_sql("SHOW server_version").scalar_one()
            vectors = connection.exec_driver_sql(
                "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
            ).scalar()
        found = {"driver": f"psycopg {psycopg.__version__}, PostgreSQL {server}"}
        return found | ({"vectors": f"pgvector {vectors}"} if vectors else {})


_UNKNOWN = object()
PostgresEngine._vectors_missing = _UNKNOWN
_NO_VECTOR = "the extension is missing; as a superuser: CREATE EXTENSION vector (pgvector must be installed on the server)"
_HINT_REACH = "is the server up, and is KB_DATABASE_URL right? then try again"
_AGAIN = "try again"
_RESTARTING = (Busy, f"the database server is being stopped or restarted{UNCHANGED}", _AGAIN)
_DAMAGED = (StoreUnusable, "the database is damaged: {reason}", "restore a backup of the server")
# By SQLSTATE, or its class: the kind of error, what to tell, and what to do.
_EXPLANATIONS: dict[str, tuple[type[KBError], str, str]] = {
    "55P03": (
        Busy,
        "another process is writing; try again",
        "KB_BUSY_TIMEOUT sets how long to wait",
    ),
    "40": (Busy, f"others were changing the same at the same time{UNCHANGED}", _AGAIN),
    "53100": (
        DiskFull,
        f"the disk of the database is full{UNCHANGED}",
        "free some space on the database server, and try again",
    ),
    "53300": (
        Busy,
        "the database server has no connection left; try again",
        "KB_DATABASE_POOL_SIZE sets how many are used",
    ),
    "53": (Busy, f"the database server is out of resources: {{reason}}{UNCHANGED}", _AGAIN),
    "25006": (
        StoreUnusable,
        f"the database cannot be written{UNCHANGED}",
        "is this server a standby? KB_DATABASE_URL must lead to the one that takes writes",
    ),
    "25P03": (Busy, f"the transaction was idle for too long and was ended{UNCHANGED}", _AGAIN),
    "57014": (
        Busy,
        f"a statement took too long and was ended{UNCHANGED}",
        "KB_DATABASE_STATEMENT_TIMEOUT sets how long one may take",
    ),
    "57P": _RESTARTING,
    "08": (StoreUnusable, "the connection to the database was lost: {reason}", _HINT_REACH),
    "28": (
        StoreUnusable,
        "the database server refused the login: {reason}",
        "check user and password in KB_DATABASE_URL",
    ),
    "3D000": (
        StoreUnusable,
        "{reason}",
        "make it with: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'",
    ),
    "42501": (
        StoreUnusable,
        "the database server refused: {reason}",
        "the user of KB_DATABASE_URL must own the database",
    ),
    "58": (
        StoreUnusable,
        f"the disk of the database server failed{UNCHANGED}",
        "look into the server's log",
    ),
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}


def _process() -> str:
    """What tells the connections of this process from those of others."""
    return f"kb {os.getpid()} {socket.gethostname()}"


def _number(name: str) -> int:
    """The number of a lock."""
    return int.from_bytes(
        hashlib.blake2b(f"kb {name}".encode(), digest_size=8).digest(), signed=True
    )


def _told(reason: BaseException | None) -> str:
    """The first line of what the server says: no statement, no address."""
    primary = getattr(getattr(reason, "diag", None), "message_primary", None)
    return primary or str(reason).partition("\n")[0]
