"""BM25 over blocks of postings: the exact best, without looking at every posting of frequent words.

The formula, the constants and the weights are those of FTS5, so that both give the same scores. Rare words come first and
choose candidates. As soon as all the words that are left could not lift an unseen chunk among the best, they only add to
the scores of the candidates, and those that they could not lift either are let go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kb_sqlite.accelerator.arrays import Array, best_of_each, ranges
from kb_sqlite.accelerator.postings import TextBlock

_K1, _B = 1.2, 0.75
# What one word can give at most, per unit of its rarity.
_HIGHEST = _K1 + 1
# FTS5 gives a word that most chunks have this, instead of nothing or less.
_LEAST_IDF = 1e-6
# Sums of 32-bit numbers are off by less than this, so nothing is let go for an error of rounding.
_SLACK = 1e-4
# In blocks of so few rows every posting is counted: to choose among them would take longer.
_SMALL = 8192
# How many scores are computed at once, for as many queries as there is room.
_AT_ONCE = 2_000_000


def weigh(weights: Sequence[float]) -> Array:
    """The weighted count of a word, by its code."""
    codes = np.arange(1 << 16)
    title, headings, body = weights
    return (title * (codes >> 12) + headings * (codes >> 8 & 15) + body * (codes & 255)).astype(
        np.float32
    )


class Ranking:
    """Several queries over all blocks of an organization."""

    def __init__(
        self,
        blocks: Sequence[TextBlock],
        queries: Sequence[Sequence[int]],
        rows: int,
        tokens: int,
        weighed: Array,
    ) -> None:
        self._blocks = blocks
        self._average = tokens / rows if rows else 1.0
        self._weighed = weighed
        keys = np.array([key for query in queries for key in query], np.uint64)
        owners = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
        places = [block.find(keys) for block in blocks]
        counts = sum((ends - begins for begins, ends in places), np.zeros(len(keys), np.int64))
        there = np.flatnonzero(counts)
        idf = np.array([_idf(rows, count) for count in counts[there].tolist()])
        # By query, the rarest first.
        order = np.lexsort((-idf, owners[there]))
        self._idf, there = idf[order], there[order]
        self._places = [(begins[there], ends[there]) for begins, ends in places]
        # Where the words of each query begin; one more for the end.
        self._words = np.searchsorted(owners[there], np.arange(len(queries) + 1))

    def best(
        self, queries: Array, limit: int, allowed: Sequence[Array] | None = None
    ) -> list[tuple[Array, Array, Array]]:
        """Of each block the query, row and score of what may be among the best of a query, in no order.

        `allowed` are the rows, ascending, that may be found in each block (None: all).
        """
        found = [
            [(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.float32))]
            for _ in self._blocks
        ]
        large = [number for number, block in enumerate(self._blocks) if len(block.seqs) > _SMALL]
        for number, block in enumerate(self._blocks):
            if len(block.seqs) <= _SMALL:
                within = allowed[number] if allowed else None
                for some in self._together(number, queries):
                    found[number].append(self._best_of_each(number, some, limit, within))
        for query in queries.tolist() if large else ():
            one = _One(self, query)
            for number, (rows, scores) in one.best(large, limit, allowed).items():
                found[number].append((np.full(len(rows), query), rows, scores))
        return [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in found]  # type: ignore[misc]

    def _together(self, number: int, queries: Array) -> list[Array]:
        """Queries that are answered at once: not more than have so many scores and postings, but always one."""
        if not len(queries):
            return []
        begins, ends = self._places[number]
        before = np.concatenate(([0], np.cumsum(ends - begins)))
        sizes = np.maximum(
            before[self._words[queries + 1]] - before[self._words[queries]],
            len(self._blocks[number].seqs),
        )
        return np.split(queries, np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1)

    def _best_of_each(
        self, number: int, queries: Array, limit: int, allowed: Array | None
    ) -> tuple[Array, Array, Array]:
        """Of a small block: every posting of every word is counted, for all queries at once."""
        block, (begins, ends) = self._blocks[number], self._places[number]
        rows = len(block.seqs)
        words = ranges(
            self._words[queries], sizes := self._words[queries + 1] - self._words[queries]
        )
        postings = ends[words] - begins[words]
        places = ranges(begins[words], postings)
        ids = block.ids[places]
        parts = self.parts(
            block,
            ids,
            block.codes[places],
            np.repeat(self._idf[words].astype(np.float32), postings),
        )
        # One row of scores for each query.
        at = np.repeat(np.repeat(np.arange(len(queries)), sizes) * rows, postings) + ids
        scores = (
            np.bincount(at, parts, len(queries) * rows)
            .astype(np.float32)
            .reshape(len(queries), rows)
        )
        if allowed is not None:
            kept = scores[:, allowed]
            scores = np.zeros_like(scores)
            scores[:, allowed] = kept
        which, here = best_of_each(scores, limit)
        values = scores[which, here]
        there = values > 0
        return queries[which[there]], here[there].astype(np.uint32), values[there]

    def parts(self, block: TextBlock, ids: Array, codes: Array, idf: Array | np.float32) -> Array:
        """What each posting gives."""
        counts = self._weighed[codes]
        scale = np.float32(_K1 * _B / self._average)
        norms = block.lengths[ids] * scale
        norms += np.float32(_K1 * (1 - _B))
        norms += counts
        counts *= idf * np.float32(_K1 + 1)
        counts /= norms
        return counts

    def words_of(self, query: int) -> slice:
        return slice(int(self._words[query]), int(self._words[query + 1]))


class _One:
    """One of the queries, over large blocks."""

    def __init__(self, ranking: Ranking, query: int) -> None:
        self._ranking = ranking
        self._blocks = ranking._blocks
        words = ranking.words_of(query)
        self._idf = ranking._idf[words].tolist()
        # What the words from each one on could give together.
        self._rest = [_HIGHEST * sum(self._idf[i:]) for i in range(len(self._idf) + 1)]
        self._places = [
            list(zip(begins[words].tolist(), ends[words].tolist(), strict=True))
            for begins, ends in ranking._places
        ]

    def best(
        self, numbers: Sequence[int], limit: int, allowed: Sequence[Array] | None
    ) -> dict[int, tuple[Array, Array]]:
        """The rows and scores, of some of the blocks, that may be among the best."""
        found: dict[int, tuple[Array, Array]] = {}
        threshold = 0.0
        # The largest block sets a threshold for the others.
        for number in sorted(numbers, key=lambda i: -len(self._blocks[i].seqs)):
            found[number] = self._best_of(
                number, limit, threshold, allowed[number] if allowed else None
            )
            scores = np.concatenate([scores for _, scores in found.values()])
            if len(scores) >= limit:
                threshold = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
        return found

    def _best_of(
        self, number: int, limit: int, threshold: float, allowed: Array | None
    ) -> tuple[Array, Array]:
        block, places = self._blocks[number], self._places[number]
        scores = np.zeros(len(block.seqs), np.float32)
        seen: list[Array] = []
        candidates: Array | None = allowed
        for i, (begin, end) in enumerate(places):
            if begin == end:
                continue
            if (
                candidates is None
                and seen
                and self._rest[i] < (reached := self._reached(scores, seen, limit, threshold))
            ):
                candidates = np.sort(np.concatenate(seen))
                candidates = candidates[scores[candidates] >= reached - self._rest[i] - _SLACK]
            if candidates is None and self._rest[i] < threshold:
                # Not even a chunk with all the words that are left could be among the best.
                break
            ids, codes = block.ids[begin:end], block.codes[begin:end]
            if candidates is not None:
                ids, codes = _only(ids, codes, candidates)
            else:
                fresh = ids[scores[ids] == 0]
                seen.append(fresh)
            scores[ids] += self._ranking.parts(block, ids, codes, np.float32(self._idf[i]))
        if candidates is None:
            candidates = np.concatenate(seen) if seen else np.empty(0, np.uint32)
        values = scores[candidates]
        keep = (values > 0) & (values >= threshold - _SLACK)
        candidates, values = candidates[keep], values[keep]
        if len(values) > limit:
            # Those that are as good as the last of the best stay too: the order among equals is not decided here.
            last = np.partition(values, len(values) - limit)[len(values) - limit]
            candidates, values = candidates[values >= last], values[values >= last]
        return candidates, values

    def _reached(self, scores: Array, seen: list[Array], limit: int, threshold: float) -> float:
        """The score that `limit` chunks have already."""
        rows = sum(map(len, seen))
        if rows < limit:
            return threshold
        values = scores[np.concatenate(seen)]
        return max(threshold, float(np.partition(values, rows - limit)[rows - limit]))


def _idf(rows: int, count: int) -> float:
    return (
        max(math.log((rows - count + 0.5) / (count + 0.5)), _LEAST_IDF)
        if count < rows
        else _LEAST_IDF
    )


def _only(ids: Array, codes: Array, candidates: Array) -> tuple[Array, Array]:
    """The postings of the candidates."""
    if len(ids) > len(candidates):
        places = np.minimum(np.searchsorted(ids, candidates.astype(ids.dtype)), len(ids) - 1)
        places = places[ids[places] == candidates]
    else:
        where = np.minimum(np.searchsorted(candidates, ids), max(len(candidates) - 1, 0))
        places = (
            np.flatnonzero(candidates[where] == ids) if len(candidates) else np.empty(0, np.int64)
        )
    return ids[places], codes[places]
