"""Copying a SQLite database into an empty PostgreSQL database, with all ids; interrupted, it goes on the next time.

Each batch is one transaction that also notes how far it came. Until all of it has been compared, the target is marked: no engine
opens it. What is derived is not copied but made: full text from the chunks, vectors by way of the interface that both sides have.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from kb_files.api import LocalFiles
from kb_sqlite.api import DERIVED_TABLES, SqliteEngine
from kb_text.api import add_missing_text

from kb_framework.api.files import open_files
from kb_framework.api.opening import (
    PATIENT_SECONDS,
    UNFINISHED_COPY,
    Bootstrap,
    load_plugin_settings,
    open_engine,
    open_store,
    plugin_steps,
    require_current,
    running_engine,
)
from kb_framework.api.parts import HostSettings, Plugins, Settings, Store, Tx
from kb_framework.api.settings import DatabaseUrl
from kb_framework.api.spaces import Space, active_space, create_space
from kb_framework.api.tables import chunks, documents, embedding_spaces, migrations, organizations
from kb_framework.api.times import now
from kb_framework.errors import ConfigInvalid, Conflict, InvalidInput, StoreUnusable
from kb_maintenance.copying import CheckSum, Position, TableCopy, reflected

Advance = Callable[[int, int | None], None]

AT_ONCE = 1000
# How far each table is; it is there only as long as the copy is not finished.
_positions = sa.Table(
    "kb_store_copy",
    sa.MetaData(),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("position", sa.Text, nullable=False),
)
_VECTORS = "vectors of chunks"
# Made anew on the other side.
_DERIVED = {migrations.name, embedding_spaces.name, *DERIVED_TABLES}


def move_store(
    bootstrap: Bootstrap,
    plugins: Plugins,
    source: Path,
    url: str | None,
    advance: Advance,
    at_once: int = AT_ONCE,
) -> dict[str, Any]:
    """Copy everything, compare it, and say what there is."""
    plugins.require_all_loaded()
    settings = load_plugin_settings(bootstrap, plugins)
    host = settings.host.model_copy(update={"database_url": _address(settings.host, url)})
    sections = dict(settings.sections)
    if "database" in sections:
        # Sorting a large table in order to compare it may take as long as it takes.
        sections["database"] = sections["database"].model_copy(update={"statement_timeout": 0})
    settings = dataclasses.replace(settings, host=host, sections=sections)
    if not source.is_file():
        raise InvalidInput(f"there is no file {str(source)!r}")
    if running_engine(dataclasses.replace(bootstrap, data_dir=source.parent), PATIENT_SECONDS):
        raise Conflict(
            f"an engine serves {source.parent}: what it writes meanwhile would stay behind",
            hint="stop kb serve first",
        )
    origin = Store(SqliteEngine(source, host.busy_timeout))
    # Nothing is written into the source, but nobody else may write meanwhile: it would stay behind.
    with closing(origin), origin.write() as tx:
        require_current(tx, plugin_steps(plugins))
        if problems := tx.engine.check(tx.connection):
            raise StoreUnusable(
                f"the database is damaged: {problems[0]}",
                hint="kb doctor --repair, or restore a backup first",
            )
        stored_files = _stored_files(tx, host, plugins, source)
        with closing(_open_target(settings, plugins, _fingerprint(tx))) as target:
            done = _Copy(tx, target, advance, at_once).run()
    return {**done, "database": str(host.database_url), "files": stored_files}


def _address(host: HostSettings, url: str | None) -> DatabaseUrl:
    if url is None:
        if host.database_url is None:
            raise ConfigInvalid(
                "no target database given", hint="give its address, or set KB_DATABASE_URL"
            )
        return host.database_url
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidInput("the address of the database must begin with postgresql://")
    return DatabaseUrl(url)


def _fingerprint(tx: Tx) -> str:
    """Which database this is, in which state: only a copy of the same may be gone on with."""
    steps = tx.execute(
        sa.select(migrations).order_by(migrations.c.plugin, migrations.c.version)
    ).all()
    owners = tx.execute(sa.select(organizations).order_by(organizations.c.id)).all()
    return hashlib.sha256(
        json.dumps([[list(row) for row in rows] for rows in (steps, owners)]).encode()
    ).hexdigest()


def _stored_files(tx: Tx, host: HostSettings, plugins: Plugins, source: Path) -> dict[str, Any]:
    """Files are no part of a database: how many documents' files are not yet where the configured storage is."""
    wanted = set(
        tx.connection.scalars(
            sa.select(documents.c.file).where(documents.c.file.is_not(None)).distinct()
        )
    )
    missing = (
        wanted - open_files(plugins.file_stores, host.files_url, host.data_dir).keys()
        if wanted
        else set()
    )
    here = missing & LocalFiles(source.parent / "files").keys() if missing else set()
    return {
        "wanted": len(wanted),
        "missing": len(missing),
        "folder": str(source.parent / "files") if here else None,
    }


