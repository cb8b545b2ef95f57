"""How a hit looks: with colour, links and a bar in a terminal, plain in a pipe."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from kb_framework.console import harmless
from kb_framework.store.text import Text
from kb_search.snippet import Matcher

_BAR = 10
_INDENT = "   "
_WIDEST = 100
_PLACE = re.compile(r"#(?:L(?P<line>\d+)|page=(?P<page>\d+))")


class Style(NamedTuple):
    """The codes of a terminal; all empty where nobody looks, or nobody wants colour."""

    bold: str = ""
    dim: str = ""
    mark: str = ""
    plain: str = ""

    @property
    def fancy(self) -> bool:
        return bool(self.plain)


def style() -> Style:
    fancy = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style("\033[1m", "\033[2m", "\033[1;33m", "\033[0m") if fancy else Style()


def hit_block(hit: Mapping[str, Any], look: Style, matcher: Matcher, best: float, width: int, link: str | None = None) -> str:
    """A hit in a few lines: title, place, headings, snippet."""
    title = _line(hit["title"])
    place = place_of(hit)
    heading = " › ".join(map(_line, hit["heading_path"]))
    snippet = _line(hit["snippet"] or "")
    if not look.fancy:
        lines = [f"{hit['rank']}. {title}  {place}", heading, snippet]
        return "\n".join([lines[0], *(_INDENT + line for line in lines[1:] if line)])
    head = f"{look.bold}{hit['rank']}. {_marked(title, matcher, look, look.bold)}{look.plain}"
    lines = [f"{head}  {_bar(hit['score'], best, look)}"]
    shown = f"{look.dim}{place}{look.plain}"
    lines.append(_INDENT + (f"\033]8;;{link}\033\\{shown}\033]8;;\033\\" if link else shown))
    if heading:
        lines.append(f"{_INDENT}{look.dim}{heading}{look.plain}")
    lines += [_INDENT + _marked(line, matcher, look) for line in wrapped(snippet, min(width, _WIDEST) - len(_INDENT))]
    return "\n".join(lines)


def place_of(hit: Mapping[str, Any]) -> str:
    """`notes/keys.md:12`, `report.pdf page 4`, `document/3`: what a person would type."""
    path = _line(hit["doc_path"] or f"document/{hit['doc_id']}")
    found = _PLACE.search(hit["citation"][len(hit["doc_path"] or f"document/{hit['doc_id']}") :])
    if not found:
        return path
    return f"{path}:{found['line']}" if found["line"] else f"{path} page {found['page']}"


def _line(text: str) -> str:
    return " ".join(harmless(text).split())


def _bar(score: float, best: float, look: Style) -> str:
    filled = round(_BAR * max(0.0, min(1.0, score / best))) if best > 0 else 0
    return f"{look.mark}{'█' * filled}{look.plain}{look.dim}{'░' * (_BAR - filled)} {score:.3g}{look.plain}"


def _marked(line: str, matcher: Matcher, look: Style, outer: str = "") -> str:
    """The line with the words of the query standing out."""
    parts, place = [], 0
    for begin, end, _ in matcher.find(Text(line)):
        if end > place:
            start = max(begin, place)
            parts += [line[place:start], look.mark, line[start:end], look.plain, outer]
            place = end
    return "".join([*parts, line[place:]])


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many columns, cut between words, or anywhere in text without spaces."""
    lines, line, used = [], "", 0
    for piece in re.findall(r"[^\s\u1100-\uffff]+\s*|\S\s*|\s+", text):
        wide = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in piece.rstrip())
        if used and used + wide > width:
            lines.append(line.rstrip())
            line, used = "", 0
        line += piece
        used += wide + len(piece) - len(piece.rstrip())
    return [*lines, line.rstrip()] if line.strip() else lines


def facet_lines(facets: Mapping[str, Any]) -> list[str]:
    lines = [f"{facets['documents']} documents match"]
    for name in ("doc_type", "lang", "media", "tag"):
        values = ", ".join(f"{item['value'] or 'none'} {item['count']}" for item in facets[name][:8])
        more = f", and {len(facets[name]) - 8} more" if len(facets[name]) > 8 else ""
        lines.append(f"{_INDENT}{name}: {values or 'none'}{more}")
    return lines
