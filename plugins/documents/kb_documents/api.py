"""What other plugins may import: writing the rows of documents and chunks, with full text and vectors kept in step; counts."""

from __future__ import annotations

from kb_documents.counts import count_values
from kb_documents.document_rows import (
    Content,
    add_tags,
    content_hash,
    delete_chunks,
    delete_documents,
    has_all_tags,
    insert_archived,
    insert_chunks,
    insert_document,
    insert_empty,
    remove_tags,
    replace_content,
    touch,
)

__all__ = [
    "Content",
    "add_tags",
    "content_hash",
    "count_values",
    "delete_chunks",
    "delete_documents",
    "has_all_tags",
    "insert_archived",
    "insert_chunks",
    "insert_document",
    "insert_empty",
    "remove_tags",
    "replace_content",
    "touch",
]
