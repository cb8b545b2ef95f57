"""Where a text can be cut: its headings, paragraphs, list items, fences and tables, in one pass over the lines.

This is not a Markdown parser. It needs no tree and resolves no links; it needs to know which lines belong together, to
be linear on hostile input, and to give exact offsets. Where it simplifies, it errs towards fewer headings:
a heading of more than 400 characters is a paragraph, and so is one underlined after more than one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

PARAGRAPH, HEADING, FENCE, TABLE, COMMENT = range(5)

# What a cut costs, before a block of each kind. A cut's cost also has a random part below 1: see `chunk`.
SECTION_CUT = -1.0
BLOCK_CUT = 0.0
ITEM_CUT = 1.0
NESTED_ITEM_CUT = 0.25  # for each level of indentation, up to four
AFTER_COLON_CUT = 2.0
INSIDE_ITEM_CUT = 2.5
AFTER_HEADING_CUT = 50.0

_LONGEST_HEADING = 400
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_ITEM = re.compile(r"(?:[-*+]|(\d{1,9})[.)])(?:\s|$)")
_RULE = re.compile(r"(?:-[ \t]*){3,}$|(?:\*[ \t]*){3,}$|(?:_[ \t]*){3,}$")
_TABLE_RULE = re.compile(r"[|:\- \t]+$")
_ATTRIBUTES = re.compile(r"\{[#.:][^{}]*\}$")
_MARKING = frozenset("#`~<-*+_=|:0123456789")


class Block(NamedTuple):
    """`text[start:end]`, without the blank lines around it; `cost` is that of a cut before it."""

    start: int
    end: int
    kind: int
    cost: float
    level: int = 0
    words: str = ""


def scan(text: str, begin: int, markdown: bool, page_starts: Sequence[int] = ()) -> list[Block]:
    """The blocks of `text[begin:]`, in order; together they hold every line that is not blank."""
    scanner = _Scanner(text, page_starts)
    lines = (text[begin:] if begin else text).split("\n")
    if markdown:
        scanner.markdown(lines, begin)
    else:
        scanner.plain(lines, begin)
    scanner.close()
    return scanner.blocks


def heading_words(marked: str) -> str:
    """`## Pods {#pods} ##` names the section 'Pods'."""
    words = marked.strip()
    unclosed = words.rstrip("#")
    if unclosed != words and (not unclosed or unclosed[-1].isspace()):
        words = unclosed.rstrip()
    return _ATTRIBUTES.sub("", words).rstrip()


@dataclass(slots=True)
class _Open:
    """The block that the next line may continue."""

    start: int
    end: int
    kind: int
    cost: float
    lines: int = 1
    item: bool = False
    last_start: int = 0


class _Scanner:
    def __init__(self, text: str, page_starts: Sequence[int]) -> None:
        self.blocks: list[Block] = []
        self._text = text
        self._pages = [*page_starts, len(text) + 1]
        self._page = 0
        self._open: _Open | None = None
        self._in_list = False

    def plain(self, lines: list[str], offset: int) -> None:
        for line in lines:
            start, offset = offset, offset + len(line) + 1
            if start >= self._pages[self._page]:
                self._turn_page(start)
            if not line or line.isspace():
                self.close()
            else:
                self._continue(start, start + len(line))

    def markdown(self, lines: list[str], offset: int) -> None:
        until: str | None = None  # what ends the fence or comment that is open
        for line in lines:
            start, offset = offset, offset + len(line) + 1
            end = start + len(line)
            stripped = line.strip()
            if until is not None:
                if stripped:
                    self._extend(start, end)
                over = (
                    "-->" in line
                    if until == "-->"
                    else stripped.startswith(until) and not stripped.strip(until[0])
                )
                if over:
                    until = None
                    self.close()
                continue
            if start >= self._pages[self._page]:
                self._turn_page(start)
            if not stripped:
                self.close()
            elif stripped[0] not in _MARKING:
                self._paragraph_line(line, start, end)
            else:
                until = self._marked_line(line, stripped, start, end)

    def close(self) -> None:
        if block := self._open:
            self._open = None
            self.blocks.append(Block(block.start, block.end, block.kind, block.cost))

    def _marked_line(self, line: str, stripped: str, start: int, end: int) -> str | None:
        """A line that may be more than words; what must come to end it, if it opens a fence or a comment."""
        indent = len(line) - len(line.lstrip())
        first = stripped[0]
        if (
            first == "#"
            and indent < 4
            and (match := _HEADING.match(stripped))
            and len(stripped) <= _LONGEST_HEADING
        ):
            self._heading(start, end, len(match.group(1)), match.group(2))
            return None
        if first in "`~" and stripped.startswith(("```", "~~~")):
            mark = stripped[: len(stripped) - len(stripped.lstrip(first))]
            if first == "~" or "`" not in stripped[len(mark) :]:
                self._begin(start, end, FENCE, indent)
                return mark
        if first == "<" and stripped.startswith("<!--") and "-->" not in stripped[4:]:
            self._begin(start, end, COMMENT, indent)
            return "-->"
        if first in "-=" and self._underlines(stripped, indent):
            self._underline(stripped, end)
        elif first in "|:-" and self._makes_table(stripped):
            self._make_table(end)
        elif first in "-*_" and len(stripped) <= _LONGEST_HEADING and _RULE.match(stripped):
            self._begin(start, end, PARAGRAPH, 0)
            self.close()
        elif self._is_item(stripped):
            self._item(start, end, indent)
        else:
            self._paragraph_line(line, start, end)
        return None

    def _paragraph_line(self, line: str, start: int, end: int) -> None:
        block = self._open
        if block is None:
            self._begin(start, end, PARAGRAPH, len(line) - len(line.lstrip()))
        elif block.kind == TABLE and "|" not in line:
            self._begin(start, end, PARAGRAPH, 0)
        else:
            self._extend(start, end)

    def _continue(self, start: int, end: int) -> None:
        if self._open is None:
            self._open = _Open(start, end, PARAGRAPH, self._cut_cost(), last_start=start)
        else:
            self._extend(start, end)

    def _extend(self, start: int, end: int) -> None:
        if block := self._open:
            block.end = end
            block.lines += 1
            block.last_start = start

    def _begin(self, start: int, end: int, kind: int, indent: int) -> None:
        self.close()
        if not indent:
            self._in_list = False
        cost = max(self._cut_cost(), INSIDE_ITEM_CUT) if self._in_list else self._cut_cost()
        self._open = _Open(start, end, kind, cost, last_start=start)

    def _item(self, start: int, end: int, indent: int) -> None:
        self.close()
        cost = (
            ITEM_CUT + NESTED_ITEM_CUT * min(indent // 2, 4) if self._in_list else self._cut_cost()
        )
        self._in_list = True
        self._open = _Open(start, end, PARAGRAPH, cost, item=True, last_start=start)

    def _is_item(self, stripped: str) -> bool:
        match = _ITEM.match(stripped)
        # A wrapped line that happens to begin with a year is no item: '1986. It was …'
        return bool(match) and (
            self._open is None or self._in_list or match.group(1) in (None, "1")
        )

    def _heading(self, start: int, end: int, level: int, marked: str) -> None:
        self.close()
        self._in_list = False
        cost = AFTER_HEADING_CUT if self._follows_heading() else SECTION_CUT
        self.blocks.append(Block(start, end, HEADING, cost, level, heading_words(marked)))

    def _underlines(self, stripped: str, indent: int) -> bool:
        block = self._open
        return (
            block is not None
            and block.kind == PARAGRAPH
            and block.lines == 1
            and not block.item
            and indent < 4
            and not stripped.strip(stripped[0])
            and block.end - block.start <= _LONGEST_HEADING
            and len(stripped) <= _LONGEST_HEADING
        )

    def _underline(self, stripped: str, end: int) -> None:
        block = self._open
        if block is None:
            return
        self._open = None
        self._heading(
            block.start, end, 1 if stripped[0] == "=" else 2, self._text[block.start : block.end]
        )

    def _makes_table(self, stripped: str) -> bool:
        block = self._open
        return (
            block is not None
            and block.kind == PARAGRAPH
            and "|" in stripped
            and "-" in stripped
            and bool(_TABLE_RULE.match(stripped))
            and "|" in self._text[block.last_start : block.end]
        )

    def _make_table(self, end: int) -> None:
        """The paragraph's last line turns out to be the head of a table."""
        block = self._open
        if block is None:
            return
        if block.lines > 1:
            above = self._text[block.start : block.last_start].rstrip()
            self.blocks.append(Block(block.start, block.start + len(above), PARAGRAPH, block.cost))
            cost = AFTER_COLON_CUT if above.endswith((":", "：")) else BLOCK_CUT
        else:
            cost = block.cost
        self._open = _Open(block.last_start, end, TABLE, cost, lines=2, last_start=block.last_start)

    def _turn_page(self, start: int) -> None:
        self.close()
        while self._pages[self._page] <= start:
            self._page += 1

    def _follows_heading(self) -> bool:
        return bool(self.blocks) and self.blocks[-1].kind == HEADING

    def _cut_cost(self) -> float:
        """A cut here would leave a heading, or a line that announces what follows, without what it announces."""
        if not self.blocks:
            return BLOCK_CUT
        if self._follows_heading():
            return AFTER_HEADING_CUT
        last = self._text[self.blocks[-1].end - 1]
        return AFTER_COLON_CUT if last in ":：" else BLOCK_CUT
