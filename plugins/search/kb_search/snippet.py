"""The part of a text that shows why it was found, cut from the original."""

from __future__ import annotations

import re

from kb_framework.store.text import query_terms


def cut_snippet(text: str, query: str, length: int) -> str:
    """At most about `length` characters, around the place with the most different words of the query."""
    if len(text) <= length:
        return text
    lowered = text.lower()
    places = sorted((match.start(), term) for term, _ in query_terms(query) for match in re.finditer(re.escape(term), lowered))
    best, start = 0, 0
    for index, (place, _) in enumerate(places):
        distinct = len({term for other, term in places[index:] if other < place + length})
        if distinct > best:
            best, start = distinct, place
    begin = max(0, start - length // 5)
    if begin:
        space = text.rfind(" ", max(0, begin - 20), begin)
        begin = space + 1 if space != -1 else begin
    end = min(len(text), begin + length)
    return ("…" if begin else "") + text[begin:end].strip() + ("…" if end < len(text) else "")
