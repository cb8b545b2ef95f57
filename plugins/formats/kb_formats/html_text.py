"""HTML as Markdown."""

from __future__ import annotations

import html as html_entities
import re

from kb_formats.charset import decode_markup
from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed

# Each part ends where the next of its kind begins, so that a thousand unclosed ones are not read a thousand times.
_TITLE = re.compile(
    r"<title\b[^<>]*+>((?:(?!</?title\b).)*+)</title\s*+>", re.IGNORECASE | re.DOTALL
)
_INVISIBLE = re.compile(
    r"<(script|style|noscript|template)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<[!?/]?[A-Za-z][^<>]*>")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_DATA_IMAGE = re.compile(r"!\[([^\[\]]*+)\]\(data:(?:[^()]|\((?!data:))*+\)")


def html(data: bytes, name: str) -> Extracted:
    """A page's text as Markdown, with its title."""
    source = decode_markup(data)
    if not source.strip():
        raise ExtractionFailed("the file is empty")
    found = _TITLE.search(source)
    title = (
        " ".join(html_entities.unescape(without_tags(found.group(1), "")).split())
        if found
        else None
    )
    text = to_markdown(source)
    if not text and title:
        text = f"# {title}"
    return Extracted(text, media="html", title=title or None, markdown=True)


def to_markdown(source: str) -> str:
    """The Markdown of an HTML text; where the converter gives up, its words without tags."""
    from html_to_markdown import convert

    try:
        text = convert(source).content or ""
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the converter's own errors; the words are there all the same
        text = ""
    text = _DATA_IMAGE.sub(r"\1", _FRONT_MATTER.sub("", text, count=1)).strip()
    return text or _words(source)


def without_tags(source: str, instead: str, tag: re.Pattern[str] = _TAG) -> str:
    """The text without comments and tags. A comment that is never closed is left as text."""
    parts, place = [], 0
    while (start := source.find("<!--", place)) >= 0 and (
        end := source.find("-->", start + 4)
    ) >= 0:
        parts.append(source[place:start])
        place = end + 3
    return instead.join(tag.sub(instead, part) for part in (*parts, source[place:]))


def _words(source: str) -> str:
    text = html_entities.unescape(without_tags(_INVISIBLE.sub("", source), "\n"))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
