"""How a hit looks: with colour, links and a bar in a terminal, plain in a pipe."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kb_text.api import Text

from kb_framework.api.cli import harmless
from kb_framework.api.messages import plural
from kb_search.snippet import Matcher

_BAR = 10
_INDENT = "   "
_WIDEST = 100
_PLACE = re.compile(r"#(?:L(?P<line>\d+)|page=(?P<page>\d+))")


class Style(NamedTuple):
    """The codes of a terminal, empty without colours; `layout` is for a terminal with colours or without."""

    bold: str = ""
    dim: str = ""
    mark: str = ""
    plain: str = ""
    layout: bool = False

    @property
    def colours(self) -> bool:
        return bool(self.plain)


def style() -> Style:
    if not sys.stdout.isatty():
        return Style()
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Style(layout=True)
    return Style("\033[1m", "\033[2m", "\033[1;33m", "\033[0m", layout=True)


def hit_block(
    hit: Mapping[str, Any],
    look: Style,
    matcher: Matcher,
    best: float,
    width: int,
    link: str | None = None,
) -> str:
    """A hit in a few lines: title, place, headings, snippet."""
    title = _line(hit["title"])
    place = place_of(hit)
    headings = [_line(heading) for heading in hit["heading_path"]]
    snippet = _without_headings(_line(hit["snippet"] or ""), [title, *headings])
    heading = " › ".join(headings[1:] if headings[:1] == [title] else headings)
    if not look.layout:
        lines = [f"{hit['rank']}. {title}  {place}", heading, snippet]
        return "\n".join([lines[0], *(_INDENT + line for line in lines[1:] if line)])
    head = f"{look.bold}{hit['rank']}. {_marked(title, matcher, look, look.bold)}{look.plain}"
    lines = [f"{head}  {_bar(hit['score'], best, look)}"]
    shown = f"{look.dim}{place}{look.plain}"
    lines.append(_INDENT + (f"\033]8;;{link}\033\\{shown}\033]8;;\033\\" if link else shown))
    if heading:
        lines.append(f"{_INDENT}{look.dim}{heading}{look.plain}")
    lines += [
        _INDENT + _marked(line, matcher, look)
        for line in wrapped(snippet, min(width, _WIDEST) - len(_INDENT))
    ]
    return "\n".join(lines)


def _without_headings(snippet: str, shown: list[str]) -> str:
    """The snippet without the Markdown headings at its start that are shown above it."""
    while (marks := len(snippet) - len(snippet.lstrip("#"))) and snippet[marks : marks + 1] == " ":
        rest = snippet[marks + 1 :]
        found = next((name for name in shown if name and f"{rest} ".startswith(f"{name} ")), None)
        if found is None:
            break
        snippet = rest[len(found) :].lstrip()
    return snippet


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
        wide = sum(
            2 if unicodedata.east_asian_width(character) in "WF" else 1
            for character in piece.rstrip()
        )
        if used and used + wide > width:
            lines.append(line.rstrip())
            line, used = "", 0
        line += piece
        used += wide + len(piece) - len(piece.rstrip())
    return [*lines, line.rstrip()] if line.strip() else lines


def facet_lines(facets: Mapping[str, Any]) -> list[str]:
    count = facets["documents"]
    lines = [f"{plural(count, 'document')} {'matches' if count == 1 else 'match'}"]
    for name in ("doc_type", "lang", "media", "tag"):
        values = ", ".join(
            f"{item['value'] or 'none'} {item['count']}" for item in facets[name][:8]
        )
        more = f", and {len(facets[name]) - 8} more" if len(facets[name]) > 8 else ""
        lines.append(f"{_INDENT}{name}: {values or 'none'}{more}")
    return lines


def trace_lines(trace: Mapping[str, Any], hits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the shown hits stand in the list of each retriever, and the time; `--json` has the whole trace."""
    spent = trace["milliseconds"]
    lists = trace["lists"]
    lines = [
        f"trace: {len(trace['fusion'])} candidates in {spent['total']:.0f} ms; --json shows all of them"
    ]
    for name, found in lists.items():
        time = f" in {spent[name]:.0f} ms" if name in spent else ""
        lines.append(f"{_INDENT}{name}: {len(found)} found{time}")
    lines += [f"{_INDENT}{name}: {reason}" for name, reason in trace["degraded"].items()]
    places = {name: {item["chunk_id"]: item for item in found} for name, found in lists.items()}
    for hit in hits:
        item = {
            name: found[hit["chunk_id"]]
            for name, found in places.items()
            if hit["chunk_id"] in found
        }
        told = ", ".join(
            f"{name} {place['rank']} ({place['score']:.3g})" for name, place in item.items()
        )
        lines.append(f"{_INDENT}{hit['rank']}. {hit['score']:.3g}: {told or 'in no list'}")
    return lines
