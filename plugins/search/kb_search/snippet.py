"""The part of a text that shows why it was found, cut from the original."""

from __future__ import annotations

import unicodedata

from kb_text.api import TermFinder, Text, query_terms

_ELLIPSIS = "…"
# Words of so few letters are seldom what a person looks for.
_SMALL_WORD = 3
_AGAIN = 0.05
# So much of the room comes before the first match.
_BEFORE = 0.25


# Where, in the original text, which term was found: start, end, term.
Match = tuple[int, int, str]


class Matcher:
    """Finds the words of a query in texts, as the index would."""

    def __init__(self, query: str) -> None:
        terms = query_terms(query)
        # Small words say something only where there are no others.
        telling = [
            pair for pair in terms if not (pair[0].isascii() and len(pair[0]) <= _SMALL_WORD)
        ]
        self._finder = TermFinder(telling or terms)

    def find(self, text: Text) -> list[Match]:
        return sorted(self._finder.find(text))


def cut_snippet(text: str, matches: list[Match], length: int) -> str:
    """At most `length` characters around the place that has the most of the query, from word to word."""
    if len(text) <= length:
        return text
    room = length - 2 * len(_ELLIPSIS)
    first, last = _best_window(matches, room)
    spare = room - (last - first)
    begin = max(0, min(first - int(spare * _BEFORE), len(text) - room))
    end = min(len(text), begin + room)
    if begin:
        begin = _word_start(text, begin, first)
    if end < len(text):
        end = _word_end(text, max(last, begin + 1), end)
    return (
        (_ELLIPSIS if begin else "")
        + text[begin:end].strip()
        + (_ELLIPSIS if end < len(text) else "")
    )


def _best_window(matches: list[Match], room: int) -> tuple[int, int]:
    """The start of the first and the end of the last match of the best stretch of so many characters."""
    best, place, last, value, count = 0.0, (0, 0), 0, 0.0, len(matches)
    inside: dict[str, int] = {}
    for index, (start, _, word) in enumerate(matches):
        limit = start + room
        while last < count and matches[last][1] <= limit:
            term = matches[last][2]
            times = inside.get(term, 0)
            # Different words count most; the same word again counts a little.
            value += _AGAIN if times else 1.0
            inside[term] = times + 1
            last += 1
        if last == index:
            # It is longer than the room there is.
            last += 1
            continue
        if value > best + 1e-9:
            best, place = value, (start, matches[last - 1][1])
        if last == count:
            # What begins later has less.
            break
        inside[word] -= 1
        value -= _AGAIN if inside[word] else 1.0
    return place


def _word_start(text: str, begin: int, latest: int) -> int:
    """The start of a word at or after `begin`; where there are no spaces, the start of a character with its marks."""
    if text[begin - 1].isspace():
        return begin
    between = text[begin:latest]
    first = len(between.split(None, 1)[0]) if between and not between[0].isspace() else 0
    if first < len(between):
        return begin + first + 1
    while begin < latest and _goes_on(text, begin):
        begin += 1
    return begin


def _word_end(text: str, earliest: int, end: int) -> int:
    if text[end].isspace():
        return end
    between = text[earliest:end]
    last = len(between.rsplit(None, 1)[-1]) if between and not between[-1].isspace() else 0
    if last < len(between):
        return end - last - 1
    while end > earliest and _goes_on(text, end):
        end -= 1
    return end


def _goes_on(text: str, place: int) -> bool:
    """Whether the character there belongs to the one before it."""
    character = text[place]
    joins = (
        unicodedata.combining(character)
        or character in "\u200d\uff9e\uff9f"
        or text[place - 1] == "\u200d"
    )
    return bool(joins) or "\u1160" <= character <= "\u11ff" or "\ufe00" <= character <= "\ufe0f"
