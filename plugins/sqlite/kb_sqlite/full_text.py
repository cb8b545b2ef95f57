"""SQLite's full text: every organization has an FTS5 table of its own, created with its first chunk.

So another organization's postings are never read, and its words do not count in the statistics. A table is named by the
organization's number in `full_texts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api import tables
from kb_framework.api.engine import Columns, IndexedText, once
from kb_framework.api.tables import Uuid
from kb_framework.api.text_query import Phrase, TextQuery
from kb_sqlite import virtual_tables
from kb_sqlite.accelerator.tables import TEXT

if TYPE_CHECKING:
    from kb_sqlite.engine import SqliteEngine

# The table that all organizations shared in former versions.
SHARED = "chunks_fts"

full_texts = sa.Table(
    "full_texts",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False, unique=True),
)
_NUMBER = sa.select(full_texts.c.id).where(full_texts.c.organization_id == sa.bindparam("owner"))


def create(connection: sa.Connection) -> None:
    full_texts.create(connection, checkfirst=True)


def create_table(connection: sa.Connection, name: str) -> None:
    # Words come ready-made: the tokenizer only splits at spaces, and keeps vowel signs and marks.
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE {name} USING fts5(title, headings, body, content='', "
        "contentless_delete=1, tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M* Co'\")"
    )


def owners(connection: sa.Connection) -> list[str]:
    """Return the organizations that have a table."""
    exists = sa.inspect(connection).has_table(full_texts.name)
    return list(connection.scalars(sa.select(full_texts.c.organization_id))) if exists else []


def table_of(connection: sa.Connection, organization_id: str) -> str | None:
    """Return the name of an organization's table; None where none of its chunks was ever indexed."""
    read = lambda: connection.execute(_NUMBER, {"owner": organization_id}).scalar()  # noqa: E731
    number = once(connection, ("full text", organization_id), read)
    return None if number is None else f"chunks_fts_{number}"


