"""One ranking out of several lists.

Rank fusion of equals is worse than lexical search alone when the embedder is weak. Scores are kept instead, each brought to a
scale on which a difference means about the same for any model and corpus, and added with weights:

- A lexical score is taken as a share of the list's best: a hit that stands out by its words goes on standing out.
- A cosine is taken as the part of the way from the list's last to a perfect match: models differ in how near everything is.

A chunk that a list does not have is taken to be as good as the last that it has, and so gains nothing by that list.

A chunk's vector is made of its text and of the title and headings above it. Where many chunks of one context are near, it is
the context that is near, and small differences among them say little: then they share what the best of them gains, and words
decide among them. `benchmarks/retrieval.py` measures it.

Plain numbers, not numpy: importing numpy would take longer than a search from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from kb_framework.api.retrieval import Candidates, Hits, plain

# Set on the tuning parts of the collections; from 0.4 to 0.55 it makes little difference.
VECTOR = 0.5
OTHER = 1.0 - VECTOR
_NO_RANK = 1 << 60

Contexts = Callable[[Collection[int]], Mapping[int, Hashable]]


def fuse(
    lists: Mapping[str, Candidates],
    limit: int,
    weights: Mapping[str, float],
    contexts: Contexts | None = None,
) -> Hits:
    """Return every chunk of every list, best first.

    `limit` is how long a list could be; `weights` lower the lists that know less. `contexts` returns what chunks stand under;
    it is called only where vectors count.
    """
    columns = {name: (found.numbers, plain(found.scores)) for name, found in lists.items()}
    ranks = {
        name: dict(zip(numbers, range(1, len(numbers) + 1), strict=True))
        for name, (numbers, _) in columns.items()
    }
    best: dict[int, int] = {}
    for of_list in ranks.values():
        for chunk, rank in of_list.items():
            if rank < best.get(chunk, _NO_RANK):
                best[chunk] = rank
    fused = dict.fromkeys(best, 0.0)
    for name, (numbers, scores) in columns.items():
        weight = weights.get(name, 1.0)
        gains = _gains(name, scores, len(numbers) >= limit)
        gained = zip(numbers, gains, strict=True)
        if name == "vector" and contexts is not None and numbers and weight > 0:
            gained = _shared(dict(gained), contexts(list(fused))).items()
        share = (VECTOR if name == "vector" else OTHER) * weight
        for chunk, gain in gained:
            fused[chunk] += share * gain
    ranked = sorted([(-score, best[chunk], chunk) for chunk, score in fused.items()])
    order = [chunk for _, _, chunk in ranked]
    found = {}
    for name, (_, scores) in columns.items():
        places = [ranks[name].get(chunk, 0) for chunk in order]
        found[name] = places, [scores[place - 1] if place else 0.0 for place in places]
    return Hits(order, [-score for score, _, _ in ranked], found)


def _gains(name: str, scores: Sequence[float], full: bool) -> list[float]:
    """Return what each place in a list is worth, from 0 to 1."""
    if not scores:
        return []
    best, last = max(scores), min(scores)
    if name == "vector":
        scale = (1.0 - last) or 1.0
        return [(score - last) / scale for score in scores]
    # In a list that is not full, what is missing has none of the words: its score is 0.
    floor = last if full else min(last, 0.0)
    scale = best if best > 0 else best - floor
    return [(score - floor) / scale for score in scores] if scale else [1.0] * len(scores)


def _shared(gained: Mapping[int, float], contexts: Mapping[int, Hashable]) -> dict[int, float]:
    """Even out gains by nearness within a context, the more so the more of its chunks are near.

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
            shared.update(
                {chunk: share * best + (1.0 - share) * gained.get(chunk, 0.0) for chunk in together}
            )
    return shared
