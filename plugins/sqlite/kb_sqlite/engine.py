"""What is SQLite's own: the driver, pragmas, FTS5 and vec0."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import re
import struct
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, exc

import kb_sqlite.dialect  # noqa: F401 - its functions are found by SQLAlchemy
from kb_framework.api import tables
from kb_framework.api.sql import from_json
from kb_framework.errors import UNCHANGED, Busy, DiskFull, KBError, StoreUnusable
from kb_sqlite import full_text, indexes, vectors, virtual_tables
from kb_sqlite.accelerator import tables as accelerator
from kb_sqlite.accelerator.on_write import Changes
from kb_sqlite.full_text import SqliteText
from kb_sqlite.vectors import SqliteVectors

if TYPE_CHECKING:
    from kb_framework.api.parts import Store
    from kb_sqlite.accelerator.builder import SegmentBuilder
    from kb_sqlite.accelerator.searching import AcceleratedSearch

# Its functions come from a compiled module without type information.
dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")

log = logging.getLogger("kb.store")

_READERS = 8
# Kibibytes of the file that a connection keeps in memory. The system keeps the rest, once for all of them.
_CACHE = 16_384
# How many instructions of its machine SQLite executes between two looks at the clock.
_STEPS = 10_000
_LOOK_AGAIN = 0.01
# More chunks than anybody waits for.
_MANY = 1_000_000_000


class SqliteEngine:
    """One file in WAL mode: a single writing connection and a pool of reading ones."""

    name = "sqlite"

    def __init__(
        self, path: Path, busy_timeout: float, min_chunks: int = 1000, tail_rows: int = 8192
    ) -> None:
        self._busy_timeout = busy_timeout
        self._min_chunks = min_chunks
        self._tail_rows = tail_rows
        self.builds_after = min(min_chunks, tail_rows)
        self.path = path
        self.read_only = _why_read_only(path)
        self.vectors_missing: str | None = None
        self.on_written: Callable[[int], None] = lambda _: None
        self.changes = Changes()
        url = sa.URL.create("sqlite", database=str(path))
        options: dict[str, Any] = {
            "module": dbapi2,
            "pool_timeout": busy_timeout,
            "poolclass": sa.QueuePool,
            "json_deserializer": from_json,
        }
        arguments: dict[str, Any] = {"timeout": busy_timeout, "check_same_thread": False}
        reading = {"connect_args": arguments}
        writing = {"connect_args": arguments}
        if self.read_only:
            reading, writing = {"creator": self._open_read_only}, {"creator": self._refuse_writing}
        # A pool of one is the in-process lock: writers queue here instead of fighting over the file.
        self.writer = sa.create_engine(url, pool_size=1, max_overflow=0, **writing, **options)
        # The connection that was used last comes first: each that is used fills a cache of its own.
        readers = {
            **options,
            "pool_use_lifo": True,
            "pool_size": _READERS,
            "max_overflow": _READERS,
        }
        self.reader = sa.create_engine(url, **reading, **readers)
        self.replica = None
        event.listen(self.writer, "connect", self._set_up_writer)
        event.listen(self.reader, "connect", self._set_up_reader)
        event.listen(
            self.writer, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
        )
        event.listen(self.reader, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))

    def _open_read_only(self) -> Any:
        log_file = self.path.with_name(f"{self.path.name}-wal")
        # Without a write-ahead log nobody else has it open, and SQLite needs no files of its own to read it.
        unchanging = not log_file.exists() or log_file.stat().st_size == 0
        address = f"{self.path.absolute().as_uri()}?mode=ro{'&immutable=1' if unchanging else ''}"
        return dbapi2.connect(
            address, uri=True, timeout=self._busy_timeout, check_same_thread=False
        )

    def _refuse_writing(self) -> Any:
        raise StoreUnusable(
            f"the database can only be read: {self.read_only}{UNCHANGED}", hint=_PERMISSIONS
        )

    def _set_up(self, connection: Any) -> None:
        # Transactions are begun by the listeners above, not by the driver.
        connection.isolation_level = None
        self._load_vectors(connection)
        for pragma in (
            "foreign_keys=ON",
            "synchronous=FULL",
            "temp_store=MEMORY",
            f"cache_size=-{_CACHE}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    def _set_up_writer(self, connection: Any, _: Any) -> None:
        self._set_up(connection)
        self._use_wal(connection)
        # Deleted means gone: without this the text would stay readable in the file until its pages are used again.
        connection.execute("PRAGMA secure_delete=ON")

    def _use_wal(self, connection: Any) -> None:
        """Who opens a new database first changes its mode; for others who do so or write, SQLite itself does not wait there."""
        end = time.monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except dbapi2.OperationalError as error:
                if (
                    getattr(error, "sqlite_errorcode", 0) & 0xFF != dbapi2.SQLITE_BUSY
                    or time.monotonic() > end
                ):
                    raise
                time.sleep(_LOOK_AGAIN)

    def _set_up_reader(self, connection: Any, _: Any) -> None:
        self._set_up(connection)
        connection.execute("PRAGMA query_only=ON")

    def _load_vectors(self, connection: Any) -> None:
        try:
            # Importing sqlite_vec would import numpy; the library file is all that is needed.
            spec = importlib.util.find_spec("sqlite_vec")
            folder = (spec.submodule_search_locations or [""])[0] if spec else ""
            connection.enable_load_extension(True)
            connection.load_extension(str(Path(folder) / "vec0"))
            connection.enable_load_extension(False)
        except (AttributeError, dbapi2.OperationalError) as error:
            if self.vectors_missing is None:
                log.warning("sqlite-vec cannot be loaded, so there is no vector search: %s", error)
            self.vectors_missing = str(error)

    @property
    def side_folder(self) -> Path:
        return self.path.parent / "side"

    # Whoever waits for another writer waits in SQLite itself, and a file is not lost.
    patience = 0.0

    def passes(self, error: BaseException) -> bool:
        return False

    def is_lost(self, error: BaseException) -> bool:
        return False

    def prepare(self, connection: sa.Connection) -> None:
        """Nothing: a file is as it should be."""

    def lock(
        self, connection: sa.Connection, organization_id: str | None, queue: str | None
    ) -> None:
        """Nothing: there is one writer, who has the file to himself."""

    def take_turns(self, connection: sa.Connection, what: str) -> None:
        """Nothing, as above."""

    def version(self, connection: sa.Connection) -> int | None:
        # It changes when another connection commits; readers never write themselves. Reading it begins the view of this one.
        return connection.exec_driver_sql("PRAGMA data_version").scalar_one()

    def attempt(self, connection: sa.Connection) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def numbers_given(self, connection: sa.Connection, table: sa.Table, highest: int = 0) -> None:
        """Nothing: SQLite goes on from the highest."""

    def close(self) -> None:
        self.writer.dispose()
        self.reader.dispose()

    def explain(self, error: BaseException | None) -> KBError | None:
        if isinstance(error, exc.TimeoutError):
            code, reason = dbapi2.SQLITE_BUSY, ""
        else:
            reason = error.orig if isinstance(error, exc.DBAPIError) else None
            # Extended codes say more in their higher bits.
            code = getattr(reason, "sqlite_errorcode", 0) & 0xFF
            if (
                code == dbapi2.SQLITE_ERROR
                and isinstance(error, exc.DBAPIError)
                and _DERIVED.search(error.statement or "")
            ):
                # A virtual table that lost a part of itself fails with a message of its own.
                return StoreUnusable(
                    f"a search index is damaged: {reason}", hint="kb doctor --repair rebuilds it"
                )
        if code not in _EXPLANATIONS:
            return None
        if code in _DAMAGE and (loss := _what_is_lost(self.path)):
            # SQLite reads nothing of such a file, so neither a repair nor an export can.
            return StoreUnusable(f"the database is damaged: {loss}", hint=_BEYOND_REPAIR)
        kind, message, hint = _EXPLANATIONS[code]
        return kind(message.format(reason=reason), hint=hint)

    @contextlib.contextmanager
    def time_limit(self, connection: sa.Connection, seconds: float) -> Iterator[None]:
        driver: Any = connection.connection.driver_connection
        end = time.monotonic() + seconds
        driver.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            yield
        finally:
            driver.set_progress_handler(None, 0)

    def begin_plan(self, connection: sa.Connection) -> None:
        connection.execute(sa.schema.CreateTable(tables.plan_items, if_not_exists=True))
        connection.execute(sa.delete(tables.plan_items))

    # Indexes

    def create_text(self, connection: sa.Connection) -> None:
        full_text.create(connection)

    def drop_text(self, connection: sa.Connection) -> None:
        for owner in full_text.owners(connection):
            self.text_index(connection, owner).maintenance.drop()
        virtual_tables.drop(connection, full_text.SHARED)

    def upgrade_indexes(self, connection: sa.Connection) -> None:
        accelerator.metadata.create_all(connection)
        indexes.leave_out_row_numbers(connection)
        inspector = sa.inspect(connection)
        for index in connection.scalars(sa.select(tables.embedding_spaces.c.index_name)).all():
            if inspector.has_table(f"{index}_chunks"):
                vectors.index_partitions(connection, index)

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None:
        vectors.create(connection, index, dimensions)

    def show_vectors(self, connection: sa.Connection, index: str | None) -> None:
        vectors.show(connection, index)

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        return vectors.vector_of(chunk)

    def text_index(self, connection: sa.Connection, organization_id: str) -> SqliteText:
        return SqliteText(self, connection, organization_id)

    def vector_index(
        self, connection: sa.Connection, index: str, organization_id: str
    ) -> SqliteVectors:
        return SqliteVectors(self, connection, index, organization_id)

    @cached_property
    def accelerated(self) -> AcceleratedSearch:
        """The search of organizations that the accelerator has indexed."""
        # It imports numpy, which only searches of large organizations need.
        from kb_sqlite.accelerator.searching import AcceleratedSearch

        return AcceleratedSearch(self.side_folder)

    def forget_accelerator(
        self, connection: sa.Connection, source: str, organization_id: str | None = None
    ) -> None:
        """Drop what was derived from an index that is being dropped."""
        if self.changes.forget(connection, source, organization_id):
            # Its successor will be as large.
            self.on_written(_MANY)

    def index_builder(self, store: Store) -> SegmentBuilder:
        from kb_sqlite.accelerator.builder import SegmentBuilder

        return SegmentBuilder(store, self.side_folder, self._min_chunks, self._tail_rows)

    # Health

    def check(self, connection: sa.Connection) -> list[str]:
        """What SQLite itself finds wrong with the file; nothing when all is well."""
        # FTS5 checks what this connection last knew of its structure, and calls it corrupt if another has changed it since:
        # a look at the table makes it read the structure anew.
        for owner in full_text.owners(connection):
            name = full_text.table_of(connection, owner)
            connection.exec_driver_sql(f"SELECT rowid FROM {name} LIMIT 1").fetchall()
        problems = [
            row[0] for row in connection.exec_driver_sql("PRAGMA quick_check(20)") if row[0] != "ok"
        ]
        orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        return problems + [
            f"a row of {row[0]} refers to a missing row of {row[2]}" for row in orphans[:20]
        ]

    def mend(self) -> list[str]:
        """Repair what is derived in a damaged file; a sentence for each thing."""
        from kb_sqlite.mend import mend

        def check() -> list[str]:
            with self.reader.connect() as connection, connection.begin():
                return self.check(connection)

        with self.writer.connect() as connection:
            done = mend(connection.connection.driver_connection, check)
        if done:
            # Connections that know the former schema.
            self.reader.dispose()
            self.writer.dispose()
        return done

    def copy_to(self, connection: sa.Connection, target: Path) -> None:
        # The backup API copies pages, so it is exact; it stays with the snapshot of the transaction that is under way.
        copy = dbapi2.connect(str(target))
        try:
            connection.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
        finally:
            copy.close()

    def describe(self) -> dict[str, str]:
        versions = {"driver": f"pysqlite3, SQLite {dbapi2.sqlite_version}"}
        with contextlib.suppress(exc.OperationalError), self.reader.connect() as connection:
            versions["vectors"] = (
                f"sqlite-vec {connection.exec_driver_sql('SELECT vec_version()').scalar_one()}"
            )
        return versions


def _why_read_only(path: Path) -> str | None:
    """Return why a database that is there cannot be written; None if it can."""
    if not path.exists():
        return None
    for part in (path, path.parent):
        if not os.access(part, os.W_OK):
            return f"{part} is not writable"
    return None


def _what_is_lost(path: Path) -> str | None:
    """Return why nothing can be read of a file that should be a database; None if its header and size are right."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            size = file.seek(0, os.SEEK_END)
    except OSError:
        return None
    if len(head) < _HEADER_BYTES or not head.startswith(b"SQLite format 3\0"):
        return f"{path.name} does not begin as an SQLite database does"
    page_size, pages = struct.unpack(">H", head[16:18])[0], struct.unpack(">I", head[28:32])[0]
    whole = pages * (65536 if page_size == 1 else page_size)
    return (
        f"{path.name} is cut off, {size:,} of {whole:,} bytes are there" if size < whole else None
    )


