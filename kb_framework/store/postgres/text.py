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
from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sa

from kb_framework.store.backend import Columns
from kb_framework.store.expression import Expression, Term
from kb_framework.store.postgres.partitions import create_table
from kb_framework.store.postgres.ranking import Frequencies, ranked
from kb_framework.store.postgres.tables import fts, has, totals
from kb_framework.store.text import phrase_terms, query_terms

# Of the words of a chunk, PostgreSQL keeps the first places, and takes no longer words and no larger vectors than these.
_PLACES = 16_383
_WORD_CHARS = 400
_VECTOR_BYTES = 900_000
_FIELDS = "ABD"

_chunks = sa.table("chunks", sa.column("seq", sa.BigInteger), sa.column("organization_id", sa.String))


class PostgresText:
    """The part of the backend that is about full text."""

    on_written: Callable[[int], None]
    frequencies: Frequencies

    def create_full_text(self, connection: sa.Connection) -> None:
        create_words(connection)
        index_words(connection)
        connection.exec_driver_sql(
            "CREATE TABLE IF NOT EXISTS chunks_fts_totals (organization_id VARCHAR(36) PRIMARY KEY, "
            "chunks BIGINT NOT NULL, length BIGINT NOT NULL) WITH (fillfactor = 50)"
        )

    def drop_full_text(self, connection: sa.Connection, organization_id: str | None = None) -> None:
        if organization_id is None:
            connection.exec_driver_sql("DROP TABLE IF EXISTS chunks_fts, chunks_fts_totals")
            return
        # Whatever is damaged is damaged for all.
        self.create_full_text(connection)
        for table in (fts, totals):
            connection.execute(sa.delete(table).where(table.c.organization_id == organization_id))

    def prepare_text(self, connection: sa.Connection, organization_id: str) -> None:
        """Nothing: tables are the same for all organizations."""

    def add_text(self, connection: sa.Connection, organization_id: str, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        mark = mark_of(organization_id)
        values = [(seq, organization_id, *_vector(mark, words)) for seq, words in rows]
        if not values:
            return
        insert = "INSERT INTO chunks_fts (seq, organization_id, length, words) VALUES (%s, %s, %s, %s::tsvector)"
        connection.exec_driver_sql(insert, values)
        connection.exec_driver_sql(
            "INSERT INTO chunks_fts_totals VALUES (%s, %s, %s) ON CONFLICT (organization_id) DO UPDATE SET "
            "chunks = chunks_fts_totals.chunks + excluded.chunks, length = chunks_fts_totals.length + excluded.length",
            (organization_id, len(values), sum(value[2] for value in values)),
        )
        self.on_written(len(values))

    def remove_text(self, connection: sa.Connection, organization_id: str, chunks: sa.Select) -> None:
        self._remove(connection, organization_id, fts.c.seq.in_(chunks))

    def _remove(self, connection: sa.Connection, organization_id: str, condition: sa.ColumnElement[bool]) -> int:
        mine = fts.c.organization_id == organization_id
        gone = sa.delete(fts).where(mine, condition).returning(fts.c.length).cte("gone")
        count = sa.select(sa.func.count()).select_from(gone).scalar_subquery()
        length = sa.select(sa.func.coalesce(sa.func.sum(gone.c.length), 0)).scalar_subquery()
        update = sa.update(totals).where(totals.c.organization_id == organization_id).returning(count)
        update = update.values(chunks=totals.c.chunks - count, length=totals.c.length - length)
        return connection.execute(update).scalar() or 0

    def search_text(
        self,
        connection: sa.Connection,
        organization_id: str,
        text: str,
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        if allowed is None:
            allowed = sa.select(_chunks.c.seq).where(_chunks.c.organization_id == organization_id)
        mark = mark_of(organization_id)
        words = [_lexeme(mark, term, prefix) for term, prefix in query_terms(text)]
        return ranked(connection, organization_id, words, None, allowed, limit, weights, self.frequencies)

    def search_texts(
        self,
        connection: sa.Connection,
        organization_id: str,
        texts: Sequence[str],
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[Columns]:
        found = (self.search_text(connection, organization_id, text, allowed, limit, weights) for text in texts)
        return [([seq for seq, _ in pairs], [score for _, score in pairs]) for pairs in found]

    def search_expression(
        self,
        connection: sa.Connection,
        organization_id: str,
        expression: Expression,
        allowed: sa.Select,
        limit: int,
        weights: Sequence[float],
    ) -> list[tuple[int, float]]:
        mark = mark_of(organization_id)
        query = _query(mark, expression)
        words = [way for term in expression.wanted for way in _ways(mark, term)]
        if not query:
            return []
        return ranked(connection, organization_id, words, query, allowed, limit, weights, self.frequencies)

    def matches(
        self, connection: sa.Connection, organization_id: str, wanted: str | Expression, chunk: sa.ColumnElement[int]
    ) -> sa.ColumnElement[bool]:
        mark = mark_of(organization_id)
        if isinstance(wanted, str):
            query = " | ".join(_lexeme(mark, term, prefix) for term, prefix in query_terms(wanted))
        else:
            query = _query(mark, wanted)
        if not query:
            return sa.false()
        found = sa.select(fts.c.seq).where(fts.c.organization_id == organization_id, has(query))
        return chunk.in_(found)

    def count_text(self, connection: sa.Connection, organization_id: str) -> int:
        mine = fts.c.organization_id == organization_id
        return connection.execute(sa.select(sa.func.count()).select_from(fts).where(mine)).scalar_one()

    def has_text(self, connection: sa.Connection, organization_id: str, chunk: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        return sa.exists().where(fts.c.seq == chunk, fts.c.organization_id == organization_id)

    def remove_stray_text(self, connection: sa.Connection, organization_id: str) -> int:
        known = sa.exists().where(_chunks.c.seq == fts.c.seq, _chunks.c.organization_id == organization_id)
        return self._remove(connection, organization_id, ~known)

    def check_text(self, connection: sa.Connection, organization_id: str) -> str | None:
        """The totals must be those of the rows, and the index must find what a look at the rows finds."""
        for table in (fts, totals):
            if connection.exec_driver_sql("SELECT to_regclass(%s)", (table.name,)).scalar() is None:
                return f"the table {table.name} is missing"
        mine = fts.c.organization_id == organization_id
        count = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(fts.c.length), 0)).select_from(fts).where(mine)
        kept = sa.select(totals.c.chunks, totals.c.length).where(totals.c.organization_id == organization_id)
        found, noted = tuple(connection.execute(count).one()), connection.execute(kept).first()
        if found != (tuple(noted) if noted else (0, 0)):
            return "its totals are not those of its rows"
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('chunks_fts_by_words')"
        return None if connection.exec_driver_sql(valid).scalar() else "its index is missing"


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
    connection.exec_driver_sql("CREATE INDEX IF NOT EXISTS chunks_fts_by_words ON chunks_fts USING gin (words)")


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
    return count, " ".join(f"{_quoted(mark + word)}:{','.join(found)}" for word, found in places.items())


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _lexeme(mark: str, word: str, prefix: bool = False, field: str = "") -> str:
    flags = ("*" if prefix or len(word) > _WORD_CHARS else "") + field
    return _quoted(mark + word[:_WORD_CHARS]) + (f":{flags}" if flags else "")


def _query(mark: str, expression: Expression) -> str:
    """An expression as a tsquery; empty where it wants nothing that is ever indexed."""
    wanted = [_either(mark, term) for term in expression.wanted]
    if not wanted or not all(wanted):
        return ""
    unwanted = [f"!{either}" for term in expression.unwanted if (either := _either(mark, term))]
    return " & ".join([*wanted, *unwanted])


def _either(mark: str, term: Term) -> str:
    ways = _ways(mark, term)
    return f"({' | '.join(ways)})" if ways else ""


def _ways(mark: str, term: Term) -> list[str]:
    field = _FIELDS[0] if term.field else ""
    return [
        "(" + " <-> ".join([*(_lexeme(mark, word, False, field) for word in first), _lexeme(mark, last, goes_on, field)]) + ")"
        for (*first, last), goes_on in phrase_terms(term.text, term.prefix)
    ]
