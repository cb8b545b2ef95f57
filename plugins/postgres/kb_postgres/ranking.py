"""BM25 with FTS5's formula and constants.

To score a chunk its row must be read, and a frequent word is in most rows. So only chunks that have one of the rarer words are
scored, by all words, wherever these are enough: where the last of them is better than a chunk that has every frequent word, and
no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from kb_postgres.tables import fts

_K1, _B = 1.2, 0.75
# FTS5's least value for a word that most chunks have.
_LEAST = 1e-6
# So many rows are scored without looking for a way to score fewer; a word that more chunks have is a frequent one.
FEW = 4_000
# A number that was counted holds as long as the organization has not grown or shrunk by more than this.
_DRIFT = 0.01
_REMEMBERED = 10_000


class Frequencies:
    """How many chunks have a word. Of frequent words it is remembered: to count them reads a row for each chunk."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, int]] = {}

    def of(
        self, connection: sa.Connection, organization_id: str, words: Sequence[str], chunks: int
    ) -> dict[str, int]:
        """Of each word that any chunk of the organization has, how many have it."""
        known = {
            word: number
            for word in words
            if (number := self._remembered(organization_id, word, chunks))
        }
        counted = _count(connection, organization_id, [word for word in words if word not in known])
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= {
            (organization_id, word): (number, chunks)
            for word, number in counted.items()
            if number > FEW
        }
        return {word: number for word in words if (number := known.get(word) or counted.get(word))}

    def _remembered(self, organization_id: str, word: str, chunks: int) -> int:
        number, then = self._known.get((organization_id, word), (0, 0))
        return min(number, chunks) if abs(chunks - then) <= _DRIFT * then else 0


@dataclass(frozen=True)
class _Scoring:
    """What the score of a chunk is made of."""

    organization_id: str
    # What each word tells, the rarest first.
    idf: Mapping[str, float]
    average_length: float
    weights: Sequence[float]

    def best(
        self, connection: sa.Connection, query: str, allowed: sa.Select, limit: int
    ) -> list[tuple[int, float]]:
        """The best allowed chunks of those that match a query."""
        strongest = max(self.weights)
        title, headings, body = (max(weight / strongest, 1e-6) for weight in self.weights)
        parameters: dict[str, object] = {
            "owner": self.organization_id,
            "query": query,
            "weights": [body, body, headings, title],
            "strongest": strongest,
            "shortest": _K1 * (1 - _B),
            "longer": _K1 * _B / self.average_length,
        }
        # f / (f + k), written so that the frequency f is computed once.
        norm = "(CAST(:shortest AS float8) + CAST(:longer AS float8) * length)"
        parts = []
        for number, (word, idf) in enumerate(self.idf.items()):
            parameters |= {f"q{number}": word, f"i{number}": idf * (_K1 + 1)}
            frequency = f"CAST(:strongest AS float8) * ts_rank_cd(CAST(:weights AS real[]), words, CAST(:q{number} AS tsquery))"
            parts.append(f"CAST(:i{number} AS float8) * (1 - {norm} / ({norm} + {frequency}))")
        statement = (
            sa.select(fts.c.seq, sa.text(f"{' + '.join(parts)} AS score"))
            .where(
                fts.c.organization_id == sa.bindparam("owner"),
                sa.text("words @@ CAST(:query AS tsquery)"),
                fts.c.seq.in_(allowed),
            )
            .order_by(sa.text("score DESC"), fts.c.seq)
            .limit(limit)
        )
        return [(seq, score) for seq, score in connection.execute(statement, parameters)]


def ranked(
    connection: sa.Connection,
    organization_id: str,
    words: Sequence[str],
    query: str | None,
    allowed: sa.Select,
    limit: int,
    weights: Sequence[float],
    frequencies: Frequencies,
) -> list[tuple[int, float]]:
    """The best allowed chunks of those that match the query (None: that have any of the words), best first."""
    chunks, length = _totals(connection, organization_id) if words else (0, 0)
    having = (
        frequencies.of(connection, organization_id, list(dict.fromkeys(words)), chunks)
        if chunks
        else {}
    )
    if not having:
        return []
    found = sorted(having, key=lambda one: having[one])
    idf = {
        one: max(math.log((chunks - having[one] + 0.5) / (having[one] + 0.5)), _LEAST)
        for one in found
    }
    scoring = _Scoring(organization_id, idf, length / chunks, weights)
    if query is None and (rarer := _rarer(found, having)):
        best = scoring.best(connection, " | ".join(rarer), allowed, limit)
        # What a word gives to a chunk of average length that has it once.
        others = sum(idf[one] for one in found[len(rarer) :])
        if len(best) == limit and best[-1][1] >= others:
            return best
    return scoring.best(connection, query or " | ".join(found), allowed, limit)


def _rarer(found: Sequence[str], having: Mapping[str, int]) -> Sequence[str]:
    """The rarest words that together have few rows; none where these are all words."""
    rows = 0
    for number, one in enumerate(found):
        rows += having[one]
        if rows > FEW:
            return found[:number]
    return []


def _totals(connection: sa.Connection, organization_id: str) -> tuple[int, int]:
    query = "SELECT chunks, length FROM chunks_fts_totals WHERE organization_id = %s"
    row = connection.exec_driver_sql(query, (organization_id,)).first()
    return (row[0], row[1]) if row else (0, 0)


def _count(
    connection: sa.Connection, organization_id: str, queries: Sequence[str]
) -> dict[str, int]:
    """How many chunks of the organization have each of them; without those that none has."""
    if not queries:
        return {}
    statement = (
        "SELECT asked.place, found.number FROM unnest(%s::tsquery[]) WITH ORDINALITY AS asked (query, place), LATERAL "
        "(SELECT count(*) AS number FROM chunks_fts WHERE organization_id = %s AND words @@ asked.query) AS found"
    )
    rows = connection.exec_driver_sql(statement, (list(queries), organization_id))
    return {queries[int(place) - 1]: number for place, number in rows if number}