_HEADER_BYTES = 100
_BEYOND_REPAIR = (
    "kb restore BACKUP --force brings a backup back; without one, move kb.sqlite away: "
    "kb doctor --repair then sets the stored files aside, to be added again"
)
_PERMISSIONS = "check the permissions of the data folder and its files, and whether its disk is mounted read-only"
# By SQLite's primary result code: the kind of error, what to tell, and what to do.
_BUSY = (Busy, "another process is writing; try again", "KB_BUSY_TIMEOUT sets how long to wait")
_DERIVED = re.compile(r"\bchunks_(?:fts|vec)_\d")
_DAMAGED = (
    StoreUnusable,
    "the database is damaged: {reason}",
    "kb doctor --repair rebuilds what can be rebuilt; else restore a backup, or save what can be read with kb export",
)
_DAMAGE = (dbapi2.SQLITE_CORRUPT, dbapi2.SQLITE_NOTADB)
_EXPLANATIONS: dict[int, tuple[type[KBError], str, str]] = {
    dbapi2.SQLITE_BUSY: _BUSY,
    dbapi2.SQLITE_LOCKED: _BUSY,
    dbapi2.SQLITE_CORRUPT: _DAMAGED,
    dbapi2.SQLITE_NOTADB: _DAMAGED,
    dbapi2.SQLITE_FULL: (
        DiskFull,
        f"the disk is full{UNCHANGED}",
        "free some space where the data folder is, and try again",
    ),
    dbapi2.SQLITE_READONLY: (
        StoreUnusable,
        f"the database cannot be written{UNCHANGED}",
        _PERMISSIONS,
    ),
    dbapi2.SQLITE_CANTOPEN: (
        StoreUnusable,
        "the database cannot be opened",
        _PERMISSIONS,
    ),
    dbapi2.SQLITE_IOERR: (
        StoreUnusable,
        f"the disk failed while the database was read or written{UNCHANGED}",
        "check the disk and its quota, then run kb doctor",
    ),
}