def _open_target(settings: Settings, plugins: Plugins, fingerprint: str) -> Store:
    """The database, with its tables, marked as unfinished; refused, and left as it is, if there is anything else in it."""
    store = Store(open_engine(settings, plugins))
    try:
        with store.read() as tx:
            begun = _begun(tx)
        if begun is None:
            made = _rows_of_a_new_one(settings, plugins)
            with store.read() as tx:
                _require_empty(tx, made)
            store.close()
            store = open_store(settings, plugins, beside_files=True)
            plugins.require_all_loaded()
            with store.write() as tx:
                begun = _begun(tx) or _begin(tx, made, fingerprint)
        if begun != fingerprint:
            raise Conflict(
                "this database holds an unfinished copy of another database, or of this one before it was changed",
                hint="give an empty database",
            )
    except BaseException:
        store.close()
        raise
    return store


def _rows_of_a_new_one(settings: Settings, plugins: Plugins) -> dict[str, int]:
    """How many rows each table of a new knowledge base has, before anybody has used it: secrets, the default organization."""
    with tempfile.TemporaryDirectory() as folder:
        host = settings.host.model_copy(update={"database_url": None, "data_dir": Path(folder)})
        new = dataclasses.replace(settings, host=host)
        with closing(open_store(new, plugins)) as store, store.read() as tx:
            counts = {
                name: tx.scalar(sa.select(sa.func.count()).select_from(sa.table(name)))
                for name in _own_tables(tx)
            }
    return {name: count for name, count in counts.items() if count}


def _own_tables(tx: Tx) -> list[str]:
    """The tables of a SQLite database, but for those by which virtual tables keep their content."""
    kinds = tx.connection.exec_driver_sql("PRAGMA main.table_list").all()
    # They are called after the virtual table.
    virtual = tuple(f"{row[1]}_" for row in kinds if row[2] == "virtual")
    return [
        row[1]
        for row in kinds
        if row[2] == "table" and not row[1].startswith(("sqlite_", *virtual))
    ]


def _begun(tx: Tx) -> str | None:
    if not sa.inspect(tx.connection).has_table(migrations.name):
        return None
    return tx.scalar(sa.select(migrations.c.name).where(migrations.c.plugin == UNFINISHED_COPY))


def _begin(tx: Tx, made: Mapping[str, int], fingerprint: str) -> str:
    _require_empty(tx, made)
    # What migrations made here gives way to what they made there.
    for table in reversed(
        [*reflected(tx.connection, sorted(made.keys() - {migrations.name})).values()]
    ):
        tx.execute(sa.delete(table))
    _positions.create(tx.connection)
    mark = {"plugin": UNFINISHED_COPY, "version": 1, "name": fingerprint, "applied_at": now()}
    tx.execute(sa.insert(migrations).values(mark))
    return fingerprint


