"""Text and Markdown, in whatever encoding they come."""

from __future__ import annotations

import re

from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed

_HEADING = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)


def decode(data: bytes) -> str:
    """Bytes as text: UTF-8 (with or without a mark), UTF-16/32 with one, else the likeliest legacy encoding."""
    if not data.strip():
        raise ExtractionFailed("the file is empty")
    for mark, encoding in ((b"\xff\xfe\x00\x00", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return _clean(data.decode(encoding, errors="replace"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = None if b"\x00" in data else from_bytes(data).best()
        if best is None:
            raise ExtractionFailed("the file is neither text nor a known format") from None
        text = str(best)
    if "\x00" in text:
        raise ExtractionFailed("the file is binary, not text")
    return _clean(text)


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    if not text.strip():
        raise ExtractionFailed("the file is empty")
    return text


def plain_text(data: bytes, name: str) -> Extracted:
    return Extracted(decode(data), media="text")


def markdown(data: bytes, name: str) -> Extracted:
    text = decode(data)
    heading = _HEADING.search(text)
    return Extracted(text, media="markdown", title=heading.group(1) if heading else None, markdown=True)
