"""The words of a chunk as numbers: what FTS5 indexes, so that both give the same scores."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from kb_text.api import is_unspaced

from kb_framework.api.text_query import Word
from kb_sqlite.accelerator.arrays import Array

# Of title, headings and body: the most that is counted, and where in a code it stands.
_MOST = np.array([15, 15, 255])
_SHIFT = np.array([12, 8, 0])


@functools.lru_cache(maxsize=1 << 17)
def key(term: str) -> int:
    """A term as 64 bits: among a million terms two are the same with a chance of 1 in 36 million."""
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def encode(rows: Sequence[Sequence[str]]) -> list[bytes]:
    """Chunks, each by its words of title, headings and body as they are indexed, for the tail.

    How many words it has, then each different word, then how often it is in each column: four bits each for title and
    headings, eight for the body; what does not fit is cut off. Many at once, because then numpy does most of it.
    """
    numbers = _Numbers()
    cut = [text.split() for row in rows for text in row]
    sizes = np.array([len(words) for words in cut], np.int64)
    # Of each word in each text: which it is, and in which text.
    words = np.fromiter(
        map(numbers.__getitem__, chain.from_iterable(cut)), np.int64, int(sizes.sum())
    )
    texts = np.repeat(np.arange(len(cut)), sizes)
    begins = numbers.beginnings()[words]
    if len(unspaced := np.flatnonzero(begins >= 0)):
        words, texts = (
            np.concatenate([words, begins[unspaced]]),
            np.concatenate([texts, texts[unspaced]]),
        )
    columns = len(_MOST)
    # Sorted by chunk, word and column.
    places = (texts // columns * len(numbers) + words) * columns + texts % columns
    places, counts = np.unique(places, return_counts=True)
    column = places % columns
    codes = np.minimum(counts, _MOST[column]) << _SHIFT[column]
    places //= columns
    first = np.flatnonzero(np.diff(places, prepend=-1))
    codes = np.add.reduceat(codes, first).astype("<u2") if len(first) else np.empty(0, "<u2")
    keys = numbers.keys_of()[places[first] % max(1, len(numbers))]
    ends = np.searchsorted(
        places[first] // max(1, len(numbers)), np.arange(len(rows)), side="right"
    ).tolist()
    lengths = sizes.reshape(-1, columns).sum(axis=1).astype("<u4")
    return [
        lengths[row : row + 1].tobytes() + keys[begin:end].tobytes() + codes[begin:end].tobytes()
        for row, (begin, end) in enumerate(pairwise([0, *ends]))
    ]


class _Numbers(dict[str, int]):
    """Words by the order in which they were first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number

    def beginnings(self) -> Array:
        """Of text without spaces a single character may be asked for, as the beginning of a pair: its number for each word.

        It is -1 for other words.
        """
        words = list(self)
        begins = [
            -1 if word.isascii() or not is_unspaced(word) else self[f"{word[0]}*"] for word in words
        ]
        return np.array(begins, np.int64)

    def keys_of(self) -> Array:
        return np.fromiter(map(key, self), "<u8", len(self))


def query_keys(words: Sequence[Word]) -> list[int] | None:
    """Return the keys of a query's words; None if one of them is a prefix that has no posting of its own."""
    found: dict[int, None] = {}
    for word, prefix in words:
        if prefix:
            if len(word) != 1 or not is_unspaced(word):
                return None
            found[key(f"{word}*")] = None
        else:
            found[key(word)] = None
    return list(found)
