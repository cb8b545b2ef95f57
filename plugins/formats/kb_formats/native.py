"""The one door to the native document reader: its settings, and its errors in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kb_framework.errors import ExtractionFailed

_ENCRYPTED = re.compile(r"password|encrypt|PasswordRequired", re.IGNORECASE)
_TOO_MUCH = re.compile(r"security limit|too large|exceed|bomb|limit", re.IGNORECASE)
_CAUSES = (
    (
        re.compile(r"EOCD|invalid zip|not a zip|zip error|local file header", re.IGNORECASE),
        "its container is incomplete",
    ),
    (
        re.compile(r"deflate|decompress|inflate|checksum|crc", re.IGNORECASE),
        "its compressed data is broken",
    ),
    (re.compile(r"not found|missing", re.IGNORECASE), "a part of it is missing"),
    (re.compile(r"magic|invalid .{0,99}header|wrong", re.IGNORECASE), "it does not begin like one"),
    (re.compile(r"xml|utf-?8|syntax", re.IGNORECASE), "its inner text is malformed"),
)


def read(data: bytes, mime: str, noun: str, *, pages: bool = False) -> Any:
    """What the native reader makes of the bytes; ExtractionFailed in plain words where it cannot."""
    import kreuzberg

    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,  # pyright: ignore[reportCallIssue] - missing in the stubs
        output_format="markdown",
        pages=kreuzberg.PageConfig(extract_pages=True) if pages else None,
        # Repeated first lines of pages would else be taken for headers and dropped.
        content_filter=kreuzberg.ContentFilterConfig(
            include_headers=True,
            include_footers=True,
            include_watermarks=True,
            strip_repeating_text=False,
        ),
    )
    try:
        return kreuzberg.extract_bytes_sync(data, mime, config)
    except MemoryError:
        raise
    except Exception as error:
        raise failure(str(error), noun) from error


def failure(message: str, noun: str) -> ExtractionFailed:
    """A native error message as a sentence that a person understands."""
    if _ENCRYPTED.search(message):
        return ExtractionFailed("the file is password-protected")
    if _TOO_MUCH.search(message):
        return ExtractionFailed(f"the {noun} unpacks to more than is allowed")
    cause = next(
        (words for pattern, words in _CAUSES if pattern.search(message)),
        "it has no readable structure",
    )
    return ExtractionFailed(f"the {noun} is damaged: {cause}")


def described(metadata: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Title and the metadata worth keeping, from what the native reader says about a document."""
    title = str(metadata.get("title") or "").strip()
    kept: dict[str, Any] = {}
    for theirs, ours in (
        ("authors", "authors"),
        ("created_at", "created"),
        ("modified_at", "modified"),
        ("subject", "subject"),
    ):
        value = metadata.get(theirs)
        if isinstance(value, str):
            value = value.strip()
        if value:
            kept[ours] = value if isinstance(value, str) else [str(item) for item in value]
    if title.lower() in ("", "untitled", "slide 1", "unknown", "none"):
        return None, kept
    return " ".join(title.split()), kept
