"""What a document's metadata holds of its source, and of the last reading of its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb_documents.models import FileFields, NoteIn
from kb_documents.prepare import HOLDS, NOT_READ, Ready
from kb_documents.reading import TRUNCATED
from kb_framework.api import ChunkText
from kb_framework.api.chunks import SOURCE


def lasting(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a document's metadata without what the last reading of its file said about itself."""
    return {
        name: value for name, value in metadata.items() if name not in (TRUNCATED, HOLDS, *NOT_READ)
    }


def source_of(fields: NoteIn | FileFields) -> dict[str, str]:
    return {name: value for name in SOURCE if (value := getattr(fields, name)) is not None}


def with_source(ready: Ready, values: Mapping[str, Any]) -> list[ChunkText]:
    """Return the chunks, each with the source that its document has."""
    source = {
        name: value for name in SOURCE if isinstance(value := values["metadata"].get(name), str)
    }
    return (
        [piece._replace(metadata={**piece.metadata, **source}) for piece in ready.pieces]
        if source
        else ready.pieces
    )