class SqliteText:
    """The full text of one organization: FTS5, and the accelerator where the organization is large."""

    def __init__(
        self, engine: SqliteEngine, connection: sa.Connection, organization_id: str
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._owner = organization_id

    @property
    def maintenance(self) -> SqliteTextMaintenance:
        return SqliteTextMaintenance(self._engine, self._connection, self._owner)

    @property
    def _table(self) -> str | None:
        return table_of(self._connection, self._owner)

    def prepare(self) -> str:
        """Return the name of the organization's table, which is created if there is none.

        After a rollback to a savepoint in which an FTS5 table was created, SQLite fails at every statement of the
        transaction.
        """
        if name := self._table:
            return name
        added = sa.insert(full_texts).values(organization_id=self._owner).returning(full_texts.c.id)
        name = f"chunks_fts_{self._connection.execute(added).scalar_one()}"
        # One exists already only if its row was removed from the list.
        virtual_tables.drop(self._connection, name)
        create_table(self._connection, name)
        return name

    def add(self, rows: Iterable[IndexedText]) -> None:
        values = [(seq, *words) for seq, words in rows]
        if values:
            insert = (
                f"INSERT INTO {self.prepare()}(rowid, title, headings, body) VALUES (?, ?, ?, ?)"
            )
            self._connection.exec_driver_sql(insert, values)
            self._engine.changes.text_added(self._connection, self._owner, values)
            self._engine.on_written(len(values))

    def remove(self, chunks: sa.Select) -> None:
        if name := self._table:
            self._engine.changes.removed(self._connection, TEXT, self._owner, chunks)
            table = sa.table(name, sa.column("rowid"))
            self._connection.execute(sa.delete(table).where(table.c.rowid.in_(chunks)))

    def search(
        self, queries: Sequence[TextQuery], within: sa.Select | None, limit: int
    ) -> list[Columns]:
        found: list[Columns | None] = [None] * len(queries)
        if self._engine.changes.has(self._connection, TEXT, self._owner):
            for weights, numbers in _plain_queries(queries).items():
                words = [queries[number].words for number in numbers]
                search = self._engine.accelerated.texts
                columns = search(self._connection, self._owner, words, within, limit, weights)
                for number, hits in zip(numbers, columns, strict=True):
                    found[number] = hits
        return [
            self.ranked(query, within, limit) if columns is None else columns
            for query, columns in zip(queries, found, strict=True)
        ]

    def ranked(self, query: TextQuery, within: sa.Select | None, limit: int) -> Columns:
        """Return the best chunks for a query, by FTS5's own ranking."""
        match, name = match_expression(query), self._table
        if not match or name is None:
            return [], []
        if within is None:
            mine = tables.chunks.c.organization_id == self._owner
            within = sa.select(tables.chunks.c.seq).where(mine)
        number = sa.literal_column(f"{name}.rowid", sa.Integer)
        rank = sa.func.bm25(sa.literal_column(name), *query.weights)
        # With its sign the rowid is no key to FTS5, which would else match the query once per allowed chunk.
        unpushed = sa.literal_column(f"+{name}.rowid", sa.Integer)
        matching = sa.select(number, rank).select_from(sa.table(name))
        matching = matching.where(sa.literal_column(name).op("MATCH")(match), unpushed.in_(within))
        rows = self._connection.execute(matching.order_by(rank, number).limit(limit)).all()
        return [row[0] for row in rows], [-row[1] for row in rows]

    def matches(self, query: TextQuery, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        match, name = match_expression(query), self._table
        if not match or name is None:
            return sa.false()
        table = sa.table(name, sa.column("rowid"))
        matching = sa.select(table.c.rowid).where(sa.literal_column(name).op("MATCH")(match))
        return chunk.in_(matching)

    def has(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        name = self._table
        if name is None:
            return sa.false()
        indexed = sa.table(f"{name}_docsize", sa.column("id"))
        return sa.exists().where(indexed.c.id == chunk)


class SqliteTextMaintenance:
    def __init__(
        self, engine: SqliteEngine, connection: sa.Connection, organization_id: str
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._owner = organization_id
        self._run = connection.exec_driver_sql

    def count(self) -> int:
        name = table_of(self._connection, self._owner)
        return self._run(f"SELECT count(*) FROM {name}_docsize").scalar_one() if name else 0

    def check(self) -> str | None:
        name = table_of(self._connection, self._owner)
        try:
            if name:
                self._run(f"INSERT INTO {name}({name}) VALUES ('integrity-check')")
            self.count()
        except exc.DatabaseError as error:
            return str(error.orig)
        return None

    def remove_strays(self) -> int:
        name = table_of(self._connection, self._owner)
        if name is None:
            return 0
        known = f"SELECT 1 FROM chunks WHERE chunks.seq = {name}_docsize.id AND +chunks.organization_id = ?"
        stray = f"SELECT id FROM {name}_docsize WHERE NOT EXISTS ({known})"
        return self._run(f"DELETE FROM {name} WHERE rowid IN ({stray})", (self._owner,)).rowcount

    def drop(self) -> None:
        self._engine.forget_accelerator(self._connection, TEXT, self._owner)
        if name := table_of(self._connection, self._owner):
            virtual_tables.drop(self._connection, name)
            mine = full_texts.c.organization_id == self._owner
            self._connection.execute(sa.delete(full_texts).where(mine))


def _plain_queries(queries: Sequence[TextQuery]) -> dict[tuple[float, ...], list[int]]:
    """Return the numbers of the queries that are not expressions, by their weights."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for number, query in enumerate(queries):
        if not query.is_expression:
            groups.setdefault(query.weights, []).append(number)
    return groups


def match_expression(query: TextQuery) -> str:
    """Return a query in FTS5's own language; empty where it can match nothing."""
    if not query.can_match:
        return ""
    if not query.wanted:
        return " OR ".join(_quoted((word.text,), word.prefix) for word in query.words)
    wanted = " AND ".join(map(_phrase, query.wanted))
    unwanted = " OR ".join(filter(None, map(_phrase, query.unwanted)))
    return f"({wanted}) NOT ({unwanted})" if unwanted else wanted


def _phrase(phrase: Phrase) -> str:
    ways = [_quoted(*way) for way in phrase.ways]
    if not ways:
        return ""
    either = ways[0] if len(ways) == 1 else f"({' OR '.join(ways)})"
    return f"{phrase.field} : {either}" if phrase.field else either


def _quoted(words: Sequence[str], prefix: bool) -> str:
    return f'"{" ".join(words)}"{"*" if prefix else ""}'
