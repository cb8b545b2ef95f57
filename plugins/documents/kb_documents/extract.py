"""Text and Markdown, in whatever encoding they come."""

from __future__ import annotations

from kb_text.api import decode

from kb_documents import frontmatter
from kb_documents.blocks import HEADING, scan
from kb_framework.api import Extracted

__all__ = ["decode", "markdown", "plain_text"]

# Titles stand at the top: a file without a heading there has none.
_TITLE_WITHIN = 20_000


def plain_text(data: bytes, name: str) -> Extracted:
    return Extracted(decode(data), media="text")


def markdown(data: bytes, name: str) -> Extracted:
    text = decode(data)
    front = frontmatter.read(text)
    if front is None:
        return Extracted(text, media="markdown", title=_first_heading(text, 0), markdown=True)
    title = front.title or _first_heading(text, front.body_start)
    # A file that is nothing but front matter is found by that.
    begin = front.body_start if text[front.body_start :].strip() else 0
    return Extracted(
        text,
        media="markdown",
        title=title,
        tags=front.tags,
        metadata=front.metadata,
        markdown=True,
        body_start=begin,
    )


def _first_heading(text: str, begin: int) -> str | None:
    """The first heading of the highest level that the top of the file has."""
    headings = [
        block
        for block in scan(text[: begin + _TITLE_WITHIN], begin, markdown=True)
        if block.kind == HEADING
    ]
    return min(headings, key=lambda block: block.level).words or None if headings else None
