"""What is SQLite's own: the driver, pragmas, FTS5 and vec0."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.ext.compiler import compiles

from kb_framework.errors import UNCHANGED, Busy, ConfigInvalid, DiskFull, KBError, StoreUnusable
from kb_framework.store import fts5, tables
from kb_framework.store.backend import Columns, VectorFill
from kb_framework.store.expression import Expression
from kb_framework.store.side.changes import Changes
from kb_framework.store.side.tables import TEXT
from kb_framework.store.sql import Forbidden, JsonObject, JsonValues, NewUuid, from_json

if TYPE_CHECKING:
    from kb_framework.settings import HostSettings
    from kb_framework.store.backend import Keeper
    from kb_framework.store.side.searching import SideSearch
    from kb_framework.store.store import Store

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
# How many vectors vec0 keeps in one of its chunks. Whoever reads or writes one goes along all pages before it in its chunk, and a
# chunk is freed only when all of its rows are gone: so far fewer than the 1024 that it would choose itself.
_VEC_SLOTS = 64


@compiles(JsonValues, "sqlite")
def _json_values(element: JsonValues, compiler: Any, **options: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.document, **options)}))"


@compiles(NewUuid, "sqlite")
def _new_uuid(_: NewUuid, __: Any, **___: Any) -> str:
    return (
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || "
        "substr('89ab', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
    )


@compiles(JsonObject, "sqlite")
def _json_object(element: JsonObject, compiler: Any, **options: Any) -> str:
    parts = []
    for name, value in zip(element.names, element.values, strict=True):
        shown = compiler.process(value, **options)
        # SQLite keeps truth as a number.
        shown = f"json(iif({shown}, 'true', 'false'))" if isinstance(value.type, sa.Boolean) else shown
        parts.append(f"'{name}', {shown}")
    return f"json_object({', '.join(parts)})"


@compiles(Forbidden, "sqlite")
def _forbidden(element: Forbidden, _: Any, **__: Any) -> str:
    return (
        f"CREATE TRIGGER {element.name} BEFORE {element.verb} ON {element.table} "
        f"BEGIN SELECT RAISE(ABORT, '{element.message}'); END"
    )


class SqliteBackend:
    """One file in WAL mode: a single writing connection and a pool of reading ones."""

    name = "sqlite"

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._busy_timeout = busy_timeout
        self.path = path
        self.vectors_missing: str | None = None
        self.has_job_types = False
        self.on_written: Callable[[int], None] = lambda _: None
        self._side = Changes()
        url = sa.URL.create("sqlite", database=str(path))
        options: dict[str, Any] = {
            "module": dbapi2,
            "pool_timeout": busy_timeout,
            "poolclass": sa.QueuePool,
            "json_deserializer": from_json,
        }
        arguments = {"timeout": busy_timeout, "check_same_thread": False}
        # A pool of one is the in-process lock: writers queue here instead of fighting over the file.
        self.writer = sa.create_engine(url, pool_size=1, max_overflow=0, connect_args=arguments, **options)
        # The connection that was used last comes first: each that is used fills a cache of its own.
        readers = {**options, "pool_use_lifo": True, "pool_size": _READERS, "max_overflow": _READERS}
        self.reader = sa.create_engine(url, connect_args=arguments, **readers)
        self.replica = None
        event.listen(self.writer, "connect", self._set_up_writer)
        event.listen(self.reader, "connect", self._set_up_reader)
        event.listen(self.writer, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        event.listen(self.reader, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))

    def _set_up(self, connection: Any) -> None:
        # Transactions are begun by the listeners above, not by the driver.
        connection.isolation_level = None
        self._load_vectors(connection)
        for pragma in ("foreign_keys=ON", "synchronous=FULL", "temp_store=MEMORY", f"cache_size=-{_CACHE}"):
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
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != dbapi2.SQLITE_BUSY or time.monotonic() > end:
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

    @cached_property
    def _side_search(self) -> SideSearch:
        # It needs numpy, which only those wait for who search a large organization.
        from kb_framework.store.side.searching import SideSearch

        return SideSearch(self.side_folder)

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

    def lock(self, connection: sa.Connection, organization_id: str | None, queue: str | None) -> None:
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

    def keeper(self, store: Store, settings: HostSettings) -> Keeper:
        from kb_framework.store.side.keeper import Keeper as SideKeeper

        return SideKeeper(store, self.side_folder, settings.side_index_min_chunks, settings.side_index_tail_rows)

    def close(self) -> None:
        self.writer.dispose()
        self.reader.dispose()

    def partition(self, store: Store, number: int, told: Callable[[str], None]) -> bool:
        raise ConfigInvalid(
            "a SQLite database has no partitions", hint="they are for PostgreSQL: set KB_DATABASE_URL, see docs/scaling.md"
        )

    def explain(self, error: BaseException | None) -> KBError | None:
        if isinstance(error, exc.TimeoutError):
            code, reason = dbapi2.SQLITE_BUSY, ""
        else:
            reason = error.orig if isinstance(error, exc.DBAPIError) else None
            # Extended codes say more in their higher bits.
            code = getattr(reason, "sqlite_errorcode", 0) & 0xFF
        if code not in _EXPLANATIONS:
            return None
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

    # Full text

    def create_full_text(self, connection: sa.Connection) -> None:
        fts5.full_texts.create(connection, checkfirst=True)

    def drop_full_text(self, connection: sa.Connection, organization_id: str | None = None) -> None:
        for owner in fts5.owners(connection) if organization_id is None else [organization_id]:
            self._forget_side(connection, TEXT, owner)
            if name := fts5.table_of(connection, owner):
                self._drop_virtual(connection, name)
                connection.execute(sa.delete(fts5.full_texts).where(fts5.full_texts.c.organization_id == owner))
        if organization_id is None:
            self._drop_virtual(connection, fts5.SHARED)

    def prepare_text(self, connection: sa.Connection, organization_id: str) -> str:
        """The name of an organization's table, which is made if it is not there.

        After a rollback to a savepoint in which a table of FTS5 was made, SQLite fails at every statement of the transaction.
        """
        if name := fts5.table_of(connection, organization_id):
            return name
        name = fts5.new_name(connection, organization_id)
        # There is one already only if somebody has taken its row out of the list.
        self._drop_virtual(connection, name)
        fts5.create(connection, name)
        return name

    def add_text(self, connection: sa.Connection, organization_id: str, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        values = [(seq, *words) for seq, words in rows]
        if values:
            name = self.prepare_text(connection, organization_id)
            connection.exec_driver_sql(f"INSERT INTO {name}(rowid, title, headings, body) VALUES (?, ?, ?, ?)", values)
            self._side.text_added(connection, organization_id, values)
            self.on_written(len(values))

    def remove_text(self, connection: sa.Connection, organization_id: str, chunks: sa.Select) -> None:
        if name := fts5.table_of(connection, organization_id):
            self._side.removed(connection, TEXT, organization_id, chunks)
            table = sa.table(name, sa.column("rowid"))
            connection.execute(sa.delete(table).where(table.c.rowid.in_(chunks)))

    def search_text(
        self,
        connection: sa.Connection,
        organization_id: str,
        text: str,
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        """The best chunks for any of the words, by BM25 over title, headings and body; higher is better."""
        (found,) = self.search_texts(connection, organization_id, [text], allowed, limit, weights)
        return _pairs(found)

    def search_texts(
        self,
        connection: sa.Connection,
        organization_id: str,
        texts: Sequence[str],
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[Columns]:
        found: Sequence[Columns | None] = [None] * len(texts)
        if self._side.has(connection, TEXT, organization_id):
            found = self._side_search.texts(connection, organization_id, texts, allowed, limit, weights)
        within = _all_of(organization_id) if allowed is None else allowed
        return [
            _columns(fts5.ranked(connection, organization_id, fts5.match_any(text), within, limit, weights))
            if columns is None
            else columns
            for text, columns in zip(texts, found, strict=True)
        ]

    def search_expression(
        self,
        connection: sa.Connection,
        organization_id: str,
        expression: Expression,
        allowed: sa.Select,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        return fts5.ranked(connection, organization_id, fts5.match(expression), allowed, limit, weights)

    def matches(
        self, connection: sa.Connection, organization_id: str, wanted: str | Expression, chunk: sa.ColumnElement[int]
    ) -> sa.ColumnElement[bool]:
        match = fts5.match_any(wanted) if isinstance(wanted, str) else fts5.match(wanted)
        name = fts5.table_of(connection, organization_id)
        if not match or name is None:
            return sa.false()
        table = sa.table(name, sa.column("rowid"))
        return chunk.in_(sa.select(table.c.rowid).where(sa.literal_column(name).op("MATCH")(match)))

    def count_text(self, connection: sa.Connection, organization_id: str) -> int:
        name = fts5.table_of(connection, organization_id)
        return connection.exec_driver_sql(f"SELECT count(*) FROM {name}_docsize").scalar_one() if name else 0

    def has_text(self, connection: sa.Connection, organization_id: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        name = fts5.table_of(connection, organization_id)
        if name is None:
            return sa.false()
        indexed = sa.table(f"{name}_docsize", sa.column("id"))
        return sa.exists().where(indexed.c.id == chunk)

    def remove_stray_text(self, connection: sa.Connection, organization_id: str) -> int:
        name = fts5.table_of(connection, organization_id)
        if name is None:
            return 0
        known = f"SELECT 1 FROM chunks WHERE chunks.seq = {name}_docsize.id AND +chunks.organization_id = ?"
        stray = f"SELECT id FROM {name}_docsize WHERE NOT EXISTS ({known})"
        return connection.exec_driver_sql(f"DELETE FROM {name} WHERE rowid IN ({stray})", (organization_id,)).rowcount

    def check_text(self, connection: sa.Connection, organization_id: str) -> str | None:
        name = fts5.table_of(connection, organization_id)
        try:
            if name:
                connection.exec_driver_sql(f"INSERT INTO {name}({name}) VALUES ('integrity-check')")
            self.count_text(connection, organization_id)
        except exc.DatabaseError as error:
            return str(error.orig)
        return None

    # Vectors

    def create_vectors(self, connection: sa.Connection, index: str, dimensions: int) -> None:
        connection.exec_driver_sql(
            f"CREATE VIRTUAL TABLE {index} USING vec0(organization_id text partition key, embedding float[{dimensions}], "
            f"chunk_size={_VEC_SLOTS})"
        )
        # vec0 looks for an organization's blocks of vectors among those of all.
        connection.exec_driver_sql(f"CREATE INDEX {index}_by_organization ON {index}_chunks(partition00)")

    def add_vectors(self, connection: sa.Connection, index: str, organization_id: str, rows: Iterable[tuple[int, bytes]]) -> None:
        values = [(seq, organization_id, vector) for seq, vector in rows]
        if values:
            connection.exec_driver_sql(f"INSERT INTO {index}(rowid, organization_id, embedding) VALUES (?, ?, ?)", values)
            self._side.vectors_added(connection, index, organization_id, [(seq, vector) for seq, _, vector in values])

    def remove_vectors(self, connection: sa.Connection, index: str, organization_id: str, chunks: sa.Select) -> None:
        self._side.removed(connection, index, organization_id, chunks)
        table = sa.table(index, sa.column("rowid"))
        connection.execute(sa.delete(table).where(table.c.rowid.in_(chunks)))

    def search_vectors(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vector: bytes,
        allowed: sa.Select | None,
        limit: int,
    ) -> list[tuple[int, float]]:
        """The nearest chunks with their cosine similarity; vectors have unit length, so L2 gives the same order."""
        (found,) = self.search_all_vectors(connection, index, organization_id, [vector], allowed, limit)
        return _pairs(found)

    def search_all_vectors(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vectors: Sequence[bytes],
        allowed: sa.Select | None,
        limit: int,
    ) -> list[Columns]:
        if self._side.has(connection, index, organization_id):
            found = self._side_search.vectors(connection, organization_id, index, vectors, allowed, limit)
            if found is not None:
                return [*found]
        return [_columns(self._scanned(connection, index, organization_id, vector, allowed, limit)) for vector in vectors]

    def _scanned(
        self,
        connection: sa.Connection,
        index: str,
        organization_id: str,
        vector: bytes,
        allowed: sa.Select | None,
        limit: int,
    ) -> list[tuple[int, float]]:
        table = sa.table(
            index,
            sa.column("rowid"),
            sa.column("distance"),
            sa.column("embedding"),
            sa.column("organization_id"),
        )
        query = (
            sa.select(table.c.rowid, table.c.distance)
            .where(
                table.c.embedding.op("MATCH")(vector),
                sa.literal_column("k") == min(limit, 4096),
                table.c.organization_id == organization_id,
            )
            .order_by(table.c.distance)
        )
        if allowed is not None:
            query = query.where(table.c.rowid.in_(allowed))
        return [(seq, 1.0 - distance * distance / 2.0) for seq, distance in connection.execute(query)]

    def count_vectors(self, connection: sa.Connection, index: str) -> int:
        return connection.exec_driver_sql(f"SELECT count(*) FROM {index}_rowids").scalar_one()

    def has_vector(self, index: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        indexed = sa.table(f"{index}_rowids", sa.column("rowid"))
        return sa.exists().where(indexed.c.rowid == chunk)

    def read_vectors(
        self, connection: sa.Connection, index: str, chunks: Sequence[int], organization_id: str | None = None
    ) -> dict[int, bytes]:
        # vec0 itself would look through the whole table, or for each vector along all that come before it in its chunk.
        places = f"SELECT rowid, chunk_id, chunk_offset FROM {index}_rowids WHERE rowid IN (SELECT value FROM json_each(?))"
        by_chunk: dict[int, list[tuple[int, int]]] = {}
        for number, chunk, offset in connection.exec_driver_sql(places, (json.dumps(list(chunks)),)):
            by_chunk.setdefault(chunk, []).append((number, offset))
        read = (
            f"SELECT v.rowid, v.vectors, c.size FROM {index}_vector_chunks00 v JOIN {index}_chunks c ON c.chunk_id = v.rowid "
            "WHERE v.rowid IN (SELECT value FROM json_each(?))"
        )
        found: dict[int, bytes] = {}
        for chunk, vectors, slots in connection.exec_driver_sql(read, (json.dumps(list(by_chunk)),)):
            size = len(vectors) // slots
            found.update({number: vectors[offset * size : (offset + 1) * size] for number, offset in by_chunk[chunk]})
        return found

    def show_vectors(self, connection: sa.Connection, index: str | None) -> None:
        # A view: a query needs no other one to learn the table's name, and can never know a former one.
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_shown.name}")
        rows = f"SELECT rowid, embedding FROM {index}" if index else "SELECT NULL, NULL WHERE FALSE"
        connection.exec_driver_sql(f"CREATE VIEW {_shown.name}(seq, embedding) AS {rows}")

    def vector_of(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bytes]:
        return sa.select(_shown.c.embedding).where(_shown.c.seq == chunk).scalar_subquery()

    def remove_stray_vectors(self, connection: sa.Connection, index: str) -> int:
        known = f"SELECT 1 FROM chunks WHERE chunks.seq = {index}_rowids.rowid"
        stray = list(connection.exec_driver_sql(f"SELECT rowid FROM {index}_rowids WHERE NOT EXISTS ({known})").scalars())
        for number in stray:
            connection.exec_driver_sql(f"DELETE FROM {index} WHERE rowid = ?", (number,))
        return len(stray)

    def check_vectors(self, connection: sa.Connection, index: str) -> str | None:
        """The parts must agree: every row's chunk of vectors must be there, with room for its numbers."""
        lost = (
            f"SELECT count(*) FROM {index}_rowids AS r "
            f"LEFT JOIN {index}_chunks AS c ON c.chunk_id = r.chunk_id "
            f"LEFT JOIN {index}_vector_chunks00 AS v ON v.rowid = r.chunk_id "
            f"WHERE c.chunk_id IS NULL OR v.vectors IS NULL"
        )
        try:
            rows = connection.exec_driver_sql(lost).scalar_one()
            connection.exec_driver_sql(f"SELECT rowid, embedding FROM {index} LIMIT 1").fetchall()
        except exc.DatabaseError as error:
            return str(error.orig)
        return f"{rows} vectors have lost their numbers" if rows else None

    def vector_fill(self, connection: sa.Connection, index: str) -> VectorFill:
        room = f"SELECT coalesce(sum(size), 0), coalesce(max(size), 1) FROM {index}_chunks"
        slots, per_chunk = connection.exec_driver_sql(room).one()
        joined = f"SELECT count(*) FROM {index}_rowids r JOIN {index}_chunks c USING (chunk_id) GROUP BY c.partition00"
        rows = list(connection.exec_driver_sql(joined).scalars())
        size = f"SELECT coalesce(sum(length(vectors)), 0) FROM {index}_vector_chunks00"
        return VectorFill(
            rows=sum(rows),
            slots=slots,
            needed=sum(per_chunk * -(-number // per_chunk) for number in rows),
            bytes=connection.exec_driver_sql(size).scalar_one(),
        )

    def drop_vectors(self, connection: sa.Connection, index: str) -> None:
        self._forget_side(connection, index)
        self._drop_virtual(connection, index)

    def _forget_side(self, connection: sa.Connection, source: str, organization_id: str | None = None) -> None:
        if self._side.forget(connection, source, organization_id):
            # Its successor will be as large.
            self.on_written(_MANY)

    def _drop_virtual(self, connection: sa.Connection, name: str) -> None:
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
            return
        except exc.DatabaseError as error:
            log.warning("%s is too damaged to be dropped as a whole: %s", name, error.orig)
        # A virtual table that has lost one of its parts cannot be opened, so not dropped either: take it apart.
        parts = connection.exec_driver_sql("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?", (f"{name}_*",))
        for part in list(parts.scalars()):
            if part.removeprefix(name)[1:2].isalpha():
                connection.exec_driver_sql(f"DROP TABLE {part}")
        connection.exec_driver_sql("PRAGMA writable_schema=ON")
        connection.exec_driver_sql("DELETE FROM sqlite_schema WHERE name = ?", (name,))
        connection.exec_driver_sql("PRAGMA writable_schema=RESET")

    # Health

    def check(self, connection: sa.Connection) -> list[str]:
        """What SQLite itself finds wrong with the file; nothing when all is well."""
        # FTS5 checks what this connection last knew of its structure, and calls it corrupt if another has changed it since:
        # a look at the table makes it read the structure anew.
        for owner in fts5.owners(connection):
            connection.exec_driver_sql(f"SELECT rowid FROM {fts5.table_of(connection, owner)} LIMIT 1").fetchall()
        problems = [row[0] for row in connection.exec_driver_sql("PRAGMA quick_check(20)") if row[0] != "ok"]
        orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        return problems + [f"a row of {row[0]} refers to a missing row of {row[2]}" for row in orphans[:20]]

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
            versions["vectors"] = f"sqlite-vec {connection.exec_driver_sql('SELECT vec_version()').scalar_one()}"
        return versions


def _columns(found: list[tuple[int, float]]) -> Columns:
    return [seq for seq, _ in found], [score for _, score in found]


def _pairs(found: Columns) -> list[tuple[int, float]]:
    seqs, scores = (column if isinstance(column, list) else column.tolist() for column in found)
    return list(zip(seqs, scores, strict=True))


def _all_of(organization_id: str) -> sa.Select:
    return sa.select(tables.chunks.c.seq).where(tables.chunks.c.organization_id == organization_id)


_PERMISSIONS = "check the permissions of the data folder and its files, and whether its disk is mounted read-only"
# By SQLite's primary result code: the kind of error, what to tell, and what to do.
_BUSY = (Busy, "another process is writing; try again", "KB_BUSY_TIMEOUT sets how long to wait")
_DAMAGED = (StoreUnusable, "the database is damaged: {reason}", "run kb doctor, or restore a backup")
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

_shown = sa.table("active_vectors", sa.column("seq"), sa.column("embedding", sa.LargeBinary))
