"""BM25 with FTS5's formula and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sqlalchemy as sa

from kb_framework.store.postgres.tables import fts

_K1, _B = 1.2, 0.75
# FTS5's least value for a word that most chunks have.
_LEAST = 1e-6


def ranked(
    connection: sa.Connection,
    organization_id: str,
    words: Sequence[str],
    query: str | None,
    allowed: sa.Select,
    limit: int,
    weights: Sequence[float],
) -> list[tuple[int, float]]:
    """The best allowed chunks of those that match the query (None: that have any of the words), best first."""
    queries = list(dict.fromkeys(words))
    if not queries:
        return []
    chunks, length = _totals(connection, organization_id)
    having = _frequencies(connection, organization_id, queries) if chunks else {}
    if not having:
        return []
    found = sorted(having, key=lambda one: having[one])
    strongest = max(weights)
    title, headings, body = (max(weight / strongest, 1e-6) for weight in weights)
    parameters: dict[str, object] = {
        "owner": organization_id,
        "query": query or " | ".join(found),
        "weights": [body, body, headings, title],
        "strongest": strongest,
        "average": length / chunks,
    }
    # f / (f + k), written so that the frequency f is computed once.
    parts = []
    for number, one in enumerate(found):
        parameters[f"q{number}"] = one
        parameters[f"i{number}"] = max(math.log((chunks - having[one] + 0.5) / (having[one] + 0.5)), _LEAST) * (_K1 + 1)
        frequency = f"ts_rank_cd(CAST(:weights AS real[]), words, CAST(:q{number} AS tsquery)) * :strongest"
        parts.append(f"CAST(:i{number} AS float8) * (1 - norm / (norm + {frequency}))")
    norm = f"({_K1} * ({1 - _B} + {_B} * length / CAST(:average AS float8)))"
    score = " + ".join(parts).replace("norm", norm)
    statement = (
        sa.select(fts.c.seq, sa.text(f"{score} AS score"))
        .where(
            fts.c.organization_id == sa.bindparam("owner"),
            sa.text("words @@ CAST(:query AS tsquery)"),
            fts.c.seq.in_(allowed),
        )
        .order_by(sa.text("score DESC"), fts.c.seq)
        .limit(limit)
    )
    return [(seq, found_score) for seq, found_score in connection.execute(statement, parameters)]


def _totals(connection: sa.Connection, organization_id: str) -> tuple[int, int]:
    query = "SELECT chunks, length FROM chunks_fts_totals WHERE organization_id = %s"
    row = connection.exec_driver_sql(query, (organization_id,)).first()
    return (row[0], row[1]) if row else (0, 0)


def _frequencies(connection: sa.Connection, organization_id: str, queries: Sequence[str]) -> dict[str, int]:
    """How many chunks of the organization have each of them; without those that none has."""
    statement = (
        "SELECT asked.place, found.number FROM unnest(%s::tsquery[]) WITH ORDINALITY AS asked (query, place), LATERAL "
        "(SELECT count(*) AS number FROM chunks_fts WHERE organization_id = %s AND words @@ asked.query) AS found"
    )
    rows = connection.exec_driver_sql(statement, (list(queries), organization_id))
    return {queries[int(place) - 1]: number for place, number in rows if number}
