"""The words of a chunk as numbers: what FTS5 would index, so that both give the same scores."""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from array import array
from collections import Counter

from kb_framework.store.text import query_terms

_TOKEN = re.compile(r"[^\W_]+")
# Marks that FTS5's unicode61 leaves out of a word instead of ending it.
_MARKS = range(0x300, 0x332)
# Runs of characters without spaces are indexed in pairs, and asked for by one character as a prefix.
_PAIRED = "\u1100"


class _Folding(dict[int, int | None]):
    """Characters as unicode61 folds them: a Latin letter loses its marks, all others keep theirs."""

    def __missing__(self, point: int) -> int | None:
        if point in _MARKS:
            folded = None
        else:
            base = unicodedata.normalize("NFD", chr(point))[0]
            folded = ord(base.lower()) if base.isascii() else point
        self[point] = folded
        return folded


# The two shapes of sigma are one letter.
_folding = _Folding({ord("ς"): ord("σ")})


def fold(text: str) -> list[str]:
    """The words that FTS5 makes of text that was prepared for it."""
    lower = text.lower()
    return _TOKEN.findall(lower if lower.isascii() else lower.translate(_folding))


@functools.lru_cache(maxsize=1 << 18)
def key(term: str) -> int:
    """A term as 64 bits: among a million terms two are the same with a chance of 1 in 36 million."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def encode(title: str, headings: str, body: str) -> bytes:
    """A chunk for the tail: how many words it has, then each different word, then how often it is in each column.

    The texts are those that FTS5 is given.
    """
    words, counts = _count(body, 255)
    codes: dict[str, int] = dict(counts)
    length = len(words)
    # Four bits each for title and headings, eight for the body; what does not fit is cut off.
    for text, shift in ((title, 12), (headings, 8)):
        words, counts = _count(text, 15)
        length += len(words)
        for word, count in counts.items():
            codes[word] = codes.get(word, 0) + (count << shift)
    parts = array("I", [length]), array("Q", map(key, codes)), array("H", codes.values())
    return b"".join(part.tobytes() for part in parts)


def _count(text: str, most: int) -> tuple[list[str], Counter[str]]:
    words = fold(text)
    counts = Counter(words)
    if not text.isascii():
        counts.update(f"{word[0]}*" for word in words if word[0] >= _PAIRED)
    if len(words) > most:
        for word, count in counts.items():
            counts[word] = min(count, most)
    return words, counts


def query_keys(text: str) -> list[int] | None:
    """The terms of a query; None if one of them is a prefix that has no posting of its own."""
    found: dict[int, None] = {}
    for term, prefix in query_terms(text):
        if prefix:
            if len(term) != 1 or term < _PAIRED:
                return None
            found[key(f"{term}*")] = None
        else:
            found.update({key(word): None for word in fold(term)})
    return list(found)
