"""One ranking out of several lists.

Rank fusion of equals is worse than lexical search alone when the embedder is weak. Scores are kept instead, each brought to a
scale on which a difference means about the same for any model and corpus, and added with weights:

- A lexical score is taken as a share of the list's best: a hit that stands out by its words goes on standing out.
- A cosine is taken as the part of the way from the list's last to a perfect match: models differ in how near everything is.

A chunk that a list does not have is taken to be as good as the last that it has, and so gains nothing by that list.
`benchmarks/retrieval.py` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb_framework.api import Candidate, Hit

# Set on the tuning parts of the collections; from 0.4 to 0.55 it makes little difference.
_VECTOR = 0.5
_OTHER = 1.0 - _VECTOR


def fuse(lists: Mapping[str, list[Candidate]], limit: int, weights: Mapping[str, float]) -> list[Hit]:
    """Every chunk of every list, best first. `limit` is how long a list could be; `weights` lower those that know less."""
    scores: dict[int, dict[str, float]] = {}
    ranks: dict[int, dict[str, int]] = {}
    fused: dict[int, float] = {}
    for name, found in lists.items():
        weight = (_VECTOR if name == "vector" else _OTHER) * weights.get(name, 1.0)
        gains = _gains(name, [candidate.score for candidate in found], len(found) >= limit)
        for rank, (candidate, gain) in enumerate(zip(found, gains, strict=True), 1):
            scores.setdefault(candidate.chunk, {})[name] = candidate.score
            ranks.setdefault(candidate.chunk, {})[name] = rank
            fused[candidate.chunk] = fused.get(candidate.chunk, 0.0) + weight * gain
    order = sorted(fused, key=lambda chunk: (-fused[chunk], min(ranks[chunk].values()), chunk))
    return [Hit(chunk, fused[chunk], ranks[chunk], scores[chunk]) for chunk in order]


def _gains(name: str, scores: list[float], full: bool) -> list[float]:
    """What each place in a list is worth, from 0 to 1."""
    if not scores:
        return []
    best, last = max(scores), min(scores)
    if name == "vector":
        return [(score - last) / ((1.0 - last) or 1.0) for score in scores]
    # In a list that is not full, what is missing has none of the words: its score is 0.
    floor = last if full else min(last, 0.0)
    scale = best if best > 0 else best - floor
    return [(score - floor) / scale if scale else 1.0 for score in scores]
