"""What stands near the best hits is worth more.

Whoever answers a question is often not alone: texts about the same thing stand near each other, and some of them say it in words
that are not near to the question's. So each of the first hits is compared with the best few, and lifted part of the way to what
one of them has, the more so the nearer it is. None is lowered and none comes past the best, so the first hit stays the first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import mul
from typing import Any

from kb_framework.api.parts import Tx
from kb_framework.api.retrieval import Hits
from kb_search.contexts import contexts

# Set on the tuning parts of the collections: more of either costs time and changes nothing.
_BEST = 3
_FIRST = 25
_SHARE = 0.5
# The two ways to compute products add up in another order: rounded, they agree.
_DIGITS = 9

# A chunk and its score.
Scored = tuple[int, float]
Products = Callable[[Sequence[bytes], int], list[list[float]]]


def lift(
    rankings: Sequence[Hits], weights: Sequence[float], tx: Tx, *, with_numpy: bool
) -> list[Hits]:
    """Return the rankings with those hits lifted that stand near the best.

    `weights` are what vectors count in each search. With `with_numpy` it computes the products: that pays for several searches,
    and where numpy has been imported for the search.
    """
    firsts = [[*zip(hits.chunks[:_FIRST], hits.scores[:_FIRST], strict=True)] for hits in rankings]
    scores = _new_scores(firsts, weights, tx, by_numpy if with_numpy else by_hand)
    return [
        _ordered(hits, values) if values else hits
        for hits, values in zip(rankings, scores, strict=True)
    ]


def _ordered(hits: Hits, scores: list[float]) -> Hits:
    """Return a ranking whose first hits have these scores and are sorted by them."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])

    def moved(column: list[Any]) -> list[Any]:
        return [*(column[place] for place in order), *column[len(order) :]]

    lists = {name: (moved(ranks), moved(values)) for name, (ranks, values) in hits.lists.items()}
    return Hits(
        moved(hits.chunks), [*(scores[place] for place in order), *hits.scores[len(order) :]], lists
    )


def _new_scores(
    firsts: Sequence[Sequence[Scored]], weights: Sequence[float], tx: Tx, products: Products
) -> list[list[float]]:
    """Return the new scores of the first hits of each ranking; none where a ranking stays as it is."""
    asked = [
        first if weight > 0 and len(first) > 1 else ()
        for first, weight in zip(firsts, weights, strict=True)
    ]
    numbers = list({chunk: None for first in asked for chunk, _ in first})
    index = tx.vectors if numbers else None
    if index is None:
        return [[] for _ in firsts]
    vectors = index.read(numbers)
    under = contexts(numbers, tx)
    return [
        lifted(first, vectors, under, _SHARE * weight, products)
        for first, weight in zip(asked, weights, strict=True)
    ]


def lifted(
    hits: Sequence[Scored],
    vectors: Mapping[int, bytes],
    under: Mapping[int, Hashable],
    share: float,
    products: Products,
) -> list[float]:
    """Return the new score of each chunk, given best first; a chunk without a vector keeps its score."""
    there = [(chunk, score) for chunk, score in hits if chunk in vectors]
    best = [(score, under.get(chunk)) for chunk, score in there[:_BEST]]
    rows = products([vectors[chunk] for chunk, _ in there], len(best))
    reached = {}
    for (chunk, _), row in zip(there, rows, strict=True):
        mine = under.get(chunk)
        # Those under the same title and headings are near for that alone, and have shared already.
        near = [
            cosine * score
            for (score, theirs), cosine in zip(best, row, strict=True)
            if theirs != mine
        ]
        reached[chunk] = max(near, default=0.0)
    return [
        max(score, (1.0 - share) * score + share * reached.get(chunk, 0.0)) for chunk, score in hits
    ]


def by_hand(vectors: Sequence[bytes], count: int) -> list[list[float]]:
    """Return the product of each vector with each of the first `count`; for vectors of unit length that is the cosine.

    Importing numpy would take a hundred times as long as this does for one search.
    """
    numbers = [struct.unpack(f"<{len(vector) // 4}f", vector) for vector in vectors]
    return [
        [round(sum(map(mul, one, other)), _DIGITS) for other in numbers[:count]] for one in numbers
    ]


def by_numpy(vectors: Sequence[bytes], count: int) -> list[list[float]]:
    """The same, where there is much of it."""
    import numpy as np

    if not vectors:
        return []
    rows = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float64)
    return (rows @ rows[:count].T).round(_DIGITS).tolist()
