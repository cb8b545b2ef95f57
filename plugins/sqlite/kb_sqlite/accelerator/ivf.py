"""Vectors in clusters: a query looks at the signs in those that are nearest, and compares in full what is most alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kb_sqlite.accelerator.arrays import Array, ArrayWriter, best_of_each, open_arrays, ranges

# How many vectors are looked at, at least, and as a share of all: found by measurement (docs/search-at-scale.md).
_LEAST_ROWS = 16_384
_SHARE = 0.06
# How many of those, by the signs of their numbers, are compared in full: at least, for each one that is wanted, and as a share.
_LEAST_COMPARED = 2048
_COMPARED = 24
_COMPARED_SHARE = 0.15
# Vectors that are assigned to clusters, or moved, at once.
_AT_ONCE = 8192
_SAMPLE_PER_CLUSTER = 24
_ROUNDS = 6
# So many rows are looked at wherever they are; for more the clusters tell where to look.
_FEW = 50_000


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Rows are numbered from 0, cluster by cluster."""

    # Of each row: the chunk, the vector, and what its numbers are multiplied by.
    seqs: Array
    vectors: Array
    scales: Array
    # The signs of its numbers, seen from the mean of all, 64 to one.
    bits: Array
    mean: Array
    # The rows in the order of their chunks' numbers.
    by_seq: Array
    # Of each cluster: its middle, and where its rows begin; one more for the end.
    centroids: Array
    starts: Array

    def nearest_to_each(
        self, queries: Array, limit: int, allowed: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """As `nearest`, for several queries: of what was found the query, the row and the similarity, in no order."""
        rows = len(self.seqs) if allowed is None else len(allowed)
        if rows <= _LEAST_COMPARED:
            # So few are compared in full, whatever is asked: their numbers are unpacked once.
            here = np.arange(rows) if allowed is None else allowed
            similar = similarity(self.vectors[here], queries) * self.scales[here]
            which, places = best_of_each(similar, limit)
            return which, here[places], similar[which, places]
        found = [self.nearest(query, limit, allowed) for query in queries]
        which = np.repeat(np.arange(len(queries)), [len(rows) for rows, _ in found])
        return (
            which,
            np.concatenate([rows for rows, _ in found]),
            np.concatenate([similar for _, similar in found]),
        )

    def nearest(
        self, query: Array, limit: int, allowed: Array | None = None, effort: float = 1.0
    ) -> tuple[Array, Array]:
        """The nearest rows, best first, and their cosine similarity: very likely those, and all where few are allowed.

        Fewer than asked for are found only where there are no more.
        """
        rows = allowed
        if rows is None or len(rows) > _FEW:
            rows = self._near(query, limit, allowed, effort)
        compared = max(_LEAST_COMPARED, _COMPARED * limit, int(_COMPARED_SHARE * len(rows)))
        if len(rows) > compared:
            rows = rows[np.argpartition(self._distance(query, rows), compared)[:compared]]
        similar = similarity(self.vectors[rows], query) * self.scales[rows]
        if len(rows) > limit:
            top = np.argpartition(-similar, limit - 1)[:limit]
            rows, similar = rows[top], similar[top]
        order = np.argsort(-similar, kind="stable")
        return rows[order], similar[order]

    def _distance(self, query: Array, rows: Array) -> Array:
        """In how many signs the rows differ from the query."""
        asked = signs(query[None] - self.mean)
        distance = np.zeros(len(rows), np.uint16)
        for begin in range(0, len(rows), _AT_ONCE):
            apart = np.bitwise_count(self.bits[rows[begin : begin + _AT_ONCE]] ^ asked)
            for column in range(apart.shape[1]):
                distance[begin : begin + _AT_ONCE] += apart[:, column]
        return distance

    def _near(self, query: Array, limit: int, allowed: Array | None, effort: float) -> Array:
        """The rows of the nearest clusters."""
        sizes = np.diff(self.starts)
        inside = sizes
        if allowed is not None:
            inside = np.bincount(
                np.searchsorted(self.starts, allowed, side="right") - 1, minlength=len(sizes)
            )
        wanted = max(_LEAST_ROWS, _SHARE * inside.sum(), 8 * limit) * effort
        order = np.argsort(-similarity(self.centroids, query), kind="stable")
        clusters = order[: int(np.searchsorted(np.cumsum(inside[order]), wanted)) + 1]
        rows = ranges(self.starts[clusters], sizes[clusters])
        if allowed is not None:
            allowed_here = np.zeros(len(self.seqs), bool)
            allowed_here[allowed] = True
            rows = rows[allowed_here[rows]]
        return rows

    def rows_of(self, seqs: Array) -> Array:
        """The rows of chunks, given by ascending number, that are here."""
        if not len(self.seqs):
            return np.empty(0, np.int64)
        places = np.minimum(
            np.searchsorted(self.seqs, seqs, sorter=self.by_seq), len(self.seqs) - 1
        )
        rows = self.by_seq[places]
        return rows[self.seqs[rows] == seqs]


def similarity(vectors: Array, queries: Array) -> Array:
    """Each vector times the query, or times each of several.

    Not by matrix product: that one waits for threads, which a single query does not need, and rounds otherwise for many
    queries than for one.
    """
    vectors = vectors.astype(np.float32, copy=False)
    return (
        np.vecdot(vectors, queries)
        if queries.ndim == 1
        else np.vecdot(vectors[None], queries[:, None])
    )


def signs(vectors: Array) -> Array:
    """One bit per number: whether it is above zero."""
    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64)


