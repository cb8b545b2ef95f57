"""What other plugins may import: writing rows of documents and chunks, with full text and vectors kept in step; counts; names.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_documents.counts import count_values as count_values
    from kb_documents.document_rows import Content as Content
    from kb_documents.document_rows import add_tags as add_tags
    from kb_documents.document_rows import content_hash as content_hash
    from kb_documents.document_rows import delete_chunks as delete_chunks
    from kb_documents.document_rows import delete_documents as delete_documents
    from kb_documents.document_rows import has_all_tags as has_all_tags
    from kb_documents.document_rows import insert_archived as insert_archived
    from kb_documents.document_rows import insert_chunks as insert_chunks
    from kb_documents.document_rows import insert_document as insert_document
    from kb_documents.document_rows import insert_empty as insert_empty
    from kb_documents.document_rows import remove_tags as remove_tags
    from kb_documents.document_rows import replace_content as replace_content
    from kb_documents.document_rows import touch as touch
    from kb_documents.filenames import printable as printable
    from kb_documents.filenames import real_path as real_path

__getattr__ = lazily(
    __name__,
    {
        "kb_documents.counts": "count_values",
        "kb_documents.document_rows": (
            "Content add_tags content_hash delete_chunks delete_documents has_all_tags "
            "insert_archived insert_chunks insert_document insert_empty remove_tags "
            "replace_content touch"
        ),
        "kb_documents.filenames": "printable real_path",
    },
)
