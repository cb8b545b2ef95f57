"""What other plugins may use: the folder store, and verified reading of stored files."""

from __future__ import annotations

from kb_files.integrity import (
    CHUNK,
    FILE,
    WHAT_TO_DO,
    Integrity,
    chunk_damaged,
    forget,
    is_changed,
    named_document,
)
from kb_files.local import LocalFiles

__all__ = [
    "CHUNK",
    "FILE",
    "WHAT_TO_DO",
    "Integrity",
    "LocalFiles",
    "chunk_damaged",
    "forget",
    "is_changed",
    "named_document",
]
