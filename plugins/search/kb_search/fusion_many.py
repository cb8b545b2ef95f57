"""Fusion as `fusion` says, for many searches at once: the same rankings, computed by numpy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kb_framework.columns import Candidates, Hits
from kb_search.fusion import OTHER, VECTOR, Contexts

Array = np.ndarray

_UNRANKED = 1 << 60
# Numbers below this are sorted by their digits.
_SMALL = 1 << 15


class Lists(NamedTuple):
    """What is to be fused for one search: `limit` is how long a list could be; `weights` lower those that know less."""

    found: Mapping[str, Candidates]
    limit: int
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Column:
    """The lists of one name, one after the other: of each place the search, the chunk, its rank, score and gain."""

    searches: Array
    chunks: Array
    ranks: Array
    scores: Array
    gains: Array


def fuse_many(searches: Sequence[Lists], contexts: Contexts | None = None) -> list[Hits]:
    """Every chunk of every list, best first, for each search. They are computed together, and do not change each other.

    `contexts` tells what chunks stand under; it is asked only where vectors count.
    """
    names = dict.fromkeys(name for search in searches for name in search.found)
    columns = {name: column for name in names if (column := _column(name, searches))}
    if not columns:
        return [Hits(np.empty(0, np.int64), np.empty(0), {}) for _ in searches]
    span = 1 + max(int(column.chunks.max()) for column in columns.values())
    keys = np.concatenate([column.searches * span + column.chunks for column in columns.values()])
    # Every chunk of every search once, by search and chunk; and where the places of the lists went.
    found, places = np.unique(keys, return_inverse=True)
    owners, chunks = np.divmod(found, span)
    ends = np.cumsum([len(column.chunks) for column in columns.values()])[:-1]
    fused, first = np.zeros(len(found)), np.full(len(found), _UNRANKED)
    lists: dict[str, tuple[Array, Array]] = {}
    for (name, column), here in zip(columns.items(), np.split(places, ends), strict=True):
        ranks, scores, gains = np.zeros(len(found), np.int64), np.zeros(len(found)), np.zeros(len(found))
        ranks[here], scores[here], gains[here] = column.ranks, column.scores, column.gains
        weights = np.array([search.weights.get(name, 1.0) for search in searches])
        if name == "vector" and contexts is not None:
            # Only of searches that have vectors, and in which they count.
            asked = np.zeros(len(searches), bool)
            asked[column.searches] = True
            _share(gains, ranks > 0, owners, chunks, (asked & (weights > 0))[owners], contexts)
        fused += ((VECTOR if name == "vector" else OTHER) * weights)[owners] * gains
        first[here] = np.minimum(first[here], column.ranks)
        lists[name] = ranks, scores
    # What is as good in all of this stays in the order of the chunks.
    order = _sorted_by(first, -fused, owners)
    chunks, fused = chunks[order], fused[order]
    lists = {name: (ranks[order], scores[order]) for name, (ranks, scores) in lists.items()}
    bounds = np.searchsorted(owners, np.arange(len(searches) + 1)).tolist()
    made = []
    for number, search in enumerate(searches):
        mine = slice(bounds[number], bounds[number + 1])
        own = {name: (ranks[mine], scores[mine]) for name, (ranks, scores) in lists.items() if name in search.found}
        made.append(Hits(chunks[mine], fused[mine], own))
    return made


def _sorted_by(*columns: Array) -> Array:
    """The order by the last column, then the one before it, and so on: as of `np.lexsort`, which is slower over small numbers."""
    order = np.arange(len(columns[0]))
    for column in columns:
        small = column.dtype.kind == "i" and len(column) and column.max() < _SMALL
        order = order[np.argsort((column.astype(np.int16) if small else column)[order], kind="stable")]
    return order


def _column(name: str, searches: Sequence[Lists]) -> _Column | None:
    """The lists of a name, with what each place in them is worth, from 0 to 1."""
    given = [(number, search.found[name], search.limit) for number, search in enumerate(searches) if search.found.get(name)]
    if not given:
        return None
    sizes = np.array([len(found) for _, found, _ in given])
    starts = np.cumsum(sizes) - sizes
    scores = np.concatenate([np.asarray(found.scores, np.float64) for _, found, _ in given])
    last, best = np.minimum.reduceat(scores, starts), np.maximum.reduceat(scores, starts)
    if name == "vector":
        floor = last
        scale = np.where(last == 1.0, 1.0, 1.0 - last)
        flat = np.zeros(len(given))
    else:
        # In a list that is not full, what is missing has none of the words: its score is 0.
        full = sizes >= np.array([limit for _, _, limit in given])
        floor = np.where(full, last, np.minimum(last, 0.0))
        scale = np.where(best > 0, best, best - floor)
        # Where all are the same, all are worth the most.
        flat = (scale == 0).astype(np.float64)
        scale = scale + flat
    gains = (scores - np.repeat(floor, sizes)) / np.repeat(scale, sizes) + np.repeat(flat, sizes)
    return _Column(
        np.repeat(np.array([number for number, _, _ in given]), sizes),
        np.concatenate([np.asarray(found.chunks, np.int64) for _, found, _ in given]),
        np.arange(1, len(scores) + 1) - np.repeat(starts, sizes),
        scores,
        gains,
    )


def _share(gains: Array, near: Array, owners: Array, chunks: Array, asked: Array, contexts: Contexts) -> None:
    """Even out gains by nearness within a context, the more so the more of its chunks are near.

    A title that says little, such as that of all meeting notes, has most of its chunks elsewhere, and hardly evens them out.
    """
    rows = np.flatnonzero(asked)
    if not len(rows):
        return
    different, where = np.unique(chunks[rows], return_inverse=True)
    numbers = different.tolist()
    known = contexts(numbers)
    codes: dict[Hashable, int] = {}
    coded = {chunk: codes.setdefault(context, len(codes)) for chunk, context in known.items()}
    code = np.array([coded.get(chunk, -1) for chunk in numbers])[where]
    rows, code = rows[code >= 0], code[code >= 0]
    _, group, members = np.unique(owners[rows] * (len(codes) + 1) + code, return_inverse=True, return_counts=True)
    together = members[group] > 1
    rows, group = rows[together], group[together]
    close = near[rows]
    best = np.full(len(members), -np.inf)
    np.maximum.at(best, group[close], gains[rows[close]])
    share = np.bincount(group[close], minlength=len(members)) / (members + 1)
    # A context of which nothing is near has nothing to share.
    shares = share[group] > 0
    rows, group = rows[shares], group[shares]
    gains[rows] = share[group] * best[group] + (1.0 - share[group]) * gains[rows]
