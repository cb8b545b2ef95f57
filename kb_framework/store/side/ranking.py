"""BM25 over blocks of postings: the exact best, without looking at every posting of frequent words.

The formula, the constants and the weights are those of FTS5, so that both give the same scores. Rare words come first and
choose candidates. As soon as all the words that are left could not lift an unseen chunk among the best, they only add to
the scores of the candidates, and those that they could not lift either are let go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kb_framework.store.side.arrays import Array
from kb_framework.store.side.blocks import TextBlock

_K1, _B = 1.2, 0.75
# What one word can give at most, per unit of its rarity.
_HIGHEST = _K1 + 1
# FTS5 gives a word that most chunks have this, instead of nothing or less.
_LEAST_IDF = 1e-6
# Sums of 32-bit numbers are off by less than this, so nothing is let go for an error of rounding.
_SLACK = 1e-4


def weigh(weights: Sequence[float]) -> Array:
    """The weighted count of a word, by its code."""
    codes = np.arange(1 << 16)
    title, headings, body = weights
    return (title * (codes >> 12) + headings * (codes >> 8 & 15) + body * (codes & 255)).astype(np.float32)


class Ranking:
    """One query over all blocks of an organization."""

    def __init__(self, blocks: Sequence[TextBlock], keys: Sequence[int], rows: int, tokens: int, weighed: Array) -> None:
        self._blocks = blocks
        self._average = tokens / rows if rows else 1.0
        self._weighed = weighed
        places = [block.find(np.array(keys, np.uint64)) for block in blocks]
        counts = sum((ends - begins for begins, ends in places), np.zeros(len(keys), np.int64))
        idf = [max(math.log((rows - n + 0.5) / (n + 0.5)), _LEAST_IDF) if n < rows else _LEAST_IDF for n in counts.tolist()]
        rarest = sorted((i for i in range(len(keys)) if counts[i]), key=lambda i: -idf[i])
        self._idf = [idf[i] for i in rarest]
        # What the words from each one on could give together.
        self._rest = [_HIGHEST * sum(self._idf[i:]) for i in range(len(rarest) + 1)]
        self._places = [[(int(begins[i]), int(ends[i])) for i in rarest] for begins, ends in places]

    def best(self, limit: int, allowed: Sequence[Array | None] | None = None) -> list[tuple[Array, Array]]:
        """Of each block the rows and scores that may be among the best of all, in no order.

        `allowed` are the rows, ascending, that may be found in each block (None: all).
        """
        nothing = np.empty(0, np.uint32), np.empty(0, np.float32)
        found = [nothing] * len(self._blocks)
        threshold = 0.0
        # The largest block sets a threshold for the others.
        for number in sorted(range(len(self._blocks)), key=lambda i: -len(self._blocks[i].seqs)):
            found[number] = self._best_of(number, limit, threshold, allowed[number] if allowed else None)
            scores = np.concatenate([scores for _, scores in found])
            if len(scores) >= limit:
                threshold = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
        return found

    def _best_of(self, number: int, limit: int, threshold: float, allowed: Array | None) -> tuple[Array, Array]:
        block, places = self._blocks[number], self._places[number]
        scores = np.zeros(len(block.seqs), np.float32)
        seen: list[Array] = []
        candidates: Array | None = allowed
        for i, (begin, end) in enumerate(places):
            if begin == end:
                continue
            if candidates is None and seen and self._rest[i] < (reached := self._reached(scores, seen, limit, threshold)):
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
            scores[ids] += self._parts(block, ids, codes, self._idf[i])
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

    def _parts(self, block: TextBlock, ids: Array, codes: Array, idf: float) -> Array:
        counts = self._weighed[codes]
        scale = np.float32(_K1 * _B / self._average)
        norms = block.lengths[ids] * scale
        norms += np.float32(_K1 * (1 - _B))
        norms += counts
        counts *= np.float32(idf * (_K1 + 1))
        counts /= norms
        return counts


def _only(ids: Array, codes: Array, candidates: Array) -> tuple[Array, Array]:
    """The postings of the candidates."""
    if len(ids) > len(candidates):
        places = np.minimum(np.searchsorted(ids, candidates.astype(ids.dtype)), len(ids) - 1)
        places = places[ids[places] == candidates]
    else:
        where = np.minimum(np.searchsorted(candidates, ids), max(len(candidates) - 1, 0))
        places = np.flatnonzero(candidates[where] == ids) if len(candidates) else np.empty(0, np.int64)
    return ids[places], codes[places]