def _require_empty(tx: Tx, made: Mapping[str, int]) -> None:
    """There may be as many rows as a new knowledge base has."""
    for name in sorted(sa.inspect(tx.connection).get_table_names()):
        some = (
            sa.select(sa.literal(1))
            .select_from(sa.table(name))
            .limit(made.get(name, 0) + 1)
            .subquery()
        )
        if tx.scalar(sa.select(sa.func.count()).select_from(some)) > made.get(name, 0):
            words = f"the database is not empty: there are rows in {name}; nothing was changed"
            raise Conflict(words, hint="give an empty database")


class _Copy:
    def __init__(self, source: Tx, target: Store, advance: Advance, at_once: int) -> None:
        self._source = source
        self._target = target
        self._at_once = at_once
        self._advance = advance
        self._tables = self._pairs()
        self._space = active_space(source)
        self._counts = {table.name: table.count(source.connection) for table in self._tables}
        # Rows are copied and compared, which reads them twice; chunks are indexed too.
        self._total = 3 * sum(self._counts.values()) + 2 * self._counts[chunks.name]
        self._done = 0
        self._resumed = 0

    def run(self) -> dict[str, Any]:
        if self._space and (problem := self._target.engine.vectors_missing):
            raise StoreUnusable(f"the vectors cannot be stored: {problem}")
        for table in self._tables:
            self._copy_rows(table)
        if self._space:
            self._copy_vectors(self._space)
        self._index_text()
        self._settle()
        found = {table.name: self._compared(table) for table in self._tables}
        vectors = self._compared_vectors(self._space) if self._space else None
        with self._target.write() as tx:
            _positions.drop(tx.connection)
            tx.execute(sa.delete(migrations).where(migrations.c.plugin == UNFINISHED_COPY))
        return {
            "documents": found[documents.name].rows,
            "chunks": found[chunks.name].rows,
            "rows": sum(item.rows for item in found.values()),
            "vectors": vectors.rows if vectors else 0,
            "tables": {name: item._asdict() for name, item in sorted(found.items())},
            "resumed": self._resumed > 0,
        }

    def _pairs(self) -> list[TableCopy]:
        """Every table that holds something of its own; each must be there on the other side, with all its columns."""
        here = reflected(self._source.connection, sorted(set(_own_tables(self._source)) - _DERIVED))
        with self._target.read() as tx:
            there = reflected(tx.connection, list(here))
        for name, table in here.items():
            missing = {column.name for column in table.c} - (
                {column.name for column in there[name].c} if name in there else set()
            )
            if missing:
                what = (
                    f"the columns {', '.join(sorted(missing))} of {name}"
                    if name in there
                    else f"the table {name}"
                )
                raise StoreUnusable(
                    f"nothing here knows {what}, so it would be lost",
                    hint="install the plugin that made it",
                )
        return [TableCopy(here[name], there[name]) for name in there]

    def _copy_rows(self, table: TableCopy) -> None:
        def batch(tx: Tx, after: Position | None) -> tuple[Position | None, int]:
            rows, last = table.read(self._source.connection, after, self._at_once)
            if rows:
                table.write(tx.connection, rows)
            return last, len(rows)

        self._in_batches(table.name, batch)

    def _copy_vectors(self, space: Space) -> None:
        with self._target.write() as tx:
            there = active_space(tx) or create_space(tx, space.model, space.dimensions)

        def batch(tx: Tx, after: Position | None) -> tuple[Position | None, int]:
            rows = self._numbers(after)
            found = self._source.vector_index(space.index_name).read(
                [row[0] for row in rows], anywhere=True
            )
            for owner in {row[1] for row in rows}:
                mine = [
                    (number, found[number])
                    for number, whose in rows
                    if whose == owner and number in found
                ]
                tx.vector_index(there.index_name, owner).add(mine)
            return [rows[-1][0]] if rows else None, len(rows)

        self._in_batches(_VECTORS, batch)

    def _numbers(self, after: Position | None) -> Sequence[Any]:
        query = sa.select(chunks.c.seq, chunks.c.organization_id).where(
            chunks.c.seq > (after[0] if after else 0)
        )
        return self._source.execute(query.order_by(chunks.c.seq).limit(self._at_once)).all()

    def _in_batches(
        self, name: str, batch: Callable[[Tx, Position | None], tuple[Position | None, int]]
    ) -> None:
        """Each batch and the note of how far it came are one transaction."""
        mine = _positions.c.name == name
        last: Position | None = []
        first = True
        while last is not None:
            with self._target.write() as tx:
                noted = tx.scalar(sa.select(_positions.c.position).where(mine))
                self._resumed += first and noted is not None
                last, count = batch(tx, json.loads(noted) if noted else None)
                if last is not None:
                    note = sa.update(_positions).where(mine) if noted else sa.insert(_positions)
                    tx.execute(note.values(name=name, position=json.dumps(last)))
            first = False
            self._advanced(count)

    def _index_text(self) -> None:
        for owner in self._source.connection.scalars(sa.select(organizations.c.id)).all():
            after = 0
            while True:
                with self._target.write() as tx:
                    done = add_missing_text(tx, owner, after, self._at_once)
                if not done:
                    break
                after = done[-1]
                self._advanced(len(done))

    def _settle(self) -> None:
        """Numbers go on after those that were ever given, and what has moved by writing here is what it was there."""
        has_given = sa.inspect(self._source.connection).has_table("sqlite_sequence")
        given = (
            dict(
                self._source.connection.exec_driver_sql(
                    "SELECT name, seq FROM sqlite_sequence"
                ).all()
            )
            if has_given
            else {}
        )
        revisions = self._source.execute(
            sa.select(organizations.c.id, organizations.c.revision)
        ).all()
        with self._target.write() as tx:
            for table in self._tables:
                key = list(table.target.primary_key)
                if (
                    len(key) == 1
                    and isinstance(key[0].type, sa.Integer)
                    and (self._counts[table.name] or table.name in given)
                ):
                    tx.engine.numbers_given(tx.connection, table.target, given.get(table.name, 0))
            for owner, revision in revisions:
                tx.execute(
                    sa.update(organizations)
                    .where(organizations.c.id == owner)
                    .values(revision=revision)
                )

    def _compared(self, table: TableCopy) -> CheckSum:
        here = self._sum(
            table.check_sum(self._source.connection, of_target=False, at_once=self._at_once)
        )
        with self._target.read() as tx:
            there = self._sum(table.check_sum(tx.connection, of_target=True, at_once=self._at_once))
        return _same(table.name, here, there)

    def _compared_vectors(self, space: Space) -> CheckSum:
        sums = [hashlib.sha256(), hashlib.sha256()]
        counts = [0, 0]
        after: Position | None = None
        with self._target.read() as tx:
            there = active_space(tx)
            assert there is not None
            while rows := self._numbers(after):
                numbers = [row[0] for row in rows]
                after = [numbers[-1]]
                for side_number, (asked, index) in enumerate(((self._source, space), (tx, there))):
                    found = asked.vector_index(index.index_name).read(numbers, anywhere=True)
                    counts[side_number] += len(found)
                    for number in sorted(found):
                        sums[side_number].update(number.to_bytes(8) + found[number])
        here, copied = (
            CheckSum(count, digest.hexdigest()) for count, digest in zip(counts, sums, strict=True)
        )
        return _same(_VECTORS, here, copied)

    def _sum(self, steps: Iterator[int | CheckSum]) -> CheckSum:
        for step in steps:
            if isinstance(step, CheckSum):
                return step
            self._advanced(step)
        raise AssertionError("a check sum ends with one")

    def _advanced(self, rows: int) -> None:
        self._done += rows
        self._advance(self._done, self._total)


def _same(name: str, here: CheckSum, there: CheckSum) -> CheckSum:
    if here != there:
        what = (
            f"{there.rows} rows instead of {here.rows}"
            if here.rows != there.rows
            else "other values"
        )
        raise StoreUnusable(
            f"the copy of {name} is not the same: it has {what}",
            hint="was one of the databases written meanwhile? begin again with an empty database; the source is as it was",
        )
    return here
