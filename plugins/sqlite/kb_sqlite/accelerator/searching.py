"""Searching an organization that has a side index: segments and tail together, within a filter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from kb_framework.api.engine import once
from kb_framework.api.text_query import Word
from kb_sqlite.accelerator.arrays import Array, Damaged, best_first, best_of_each
from kb_sqlite.accelerator.encoding import query_keys
from kb_sqlite.accelerator.filters import MOST_CANDIDATES, Filter, Found
from kb_sqlite.accelerator.ivf import VectorBlock, open_vectors, similarity
from kb_sqlite.accelerator.postings import TextBlock, open_text
from kb_sqlite.accelerator.ranking import Ranking, weigh
from kb_sqlite.accelerator.tables import TEXT
from kb_sqlite.accelerator.write_buffer import Part, TextTails, VectorTails

log = logging.getLogger("kb.store")

_LIVE = sa.text(
    "SELECT i.id, s.id, s.folder, s.rows, s.tokens FROM side_indexes i LEFT JOIN side_segments s ON s.side_id = i.id AND s.live "
    "WHERE i.organization_id = :organization AND i.source = :source AND i.live ORDER BY s.id"
)

# For queries by their numbers: so many candidates for each, of the chunks that are allowed.
Candidates = Callable[[Array, int, Array | None], Found]
# Chunks and scores, best first.
Columns = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Segment:
    number: int
    rows: int
    tokens: int
    block: Any


class Segments:
    """The segments that are in use, opened once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, dict[int, Any]] = {}
        self._lock = threading.Lock()

    def live(
        self, connection: sa.Connection, organization_id: str, source: str
    ) -> tuple[int, list[Segment]] | None:
        """The side index of a source, by number, with its segments; None where there is none that can be used."""
        read = lambda: self._live(connection, organization_id, source)  # noqa: E731
        return once(connection, ("segments", source, organization_id), read)

    def _live(
        self, connection: sa.Connection, organization_id: str, source: str
    ) -> tuple[int, list[Segment]] | None:
        rows = connection.execute(_LIVE, {"organization": organization_id, "source": source}).all()
        if not rows:
            return None
        side_id = rows[0][0]
        with self._lock:
            known = self._open.get(side_id, {})
        try:
            blocks = {
                row[1]: known.get(row[1]) or self._opened(source, row[2])
                for row in rows
                if row[1] is not None
            }
        except Damaged as error:
            log.warning(
                "the side index of %s cannot be used: %s; kb doctor --repair", source, error
            )
            return None
        with self._lock:
            self._open[side_id] = blocks
        return side_id, [
            Segment(row[1], row[3], row[4], blocks[row[1]]) for row in rows if row[1] is not None
        ]

    def _opened(self, source: str, name: str) -> TextBlock | VectorBlock:
        return (
            open_text(self._folder / name) if source == TEXT else open_vectors(self._folder / name)
        )


