"""The part of a text that shows why it was found, cut from the original.

The text is compared in the spelling of the index: composed, of usual width, without case and accents. A word also shows
where only its beginning is the same, since `rotation` is found by, or near, `rotated`.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from kb_framework.store.text import query_terms

_ELLIPSIS = "…"
# A Hangul syllable in its letters, or any character, with the marks that belong to it.
_CLUSTER = re.compile(
    "(?:[\u1100-\u115f\ua960-\ua97c][\u1160-\u11a7\ud7b0-\ud7c6]?[\u11a8-\u11ff\ud7cb-\ud7fb]?|.)"
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093c\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20ff\u3099\u309a\ufe00-\ufe2f\uff9e\uff9f]*",
    re.DOTALL,
)
_ACCENTED = re.compile("[\u00c0-\u10ff\u1e00-\u1fff]")
_ENDINGS = re.compile(r"(?:ations?|ings?|ed|ers?|ies|ions?|es|s|ly|y|e)$")
_SHORT_STEM = 4
_MAX_ENDING = 5
# Words of so few letters are seldom what a person looks for.
_SMALL_WORD = 3
_STEM_WEIGHT = 0.7
_MOST_OF_ONE = 12
_AGAIN = 0.05
# So much of the room comes before the first match.
_BEFORE = 0.25


class Match(NamedTuple):
    """Where, in the original text, which term was found, and how much it says."""

    start: int
    end: int
    term: str
    weight: float


class Matcher:
    """Finds the words of a query in texts."""

    def __init__(self, terms: Iterable[str]) -> None:
        folded = dict.fromkeys(filter(None, map(fold, terms)))
        # Small words say something only where there are no others.
        telling = [term for term in folded if not (term.isascii() and len(term) <= _SMALL_WORD)]
        self._needles = [(_stem(term), term) for term in telling or folded]

    def find(self, text: str) -> list[Match]:
        folded, origin = _folded(text)
        found: list[Match] = []
        for needle, term in self._needles:
            place = folded.find(needle)
            for _ in range(_MOST_OF_ONE):
                if place == -1:
                    break
                end = _end_of_word(folded, place, needle, term)
                if end:
                    weight = 1.0 if end - place == len(term) else _STEM_WEIGHT
                    span = (place, end) if origin is None else (origin[place][0], origin[end - 1][1])
                    found.append(Match(*span, term, weight))
                place = folded.find(needle, place + 1)
        return sorted(found)


def _stem(term: str) -> str:
    """What a word begins with however it ends, if that is long enough to tell."""
    stem = _ENDINGS.sub("", term) if term.isascii() else term
    return stem if len(stem) >= _SHORT_STEM else term


def _end_of_word(text: str, start: int, needle: str, term: str) -> int:
    """Where the word ends that the needle begins, if it is one; 0 if the needle is inside of another word."""
    end = start + len(needle)
    if not _is_word(term[0]):
        return end
    if start and _in_word(text[start - 1]):
        return 0
    longest = end + (_MAX_ENDING if len(needle) >= _SHORT_STEM else 0)
    while end < len(text) and _in_word(text[end]):
        end += 1
        if end > longest:
            return 0
    return end


@functools.cache
def _in_word(character: str) -> bool:
    return character.isalnum() and _is_word(character)


def matcher(query: str) -> Matcher:
    return Matcher(term for term, _ in query_terms(query))


@functools.cache
def _is_word(term: str) -> bool:
    """Whether words of its script stand apart, so that it must be found as a whole."""
    return unicodedata.east_asian_width(term[0]) not in "WF"


def fold(text: str) -> str:
    return text.lower() if text.isascii() else _fold_normal(unicodedata.normalize("NFKC", text))


def _fold_normal(text: str) -> str:
    """Without case and accents, one character for one, so that places stay the same."""
    lower = text.lower()
    if len(lower) == len(text) and not _ACCENTED.search(lower):
        return lower
    return "".join(map(_fold_character, text))


@functools.cache
def _fold_character(character: str) -> str:
    base = unicodedata.normalize("NFD", character.lower())[0] if _ACCENTED.match(character) else character.lower()
    return base if len(base) == 1 else character


def _folded(text: str) -> tuple[str, list[tuple[int, int]] | None]:
    """The text as it is compared, and for each of its characters where it is in the original; None where that is the same."""
    if text.isascii():
        return text.lower(), None
    if unicodedata.is_normalized("NFKC", text):
        return _fold_normal(text), None
    parts: list[str] = []
    origin: list[tuple[int, int]] = []
    for cluster in _CLUSTER.finditer(text):
        part = fold(cluster.group())
        parts.append(part)
        origin += [cluster.span()] * len(part)
    return "".join(parts), origin


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
    return (_ELLIPSIS if begin else "") + text[begin:end].strip() + (_ELLIPSIS if end < len(text) else "")


def _best_window(matches: list[Match], room: int) -> tuple[int, int]:
    """The start of the first and the end of the last match of the best stretch of so many characters."""
    best, place, last, value = 0.0, (0, 0), 0, 0.0
    inside: dict[str, int] = {}
    for index, match in enumerate(matches):
        while last < len(matches) and matches[last].end <= match.start + room:
            found = matches[last]
            times = inside.get(found.term, 0)
            # Different words count most; the same word again counts a little.
            value += found.weight * (_AGAIN if times else 1.0)
            inside[found.term] = times + 1
            last += 1
        if last == index:
            # It is longer than the room there is.
            last += 1
            continue
        if value > best + 1e-9:
            best, place = value, (match.start, matches[last - 1].end)
        inside[match.term] -= 1
        value -= match.weight * (_AGAIN if inside[match.term] else 1.0)
    return place


def _word_start(text: str, begin: int, latest: int) -> int:
    """The start of a word at or after `begin`; where there are no spaces, the start of a character with its marks."""
    if text[begin - 1].isspace():
        return begin
    space = next((place for place in range(begin, latest) if text[place].isspace()), None)
    if space is not None:
        return space + 1
    while begin < latest and _goes_on(text, begin):
        begin += 1
    return begin


def _word_end(text: str, earliest: int, end: int) -> int:
    if text[end].isspace():
        return end
    space = next((place for place in range(end - 1, earliest - 1, -1) if text[place].isspace()), None)
    if space is not None:
        return space
    while end > earliest and _goes_on(text, end):
        end -= 1
    return end


def _goes_on(text: str, place: int) -> bool:
    """Whether the character there belongs to the one before it."""
    character = text[place]
    joins = unicodedata.combining(character) or character in "\u200d\uff9e\uff9f" or text[place - 1] == "\u200d"
    return bool(joins) or "\u1160" <= character <= "\u11ff" or "\ufe00" <= character <= "\ufe0f"
