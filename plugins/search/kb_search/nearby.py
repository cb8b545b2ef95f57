"""What stands near the best hits is worth more.

Whoever answers a question is often not alone: texts about the same thing stand near each other, and some of them say it in words
that are not near to the question's. So each of the first hits is compared with the best few, and lifted part of the way to what
one of them has, the more so the nearer it is. None is lowered and none comes past the best, so the first hit stays the first.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from operator import mul

from kb_framework.api import Hit
from kb_framework.columns import Hits
from kb_framework.store.documents import active_space
from kb_framework.store.store import Tx
from kb_search.contexts import contexts

# Set on the tuning parts of the collections: more of either costs time and changes nothing.
_BEST = 3
_FIRST = 25
_SHARE = 0.5

# A chunk and its score.
Scored = tuple[int, float]


def lift(hits: list[Hit], weight: float, tx: Tx) -> list[Hit]:
    """The same hits, with those lifted that stand near the best. `weight` is what vectors count in this search."""
    (scores,) = _new_scores([[(hit.chunk, hit.score) for hit in hits[:_FIRST]]], [weight], tx)
    made = [hit._replace(score=score) for hit, score in zip(hits, scores, strict=False)]
    return [*sorted(made, key=lambda hit: -hit.score), *hits[len(made) :]]


def lift_many(rankings: Sequence[Hits], weights: Sequence[float], tx: Tx) -> None:
    """The same for several rankings, in place: their columns must be numpy's."""
    firsts = [[*zip(hits.chunks[:_FIRST].tolist(), hits.scores[:_FIRST].tolist(), strict=True)] for hits in rankings]
    for hits, scores in zip(rankings, _new_scores(firsts, weights, tx), strict=True):
        count = len(scores)
        order = sorted(range(count), key=lambda place: -scores[place])
        for column in (hits.chunks, *chain.from_iterable(hits.lists.values())):
            column[:count] = column[:count][order]
        hits.scores[:count] = [scores[place] for place in order]


def _new_scores(firsts: Sequence[Sequence[Scored]], weights: Sequence[float], tx: Tx) -> list[list[float]]:
    """Of the first hits of each ranking; none where all is to stay as it is."""
    asked = [first if weight > 0 and len(first) > 1 else () for first, weight in zip(firsts, weights, strict=True)]
    numbers = list({chunk: None for first in asked for chunk, _ in first})
    space = active_space(tx) if numbers else None
    if space is None:
        return [[] for _ in firsts]
    vectors = tx.backend.read_vectors(tx.connection, space.index_name, numbers, tx.organization_id)
    under = contexts(numbers, tx)
    return [lifted(first, vectors, under, _SHARE * weight) for first, weight in zip(asked, weights, strict=True)]


def lifted(hits: Sequence[Scored], vectors: Mapping[int, bytes], under: Mapping[int, Hashable], share: float) -> list[float]:
    """The new score of each of these chunks, which are given best first; one without a vector keeps its own."""
    there = [(chunk, score) for chunk, score in hits if chunk in vectors]
    best = [(score, under.get(chunk)) for chunk, score in there[:_BEST]]
    rows = _products([vectors[chunk] for chunk, _ in there], len(best))
    reached = {}
    for (chunk, _), row in zip(there, rows, strict=True):
        mine = under.get(chunk)
        # Those under the same title and headings are near for that alone, and have shared already.
        near = [cosine * score for (score, theirs), cosine in zip(best, row, strict=True) if theirs != mine]
        reached[chunk] = max(near, default=0.0)
    return [max(score, (1.0 - share) * score + share * reached.get(chunk, 0.0)) for chunk, score in hits]


def _products(vectors: Sequence[bytes], count: int) -> list[list[float]]:
    """The product of each vector with each of the first `count`; for vectors of unit length that is the cosine."""
    if not vectors:
        return []
    if "numpy" in sys.modules:
        import numpy as np

        rows = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float64)
        return (rows @ rows[:count].T).tolist()
    # Importing numpy would take a hundred times as long as this does.
    numbers = [struct.unpack(f"<{len(vector) // 4}f", vector) for vector in vectors]
    return [[sum(map(mul, one, other)) for other in numbers[:count]] for one in numbers]