class AcceleratedSearch:
    def __init__(self, folder: Path) -> None:
        self._segments = Segments(folder)
        self._text_tails = TextTails()
        self._vector_tails = VectorTails()
        self._weighed: dict[tuple[float, ...], Array] = {}

    def texts(
        self,
        connection: sa.Connection,
        organization_id: str,
        queries: Sequence[Sequence[Word]],
        allowed: sa.Select | None,
        limit: int,
        weights: Sequence[float],
    ) -> list[Columns | None]:
        """Return for each query the best allowed chunks for any of its words; None if this index cannot answer."""
        keys = list(map(query_keys, queries))
        if (live := self._segments.live(connection, organization_id, TEXT)) is None:
            return [None] * len(queries)
        side_id, segments = live
        tail = self._text_tails.parts(connection, side_id)
        blocks: list[TextBlock] = [segment.block for segment in segments] + [
            part.block for part in tail
        ]
        rows = sum(segment.rows for segment in segments) + sum(len(part.rows) for part in tail)
        tokens = sum(segment.tokens for segment in segments) + sum(
            part.block.tokens for part in tail
        )
        ranking = Ranking(
            blocks, [words or () for words in keys], rows, tokens, self._weights(weights)
        )
        filter_ = Filter(connection, side_id, allowed, rows)

        def candidates(numbers: Array, count: int, seqs: Array | None) -> Found:
            within = None
            if seqs is not None:
                within = [
                    filter_.rows_of(segment.number, segment.block.rows_of) for segment in segments
                ]
                within += [part.block.rows_of(seqs) for part in tail]
            found = []
            for number, here in enumerate(ranking.best(numbers, count, within)):
                if number < len(segments):
                    found.append(_of_segment(segments[number], *here))
                else:
                    found.append(_of_tail(tail[number - len(segments)], *here))
            return _best(found, count)

        found = _take(filter_, len(queries), limit, candidates)
        return [
            None if words is None else columns for words, columns in zip(keys, found, strict=True)
        ]

    def vectors(
        self,
        connection: sa.Connection,
        organization_id: str,
        index: str,
        vectors: Sequence[bytes],
        allowed: sa.Select | None,
        limit: int,
    ) -> list[Columns] | None:
        """For each vector the nearest allowed chunks; None if this index cannot answer."""
        live = self._segments.live(connection, organization_id, index)
        if live is None:
            return None
        side_id, segments = live
        tail = self._vector_tails.parts(connection, side_id)
        asked = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)

        rows = sum(segment.rows for segment in segments) + sum(len(part.rows) for part in tail)
        filter_ = Filter(connection, side_id, allowed, rows)

        def candidates(queries: Array, count: int, seqs: Array | None) -> Found:
            found = []
            for segment in segments:
                block: VectorBlock = segment.block
                within = None if seqs is None else filter_.rows_of(segment.number, block.rows_of)
                which, here, similar = block.nearest_to_each(asked[queries], count, within)
                found.append(_of_segment(segment, queries[which], here, similar))
            for part in tail:
                here = (
                    np.arange(len(part.block.seqs))
                    if seqs is None
                    else np.flatnonzero(np.isin(part.block.seqs, seqs))
                )
                similar = similarity(part.block.vectors[here], asked[queries])
                which, places = best_of_each(similar, count)
                found.append(_of_tail(part, queries[which], here[places], similar[which, places]))
            return _best(found, count)

        return _take(filter_, len(vectors), limit, candidates)

    def _weights(self, weights: Sequence[float]) -> Array:
        found = self._weighed.get(tuple(weights))
        if found is None:
            found = self._weighed[tuple(weights)] = weigh(weights)
        return found


def _of_segment(segment: Segment, queries: Array, rows: Array, scores: Array) -> Found:
    return Found(
        queries,
        segment.block.seqs[rows],
        scores,
        np.full(len(rows), segment.number),
        np.zeros(len(rows), np.int64),
    )


def _of_tail(part: Part[Any], queries: Array, rows: Array, scores: Array) -> Found:
    return Found(
        queries, part.block.seqs[rows], scores, np.zeros(len(rows), np.int64), part.numbers[rows]
    )


def _best(parts: list[Found], count: int) -> Found:
    """The best of all for each query; of those that are as good, the oldest chunks."""
    if not parts:
        nothing = np.empty(0, np.int64)
        return Found(nothing, nothing, np.empty(0, np.float32), nothing, nothing)
    found = Found.joined(parts)
    found = found.take(best_first(found.queries, found.scores, found.seqs))
    places = np.arange(len(found.queries)) - np.searchsorted(found.queries, found.queries)
    return found.take(places < count)


def _take(filter_: Filter, queries: int, limit: int, candidates: Candidates) -> list[Columns]:
    """The best that pass: more and more candidates are checked or, where few would pass, only what is allowed is ranked."""
    made: list[Columns] = [(np.empty(0, np.int64), np.empty(0, np.float32))] * queries
    pending = np.arange(queries)
    most = max(MOST_CANDIDATES, 4 * limit)
    wanted = _enough(limit, filter_.share)
    allowed, all_known = None, False
    while len(pending):
        if not all_known and (wanted > most or filter_.everything(ask=False) is not None):
            allowed, all_known = filter_.everything(ask=True), True
            wanted = _enough(limit, 1.0)
        found = candidates(pending, wanted, allowed)
        passing = filter_.passing(found)
        begins, ends = (
            np.searchsorted(passing.queries, pending, side) for side in ("left", "right")
        )
        enough = (ends - begins >= limit) | (
            np.bincount(found.queries, minlength=queries)[pending] < wanted
        )
        for query, begin, end in zip(
            *(column[enough].tolist() for column in (pending, begins, ends)), strict=True
        ):
            best = slice(begin, min(end, begin + limit))
            made[query] = passing.seqs[best], passing.scores[best]
        pending = pending[~enough]
        wanted = 4 * wanted if all_known else max(2 * wanted, _enough(limit, filter_.share))
    return made


def _enough(limit: int, share: float) -> int:
    return int(1.2 * limit / share) + 16
