"""Keeping an answer within a number of tokens: snippets are shortened first, then hits dropped from the end.

Counted is the answer's JSON as a model is given it, but for traces and facets, which are only there if asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb_text.api import Text, token_count

from kb_search.models import HitOut
from kb_search.snippet import Match, Matcher, cut_snippet

# A snippet is not made shorter than this: what is left would not show anything.
_SHORTEST = 60
_COMMA = 1


def cost(data: Any) -> int:
    """What it costs a model to read this."""
    return token_count(json.dumps(data, ensure_ascii=False))


class Content:
    """The text of a chunk, which several searches may have found."""

    __slots__ = ("_lang", "_words", "text")

    def __init__(self, text: str, lang: str | None = None) -> None:
        self.text = text
        self._lang = lang
        self._words: Text | None = None

    def __len__(self) -> int:
        return len(self.text)

    @property
    def words(self) -> Text:
        if self._words is None:
            self._words = Text(self.text, self._lang)
        return self._words


@dataclass(slots=True)
class Draft:
    """A hit whose snippet has no length yet."""

    hit: HitOut
    content: Content
    matcher: Matcher
    chars: int
    # What all but the snippet costs.
    base: int = 0
    matches: list[Match] | None = None

    def length(self, share: float) -> int:
        return max(min(self.chars, _SHORTEST), int(self.chars * share))

    def snippet(self, length: int) -> str:
        if len(self.content) <= length:
            return self.content.text
        if self.matches is None:
            self.matches = self.matcher.find(self.content.words)
        return cut_snippet(self.content.text, self.matches, length)

    def finish(self, length: int) -> HitOut:
        self.chars = length
        # Not by pydantic's assignment, which takes longer than making the whole hit.
        vars(self.hit)["snippet"] = self.snippet(length)
        return self.hit

    def refer_to(self, result: int) -> HitOut:
        """The same chunk's snippet was sent before."""
        self.hit.snippet_ref = result
        return self.hit


@dataclass(frozen=True, slots=True)
class Fitted:
    hits: list[HitOut]
    truncated: bool


def unlimited(page: list[Draft]) -> Fitted:
    return Fitted([draft.finish(draft.chars) for draft in page], False)


def fit(pages: Sequence[list[Draft]], max_tokens: int, *, once: bool = False) -> list[Fitted]:
    """As much of the pages as fits together, at least one hit; `once`: a chunk's snippet is sent where it comes first.

    Where hits must go, every page keeps its best before any page keeps its second.
    """
    for page in pages:
        for draft in page:
            draft.base = cost(draft.hit.model_dump()) + _COMMA
    owners = _owners(pages) if once else {}
    share = 1.0
    while True:
        costs = [
            [_cost(draft, number, owners, share) for draft in page]
            for number, page in enumerate(pages)
        ]
        smallest = all(draft.length(share) == draft.length(0.0) for page in pages for draft in page)
        if sum(map(sum, costs)) <= max_tokens or smallest:
            break
        share /= 2
    kept = _kept(costs, max_tokens)
    # Dropping a hit never drops a snippet that others refer to: their owner is in an earlier page, or they are written out.
    fitted, sent = [], {}
    for number, (page, count) in enumerate(zip(pages, kept, strict=True)):
        hits = []
        for draft in page[:count]:
            if once and draft.hit.chunk_id in sent:
                hits.append(draft.refer_to(sent[draft.hit.chunk_id]))
            else:
                sent[draft.hit.chunk_id] = number
                hits.append(draft.finish(draft.length(share)))
        fitted.append(
            Fitted(
                hits,
                count < len(page)
                or (share < 1.0 and any(len(d.content) > d.length(share) for d in page)),
            )
        )
    return fitted


def _owners(pages: Sequence[list[Draft]]) -> dict[str, int]:
    """The first page that has each chunk."""
    found: dict[str, int] = {}
    for number, page in enumerate(pages):
        for draft in page:
            found.setdefault(draft.hit.chunk_id, number)
    return found


def _cost(draft: Draft, page: int, owners: dict[str, int], share: float) -> int:
    if owners.get(draft.hit.chunk_id, page) != page:
        return draft.base + cost({"snippet_ref": 100})
    return draft.base + cost(draft.snippet(draft.length(share)))


def _kept(costs: list[list[int]], max_tokens: int) -> list[int]:
    """How many hits of each page fit: by rank, over all pages."""
    kept = [0] * len(costs)
    left = max_tokens
    open_pages = [number for number, page in enumerate(costs) if page]
    rank = 0
    while open_pages:
        for number in list(open_pages):
            if rank >= len(costs[number]):
                open_pages.remove(number)
            elif costs[number][rank] <= left or not any(kept):
                left -= costs[number][rank]
                kept[number] += 1
            else:
                open_pages.remove(number)
        rank += 1
    return kept
