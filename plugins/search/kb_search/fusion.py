"""One ranking out of several lists.

Rank fusion of equals is worse than lexical search alone when the embedder is weak. Scores are kept instead, each brought to a
scale on which a difference means about the same for any model and corpus, and added with weights:

- A lexical score is taken as a share of the list's best: a hit that stands out by its words goes on standing out.
- A cosine is taken as the part of the way from the list's last to a perfect match: models differ in how near everything is.

A chunk that a list does not have is taken to be as good as the last that it has, and so gains nothing by that list.

A chunk's vector is made of its text and of the title and headings that it stands under. Where many chunks of one context are
near, it is the context that is near, and small differences among them say little: then they share what the best of them
gains, and words decide among them. `benchmarks/retrieval.py` measures it.

This is for one search. `fusion_many` does the same for many at once, with numpy, which a command that searches once need not
import.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from kb_framework.api import Candidate, Hit

# Set on the tuning parts of the collections; from 0.4 to 0.55 it makes little difference.
VECTOR = 0.5
OTHER = 1.0 - VECTOR

Contexts = Callable[[Collection[int]], Mapping[int, Hashable]]


def fuse(
    lists: Mapping[str, Sequence[Candidate]], limit: int, weights: Mapping[str, float], contexts: Contexts | None = None
) -> list[Hit]:
    """Every chunk of every list, best first. `limit` is how long a list could be; `weights` lower those that know less.

    `contexts` tells what chunks stand under; it is asked only where vectors count.
    """
    scores: dict[int, dict[str, float]] = {}
    ranks: dict[int, dict[str, int]] = {}
    gains: dict[str, dict[int, float]] = {}
    for name, found in lists.items():
        for rank, (chunk, score) in enumerate(found, 1):
            if chunk in scores:
                scores[chunk][name], ranks[chunk][name] = score, rank
            else:
                scores[chunk], ranks[chunk] = {name: score}, {name: rank}
        values = _gains(name, [score for _, score in found], len(found) >= limit)
        gains[name] = dict(zip([chunk for chunk, _ in found], values, strict=True))
    if contexts is not None and gains.get("vector") and weights.get("vector", 1.0) > 0:
        gains["vector"] = _shared(gains["vector"], contexts(list(scores)))
    fused = dict.fromkeys(scores, 0.0)
    for name, gained in gains.items():
        weight = (VECTOR if name == "vector" else OTHER) * weights.get(name, 1.0)
        for chunk, gain in gained.items():
            fused[chunk] += weight * gain
    order = sorted([(-score, min(ranks[chunk].values()), chunk) for chunk, score in fused.items()])
    return [Hit(chunk, -score, ranks[chunk], scores[chunk]) for score, _, chunk in order]


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


def _shared(gained: Mapping[int, float], contexts: Mapping[int, Hashable]) -> dict[int, float]:
    """Gains by nearness, evened out within a context, the more so the more of its chunks are near.

    A title that says little, such as that of all meeting notes, has most of its chunks elsewhere, and hardly evens them out.
    """
    members: dict[Hashable, list[int]] = {}
    for chunk, context in contexts.items():
        members.setdefault(context, []).append(chunk)
    shared = dict(gained)
    for together in members.values():
        if len(together) == 1:
            continue
        near = [gained[chunk] for chunk in together if chunk in gained]
        if near:
            share, best = len(near) / (len(together) + 1), max(near)
            shared.update({chunk: share * best + (1.0 - share) * gained.get(chunk, 0.0) for chunk in together})
    return shared