def open_vectors(folder: Path) -> VectorBlock:
    arrays = dict(open_arrays(folder))
    dimensions = len(arrays["mean"])
    for name, width in (
        ("vectors", dimensions),
        ("centroids", dimensions),
        ("bits", -(-dimensions // 64)),
    ):
        arrays[name] = arrays[name].reshape(-1, width)
    return VectorBlock(**arrays)


def quantise(vectors: Array) -> tuple[Array, Array]:
    """Vectors as numbers of sixteen bits, and what to multiply them by: similarities are right to the fifth digit."""
    scales = np.abs(vectors).max(axis=1) / 32767
    scales[scales == 0] = 1
    return np.rint(vectors / scales[:, None]).astype(np.int16), scales.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Quantised:
    """Vectors on their way into a block."""

    seqs: Array
    vectors: Array
    scales: Array


def write_vectors(writer: ArrayWriter, parts: Sequence[Quantised]) -> Iterator[None]:
    """Write one block of all vectors, clustered anew; it stops to breathe."""
    seqs = np.concatenate([part.seqs for part in parts])
    clusters = max(1, int(2 * math.sqrt(len(seqs))))
    centroids, mean = _train(parts, len(seqs), clusters)
    yield
    nearest = []
    for part in parts:
        for begin in range(0, len(part.seqs), _AT_ONCE):
            rows = slice(begin, begin + _AT_ONCE)
            nearest.append(_assign(_floats(part, rows), centroids))
            yield
    cluster_of = np.concatenate(nearest)
    order = np.argsort(cluster_of, kind="stable")
    starts = np.searchsorted(cluster_of[order], np.arange(clusters + 1))
    writer.append("mean.f4", mean)
    writer.append("centroids.f4", centroids)
    writer.append("starts.i8", starts)
    writer.append("seqs.i8", seqs[order])
    writer.append("by_seq.i8", np.argsort(seqs[order], kind="stable"))
    begins = np.cumsum([0, *(len(part.seqs) for part in parts)])
    for begin in range(0, len(order), _AT_ONCE):
        rows = order[begin : begin + _AT_ONCE]
        vectors = np.empty((len(rows), centroids.shape[1]), np.int16)
        scales = np.empty(len(rows), np.float32)
        for number, part in enumerate(parts):
            here = (rows >= begins[number]) & (rows < begins[number + 1])
            vectors[here] = part.vectors[rows[here] - begins[number]]
            scales[here] = part.scales[rows[here] - begins[number]]
        writer.append("vectors.i2", vectors)
        writer.append("scales.f4", scales)
        writer.append("bits.u8", signs(vectors * scales[:, None] - mean))
        yield


def _floats(part: Quantised, rows: Array | slice) -> Array:
    return part.vectors[rows].astype(np.float32) * part.scales[rows][:, None]


def _train(parts: Sequence[Quantised], count: int, clusters: int) -> tuple[Array, Array]:
    """Middles of clusters, by k-means over a sample, and the mean of all; always the same for the same vectors."""
    chance = np.random.default_rng(0)
    wanted = min(1.0, _SAMPLE_PER_CLUSTER * clusters / max(1, count))
    chosen = [np.flatnonzero(chance.random(len(part.seqs)) < wanted) for part in parts]
    sample = np.concatenate([_floats(part, rows) for part, rows in zip(parts, chosen, strict=True)])
    if len(sample) <= clusters:
        sample = np.concatenate([_floats(part, slice(None)) for part in parts])
    centroids = sample[chance.permutation(len(sample))[:clusters]].copy()
    if len(centroids) < clusters:
        centroids = np.concatenate(
            [centroids, np.zeros((clusters - len(centroids), centroids.shape[1]), np.float32)]
        )
    for _ in range(_ROUNDS):
        nearest = np.concatenate(
            [_assign(sample[i : i + _AT_ONCE], centroids) for i in range(0, len(sample), _AT_ONCE)]
        )
        order = np.argsort(nearest, kind="stable")
        present, first = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], first, axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids[present] = sums / np.where(lengths == 0, 1, lengths)
        # A cluster that nobody wants begins again in the middle of a crowd.
        empty = np.setdiff1d(np.arange(clusters), present)
        centroids[empty] = sample[chance.integers(0, len(sample), len(empty))]
    return centroids, sample.mean(axis=0)


def _assign(vectors: Array, centroids: Array) -> Array:
    return np.argmax(vectors @ centroids.T, axis=1)
