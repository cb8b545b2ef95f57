"""Full text on PostgreSQL: the same words as everywhere, found by a GIN index and ranked by the same BM25 as FTS5's.

A chunk's words are a tsvector: title A, headings B, body D. They are made here and never parsed by PostgreSQL. Each bears
a short mark of its organization, so that the index has postings for every organization apart: another's size costs nothing.
Marks may collide, so the organization is asked for besides.

PostgreSQL has no BM25, and the extensions that bring one are rarely installed. But of a single word `ts_rank_cd` gives the sum
of the weights of its places, which is the weighted frequency that BM25 asks for; the length of a chunk and the totals of an
organization are kept in columns, and how many chunks have a word is counted by the index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework.api.engine import Columns, IndexedText
from kb_framework.api.text_query import Phrase, TextQuery
from kb_postgres.partitions import create_table
from kb_postgres.ranking import ranked
from kb_postgres.tables import fts, has, totals

if TYPE_CHECKING:
    from kb_postgres.engine import PostgresEngine

# Of the words of a chunk, PostgreSQL keeps the first places, and takes no longer words and no larger vectors than these.
_PLACES = 16_383
_WORD_CHARS = 400
_VECTOR_BYTES = 900_000
_FIELDS = "ABD"

_chunks = sa.table(
    "chunks", sa.column("seq", sa.BigInteger), sa.column("organization_id", sa.String)
)


def create(connection: sa.Connection) -> None:
    create_words(connection)
    index_words(connection)
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS chunks_fts_totals (organization_id VARCHAR(36) PRIMARY KEY, "
        "chunks BIGINT NOT NULL, length BIGINT NOT NULL) WITH (fillfactor = 50)"
    )


def drop(connection: sa.Connection) -> None:
    connection.exec_driver_sql("DROP TABLE IF EXISTS chunks_fts, chunks_fts_totals")


class PostgresText:
    """The full text of one organization."""

    def __init__(
        self, engine: PostgresEngine, connection: sa.Connection, organization_id: str
    ) -> None:
        self._engine = engine
        self._connection = connection
        self._owner = organization_id
        self._mark = mark_of(organization_id)

    @property
    def maintenance(self) -> PostgresTextMaintenance:
        return PostgresTextMaintenance(self._connection, self._owner)

    def prepare(self) -> None:
        """Do nothing: tables are the same for all organizations."""

    def add(self, rows: Iterable[IndexedText]) -> None:
        values = [(seq, self._owner, *_vector(self._mark, words)) for seq, words in rows]
        if not values:
            return
        self._connection.exec_driver_sql(
            "INSERT INTO chunks_fts (seq, organization_id, length, words) VALUES (%s, %s, %s, %s::tsvector)",
            values,
        )
        self._connection.exec_driver_sql(
            "INSERT INTO chunks_fts_totals VALUES (%s, %s, %s) ON CONFLICT (organization_id) DO UPDATE SET "
            "chunks = chunks_fts_totals.chunks + excluded.chunks, length = chunks_fts_totals.length + excluded.length",
            (self._owner, len(values), sum(value[2] for value in values)),
        )
        self._engine.on_written(len(values))

    def remove(self, chunks: sa.Select) -> None:
        _remove(self._connection, self._owner, fts.c.seq.in_(chunks))

    def search(
        self, queries: Sequence[TextQuery], within: sa.Select | None, limit: int
    ) -> list[Columns]:
        if within is None:
            within = sa.select(_chunks.c.seq).where(_chunks.c.organization_id == self._owner)
        return [self._search_one(query, within, limit) for query in queries]

    def _search_one(self, query: TextQuery, within: sa.Select, limit: int) -> Columns:
        if not query.can_match:
            return [], []
        if query.is_expression:
            words = [way for phrase in query.wanted for way in _ways(self._mark, phrase)]
            matching = _query(self._mark, query)
        else:
            words = [_lexeme(self._mark, *word) for word in query.words]
            matching = None
        found = ranked(
            self._connection,
            self._owner,
            words,
            matching,
            within,
            limit,
            query.weights,
            self._engine.frequencies,
        )
        return [seq for seq, _ in found], [score for _, score in found]

    def matches(self, query: TextQuery, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        wanted = _query(self._mark, query)
        if not wanted:
            return sa.false()
        mine = fts.c.organization_id == self._owner
        return chunk.in_(sa.select(fts.c.seq).where(mine, has(wanted)))

    def has(self, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        return sa.exists().where(fts.c.seq == chunk, fts.c.organization_id == self._owner)


class PostgresTextMaintenance:
    def __init__(self, connection: sa.Connection, organization_id: str) -> None:
        self._connection = connection
        self._owner = organization_id

    def count(self) -> int:
        query = sa.select(sa.func.count()).select_from(fts)
        return self._connection.execute(
            query.where(fts.c.organization_id == self._owner)
        ).scalar_one()

    def check(self) -> str | None:
        """Compare the totals with the rows, and look whether the index is valid."""
        connection = self._connection
        for table in (fts, totals):
            if connection.exec_driver_sql("SELECT to_regclass(%s)", (table.name,)).scalar() is None:
                return f"the table {table.name} is missing"
        count = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(fts.c.length), 0))
        count = count.select_from(fts).where(fts.c.organization_id == self._owner)
        noted = sa.select(totals.c.chunks, totals.c.length)
        noted = noted.where(totals.c.organization_id == self._owner)
        found, kept = tuple(connection.execute(count).one()), connection.execute(noted).first()
        if found != (tuple(kept) if kept else (0, 0)):
            return "its totals are not those of its rows"
        valid = (
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('chunks_fts_by_words')"
        )
        return None if connection.exec_driver_sql(valid).scalar() else "its index is missing"

    def remove_strays(self) -> int:
        known = sa.exists().where(
            _chunks.c.seq == fts.c.seq, _chunks.c.organization_id == self._owner
        )
        return _remove(self._connection, self._owner, ~known)

    def drop(self) -> None:
        # Damage is damage for all organizations.
        create(self._connection)
        for table in (fts, totals):
            self._connection.execute(sa.delete(table).where(table.c.organization_id == self._owner))


def _remove(
    connection: sa.Connection, organization_id: str, condition: sa.ColumnElement[bool]
) -> int:
    mine = fts.c.organization_id == organization_id
    gone = sa.delete(fts).where(mine, condition).returning(fts.c.length).cte("gone")
    count = sa.select(sa.func.count()).select_from(gone).scalar_subquery()
    length = sa.select(sa.func.coalesce(sa.func.sum(gone.c.length), 0)).scalar_subquery()
    update = sa.update(totals).where(totals.c.organization_id == organization_id).returning(count)
    update = update.values(chunks=totals.c.chunks - count, length=totals.c.length - length)
    return connection.execute(update).scalar() or 0


def create_words(connection: sa.Connection) -> None:
    # A row stays in its page as it is: to rank, words are looked up in thousands of rows, and unpacking would cost more.
    create_table(
        connection,
        fts.name,
        "seq BIGINT NOT NULL, organization_id VARCHAR(36) NOT NULL, length INTEGER NOT NULL, "
        "words TSVECTOR STORAGE MAIN NOT NULL, PRIMARY KEY (seq, organization_id)",
        "WITH (toast_tuple_target = 8160)",
    )


def index_words(connection: sa.Connection) -> None:
    connection.exec_driver_sql(
        "CREATE INDEX IF NOT EXISTS chunks_fts_by_words ON chunks_fts USING gin (words)"
    )


def mark_of(organization_id: str) -> str:
    """What every word of an organization begins with: short, as there are hundreds in a row."""
    number = int.from_bytes(hashlib.blake2b(organization_id.encode(), digest_size=3).digest())
    letters = "0123456789abcdefghijklmnopqrstuv"
    return "".join(letters[number >> shift & 31] for shift in (0, 5, 10, 15)) + "_"


def _vector(mark: str, fields: Sequence[str]) -> tuple[int, str]:
    """How many words there are, and where each is, as PostgreSQL reads a tsvector."""
    places: dict[str, list[str]] = {}
    at = count = size = 0
    for field, letter in zip(fields, _FIELDS, strict=True):
        for word in field.split():
            at += 1
            count += 1
            cut = word[:_WORD_CHARS]
            if cut not in places:
                size += len(cut.encode()) + len(mark) + 8
                if size > _VECTOR_BYTES:
                    continue
            places.setdefault(cut, []).append(f"{min(at, _PLACES)}{letter}")
        # No phrase goes from one field to the next.
        at += 1
    return count, " ".join(
        f"{_quoted(mark + word)}:{','.join(found)}" for word, found in places.items()
    )


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _lexeme(mark: str, word: str, prefix: bool = False, field: str = "") -> str:
    flags = ("*" if prefix or len(word) > _WORD_CHARS else "") + field
    return _quoted(mark + word[:_WORD_CHARS]) + (f":{flags}" if flags else "")


def _query(mark: str, query: TextQuery) -> str:
    """Return a query as a tsquery; empty where it can match nothing."""
    if not query.can_match:
        return ""
    if not query.wanted:
        return " | ".join(_lexeme(mark, *word) for word in query.words)
    wanted = [_either(mark, phrase) for phrase in query.wanted]
    unwanted = [f"!{either}" for phrase in query.unwanted if (either := _either(mark, phrase))]
    return " & ".join([*wanted, *unwanted])


def _either(mark: str, phrase: Phrase) -> str:
    ways = _ways(mark, phrase)
    return f"({' | '.join(ways)})" if ways else ""


def _ways(mark: str, phrase: Phrase) -> list[str]:
    field = _FIELDS[0] if phrase.field else ""
    made = []
    for (*first, last), goes_on in phrase.ways:
        words = [
            *(_lexeme(mark, word, False, field) for word in first),
            _lexeme(mark, last, goes_on, field),
        ]
        made.append(f"({' <-> '.join(words)})")
    return made
