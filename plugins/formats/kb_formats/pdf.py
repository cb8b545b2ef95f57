"""PDF: every line of every page, with page numbers, and headings where the layout shows them."""

from __future__ import annotations

import re
from typing import Any

from kb_formats.native import described, read
from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed, NoText

_HEADING = re.compile(r"^(#{1,6}) +(\S.*)$", re.MULTILINE)
_MARKS = re.compile(r"[\\*_`]+")
# The end of a line inside a word: a soft hyphen, or whatever stands for one, or a hyphen between small letters.
_SOFT_BREAK = re.compile(r"[\u00ad\u0002\ufffe]\n")
_HYPHEN_BREAK = re.compile(r"(?<=[a-zà-ÿа-я])-\n(?=[a-zà-ÿа-я])")
_LOOK_AHEAD = 12
# Chinese and Japanese letters, between which a layout may put spaces that no reader sees.
_SPACED = re.compile(
    r"(?<=[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]) (?=[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])"
)
_LETTER = re.compile(r"[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def pdf(data: bytes, name: str) -> Extracted:
    """The pages' text in order.

    The native reader's Markdown knows headings but not pages, and its pages are plain text; a heading is therefore marked
    where its line stands on a page.
    """
    try:
        result = read(data, "application/pdf", "PDF", pages=True)
    except ExtractionFailed:
        # Where one damaged page keeps all of them from being told apart, their text may still be there.
        result = read(data, "application/pdf", "PDF")
    pages = [
        (int(page["page_number"]), _clean(str(page["content"]))) for page in result.pages or ()
    ]
    if sum(len(text) for _, text in pages) < len(result.content) // 2:
        # Text outside a page's visible part belongs to no page for the native reader.
        return _whole(result)
    if not any(text for _, text in pages):
        raise NoText("the PDF holds no text: its pages are blank, or images of text")
    headings = [(level, _bare(title)) for level, title in _HEADING.findall(result.content)]
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    offset = 0
    marked = False
    for number, text in pages:
        if not text:
            continue
        text, headings, found = _mark(text, headings)
        marked = marked or found
        starts.append((offset, number))
        parts.append(text)
        offset += len(text) + 2
    title, metadata = described(result.metadata)
    metadata["page_count"] = int(result.metadata.get("page_count") or len(pages))
    return Extracted(
        "\n\n".join(parts),
        media="pdf",
        title=title,
        metadata=metadata,
        markdown=marked,
        pages=tuple(starts),
    )


def _whole(result: Any) -> Extracted:
    """The document as the native reader's Markdown, when its pages lack most of it."""
    title, metadata = described(result.metadata)
    single = int(result.metadata.get("page_count") or 0) == 1
    text = result.content.strip()
    return Extracted(
        text,
        media="pdf",
        title=title,
        metadata=metadata,
        markdown=True,
        pages=((0, 1),) if single else (),
    )


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    text = _HYPHEN_BREAK.sub("", _SOFT_BREAK.sub("", text))
    lines = [_unspaced(line.strip()) for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _unspaced(line: str) -> str:
    """A line without the spaces between Chinese or Japanese letters, where most of them have one."""
    if line.isascii() or len(_SPACED.findall(line)) * 2 < len(_LETTER.findall(line)) - 1:
        return line
    return _SPACED.sub("", line)


def _bare(title: str) -> str:
    return " ".join(_MARKS.sub("", title).split())


def _mark(text: str, headings: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]], bool]:
    """The page with those headings that are lines of it; and the headings that are left for later pages."""
    lines = text.split("\n")
    left = headings
    for number, line in enumerate(lines):
        bare = " ".join(line.split())
        # A heading of two lines is never found; looking a little further keeps it from hiding all that follow.
        place = next(
            (index for index, (_, title) in enumerate(left[:_LOOK_AHEAD]) if title == bare), None
        )
        if place is not None:
            lines[number] = f"\n{left[place][0]} {bare}\n"
            left = left[place + 1 :]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), left, len(left) < len(headings)
