"""One ranking out of several.

Scores are standardised within each list and added with weights. Rank fusion of equals is worse than lexical search alone
when the embedder is weak in the query's language; a modest weight for the vectors is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, pstdev

from kb_framework.api import Candidate, Hit

_WEIGHTS = {"lexical": 0.7, "vector": 0.3}


def fuse(lists: Mapping[str, list[Candidate]]) -> list[Hit]:
    scores: dict[int, dict[str, float]] = {}
    ranks: dict[int, dict[str, int]] = {}
    fused: dict[int, float] = {}
    for name, found in lists.items():
        values = [candidate.score for candidate in found]
        centre, spread = (fmean(values), pstdev(values) or 1.0) if values else (0.0, 1.0)
        # A chunk that a list does not have is taken to be as good as the worst that it has.
        floor = min(((value - centre) / spread for value in values), default=0.0)
        for rank, candidate in enumerate(found, 1):
            scores.setdefault(candidate.chunk, {})[name] = candidate.score
            ranks.setdefault(candidate.chunk, {})[name] = rank
            gain = (candidate.score - centre) / spread - floor
            fused[candidate.chunk] = fused.get(candidate.chunk, 0.0) + _WEIGHTS.get(name, 0.3) * gain
    order = sorted(fused, key=lambda chunk: (-fused[chunk], chunk))
    return [Hit(chunk, fused[chunk], ranks[chunk], scores[chunk]) for chunk in order]
