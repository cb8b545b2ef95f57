"""Where to cut what is too long to stay whole; lengths are in eighths of a token, see `kb_framework.tokens`."""

from __future__ import annotations

import re
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from kb_text.api import TOKEN, weight

from kb_documents.blocks import COMMENT, FENCE, HEADING, PARAGRAPH, TABLE, Block

TARGET = (200 * TOKEN, 320 * TOKEN)
MAXIMUM = 512 * TOKEN
# A fence or a table stays whole up to here: below the maximum, so that the heading or the line above it fits as well.
WHOLE = 480 * TOKEN

SENTENCE_CUT = 4.0
LINE_CUT = 5.0
PIECE_CUT = 6.0

_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]」』）]*\s|[。！？][」』）”’]*(?=[^\s」』）”’])")
_ENDS_SENTENCE = (".", "!", "?", "…", "。", "！", "？")
_WORD = re.compile(r"\S")
# Where a line without end may be cut, best first: before a word, after a mark, between characters that are no one word.
_CUTS = (
    re.compile(r"(?<=\s)(?=\S)"),
    re.compile(r"(?<=[,;|}\])>、，；：])(?=\S)"),
    re.compile(r"(?<=[^\w\s])(?=\w)|(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3])(?=\w)"),
)
_HEADER_LENGTH = 500


class Unit(NamedTuple):
    """What is never cut: `text[start:end]`. `header` is the first row of the table that it continues."""

    start: int
    end: int
    weight: int
    cost: float
    level: int = 0
    words: str = ""
    header: str = ""


def fingerprint(text: str) -> float:
    """A number from 0 to 1 that depends on the text alone: the same in every process and on every machine."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) / 2**32


def units(text: str, blocks: list[Block]) -> Iterator[Unit]:
    """The blocks, and instead of those that are too long their lines, sentences or pieces."""
    for start, end, kind, cost, level, words in blocks:
        weighed = weight(text[start:end])
        if weighed <= _LIMITS[kind]:
            yield Unit(start, end, weighed, cost, level, words)
        elif kind in (FENCE, TABLE):
            yield from _rows(text, start, end, cost, kind == TABLE)
        else:
            yield from _sentences(text, start, end, cost)


_LIMITS = {PARAGRAPH: TARGET[1], COMMENT: TARGET[1], HEADING: MAXIMUM, FENCE: WHOLE, TABLE: WHOLE}


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for line in text[start:end].split("\n"):
        if line and not line.isspace():
            yield start, start + len(line)
        start += len(line) + 1


def _rows(text: str, start: int, end: int, cost: float, table: bool) -> Iterator[Unit]:
    """A fence or table line by line. The rows of a table know its head: repeated in the text it would be cited twice."""
    header = ""
    for index, (first, last) in enumerate(_lines(text, start, end)):
        # The head, its rule and the first row stay together.
        above = cost if index == 0 else (PIECE_CUT if table and index < 3 else LINE_CUT)
        yield from _pieces(text, first, last, above, header if index > 1 else "")
        if table and index == 0:
            header = text[first:last].strip()[:_HEADER_LENGTH]


def _sentences(text: str, start: int, end: int, cost: float) -> Iterator[Unit]:
    for first, last in _lines(text, start, end):
        line = text[first:last]
        begin = 0
        for match in _SENTENCE_END.finditer(line):
            stop = match.end()
            kept = stop - 1 if line[stop - 1].isspace() else stop
            yield from _pieces(text, first + begin, first + kept, cost)
            begin, cost = stop, SENTENCE_CUT
        if begin < len(line) and not line[begin:].isspace():
            yield from _pieces(text, first + begin, last, cost)
        cost = SENTENCE_CUT if line.rstrip().endswith(_ENDS_SENTENCE) else LINE_CUT


def _pieces(text: str, start: int, end: int, cost: float, header: str = "") -> Iterator[Unit]:
    """One line or sentence, in several pieces if it is beyond the maximum even alone."""
    while start < end:
        if end - start <= MAXIMUM // 2 and (weighed := weight(text[start:end])) <= MAXIMUM:
            yield Unit(start, end, weighed, cost, header=header)
            return
        if text[start].isspace():
            found = _WORD.search(text, start, end)
            if not found:
                return
            start = found.start()
            continue
        cut = _cut_inside(text, start, end)
        piece = text[start:cut].rstrip()
        yield Unit(start, start + len(piece), weight(piece), cost, header=header)
        start, cost = cut, PIECE_CUT


def _cut_inside(text: str, start: int, end: int) -> int:
    """Where to end a piece that begins at `start`: chosen by what is written there, so that an edit elsewhere moves no cut."""
    window = text[start : min(end, start + TARGET[1] // 2 + 32)]
    if window.isascii():
        low, high = TARGET[0] // 2, TARGET[1] // 2
    else:
        # In tokens of eight: 2 for one byte, 5 for two, 8 for three, 11 for four.
        sums = list(
            accumulate(
                2 if c < "\x80" else 5 if c < "\u0800" else 8 if c < "\U00010000" else 11
                for c in window
            )
        )
        low, high = bisect_left(sums, TARGET[0]), bisect_right(sums, TARGET[1])
    high = min(high, len(window))
    for pattern in _CUTS:
        places = [
            match.start()
            for match in pattern.finditer(window, low, high)
            if match.start() < len(window)
        ]
        if places:
            break
    else:
        places = [place for place in range(low, high) if not _joined(window, place)]
    best = min(
        places, key=lambda place: fingerprint(window[max(place - 16, 0) : place + 16]), default=high
    )
    return start + best


def _joined(window: str, place: int) -> bool:
    """Whether a cut here would part a letter from its accents, or an emoji from its modifiers."""
    after = window[place]
    if after < "\u0300":
        return False
    return (
        unicodedata.category(after)[0] == "M" or after == "\u200d" or window[place - 1] == "\u200d"
    )
