"""SQLite's full text: every organization has an FTS5 table of its own, made with its first chunk.

So a neighbour's postings are never read, and its words do not count in the statistics. A table is named by the organization's
number in `full_texts`.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from kb_framework.store.expression import Expression, Term
from kb_framework.store.snapshot import once
from kb_framework.store.tables import Uuid

# What all organizations shared before.
SHARED = "chunks_fts"

full_texts = sa.Table(
    "full_texts",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False, unique=True),
)
_NUMBER = sa.select(full_texts.c.id).where(full_texts.c.organization_id == sa.bindparam("owner"))


def owners(connection: sa.Connection) -> list[str]:
    there = sa.inspect(connection).has_table(full_texts.name)
    return list(connection.scalars(sa.select(full_texts.c.organization_id))) if there else []


def table_of(connection: sa.Connection, organization_id: str) -> str | None:
    """The name of an organization's table; None where nothing of it was ever indexed."""
    read = lambda: connection.execute(_NUMBER, {"owner": organization_id}).scalar()  # noqa: E731
    number = once(connection, ("full text", organization_id), read)
    return None if number is None else f"chunks_fts_{number}"


def new_name(connection: sa.Connection, organization_id: str) -> str:
    added = sa.insert(full_texts).values(organization_id=organization_id).returning(full_texts.c.id)
    return f"chunks_fts_{connection.execute(added).scalar_one()}"


def create(connection: sa.Connection, name: str) -> None:
    # The words come ready from `index_fields`: the tokenizer only cuts at spaces, and leaves vowel signs and marks in them.
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE {name} USING fts5(title, headings, body, content='', contentless_delete=1, "
        "tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M* Co'\")"
    )


def ranked(
    connection: sa.Connection, organization_id: str, match: str, allowed: sa.Select, limit: int, weights: Sequence[float]
) -> list[tuple[int, float]]:
    """The best allowed chunks, by BM25 over title, headings and body; higher is better."""
    name = table_of(connection, organization_id)
    if not match or name is None:
        return []
    number, rank = sa.literal_column(f"{name}.rowid", sa.Integer), sa.func.bm25(sa.literal_column(name), *weights)
    # With its sign the rowid is no key to FTS5, which would else match the whole question once for every allowed chunk.
    unpushed = sa.literal_column(f"+{name}.rowid", sa.Integer)
    query = sa.select(number, rank).select_from(sa.table(name))
    query = query.where(sa.literal_column(name).op("MATCH")(match), unpushed.in_(allowed))
    return [(seq, -score) for seq, score in connection.execute(query.order_by(rank, number).limit(limit))]


def match_any(text: str) -> str:
    """Any of the words of a text, in FTS5's own language; empty where it has none."""
    from kb_framework.store.text import query_terms

    return " OR ".join(f'"{term}"{"*" if prefix else ""}' for term, prefix in query_terms(text))


def match(expression: Expression) -> str:
    """An expression in FTS5's own language; empty where it wants nothing that is ever indexed."""
    wanted = [_match_term(term) for term in expression.wanted]
    if not wanted or not all(wanted):
        return ""
    unwanted = " OR ".join(filter(None, map(_match_term, expression.unwanted)))
    return f"({' AND '.join(wanted)}) NOT ({unwanted})" if unwanted else " AND ".join(wanted)


def _match_term(term: Term) -> str:
    from kb_framework.store.text import phrase_terms

    ways = [f'"{" ".join(words)}"{"*" if goes_on else ""}' for words, goes_on in phrase_terms(term.text, term.prefix)]
    if not ways:
        return ""
    either = ways[0] if len(ways) == 1 else f"({' OR '.join(ways)})"
    return f"{term.field} : {either}" if term.field else either
