"""MCP tools: notes, uploads, documents, tags."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import Field

from kb_framework.client import Engine
from kb_framework.errors import InvalidInput

Tags = Annotated[list[str] | None, Field(description="Tags to give the document.")]


def add_note(
    engine: Engine,
    text: Annotated[str, Field(description="The note, in Markdown.")],
    title: Annotated[str | None, Field(description="By default the first line.")] = None,
    tags: Tags = None,
    doc_type: str | None = None,
    metadata: dict[str, Any] | None = None,
    source_ref: Annotated[
        str | None, Field(description="Where it is from, such as an address; hits cite it.")
    ] = None,
    source_title: Annotated[str | None, Field(description="The title of the source.")] = None,
) -> dict[str, Any]:
    """Save a note as a new document, searchable at once."""
    source = {"source_ref": source_ref, "source_title": source_title}
    return engine.add_note(
        text, title=title, tags=tags, doc_type=doc_type, metadata=metadata, **source
    )


def upload_start(
    engine: Engine,
    filename: Annotated[str, Field(description="With its ending, which tells the format.")],
    tags: Tags = None,
    doc_type: str | None = None,
    title: str | None = None,
) -> dict[str, Any]:
    """Begin uploading a file. Then send its content with kb_upload_append, in one or more parts, and call kb_upload_finish."""
    return engine.start_upload(filename, tags=tags, doc_type=doc_type, title=title)


def upload_append(
    engine: Engine,
    upload_id: str,
    content: Annotated[
        str, Field(description="The next part: text, or base64 if `base64` is true.")
    ],
    offset: Annotated[int, Field(description="How many bytes were received so far.")] = 0,
    base64: Annotated[bool, Field(description="For files that are not text.")] = False,
) -> dict[str, Any]:
    """Send the next part of an upload. Answers with `received`, the offset of the part after it."""
    return engine.append_upload(upload_id, offset, _bytes(content) if base64 else content.encode())


def _bytes(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        raise InvalidInput("content: is not base64", field="content") from None


def upload_finish(engine: Engine, upload_id: str) -> dict[str, Any]:
    """Turn the uploaded parts into a document."""
    return engine.finish_upload(upload_id)


def get_document(
    engine: Engine,
    document_id: int,
    content: Annotated[bool, Field(description="Also give its chunks, with their text.")] = False,
) -> dict[str, Any]:
    """One document: title, tags, metadata; with `content`, its text in chunks."""
    document = engine.get_document(document_id)
    return {**document, "chunks": engine.get_document_chunks(document_id)} if content else document


def list_documents(
    engine: Engine,
    tags: Annotated[
        list[str] | None, Field(description="Only documents that have ALL of these tags.")
    ] = None,
    doc_type: str | None = None,
    q: Annotated[str | None, Field(description="Part of the title or path.")] = None,
    missing: Annotated[
        bool, Field(description="Those whose files vanished from a synced folder.")
    ] = False,
    page: int = 1,
    per_page: int = 20,
) -> dict[str, Any]:
    """List documents, a page at a time. To find text, search instead."""
    return engine.list_documents(
        tags=tags, doc_type=doc_type, q=q, missing=missing or None, page=page, per_page=per_page
    )


def tags(engine: Engine, page: int = 1, per_page: int = 100) -> dict[str, Any]:
    """The tags in use, each with how many documents have it."""
    return engine.list_tags(page=page, per_page=per_page)
