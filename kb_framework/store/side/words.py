"""The words of a chunk as numbers: what FTS5 indexes, so that both give the same scores."""

from __future__ import annotations

import functools
import hashlib
from array import array
from collections import Counter

from kb_framework.store.text import is_unspaced, query_terms


@functools.lru_cache(maxsize=1 << 17)
def key(term: str) -> int:
    """A term as 64 bits: among a million terms two are the same with a chance of 1 in 36 million."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def encode(title: str, headings: str, body: str) -> bytes:
    """A chunk, by its words as they are indexed, for the tail.

    How many words it has, then each different word, then how often it is in each column.
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
    words = text.split()
    counts = Counter(words)
    if not text.isascii():
        # Of text without spaces a single character may be asked for, as the beginning of a pair.
        for word, count in list(counts.items()):
            if not word.isascii() and is_unspaced(word):
                counts[f"{word[0]}*"] += count
    if len(words) > most:
        for word, count in counts.items():
            counts[word] = min(count, most)
    return words, counts


def query_keys(text: str) -> list[int] | None:
    """The terms of a query; None if one of them is a prefix that has no posting of its own."""
    found: dict[int, None] = {}
    for term, prefix in query_terms(text):
        if prefix:
            if len(term) != 1 or not is_unspaced(term):
                return None
            found[key(f"{term}*")] = None
        else:
            found[key(term)] = None
    return list(found)
