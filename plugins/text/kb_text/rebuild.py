"""Rebuilding the full text from documents and chunks."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api import ChunkText
from kb_framework.api.parts import Tx
from kb_framework.api.tables import chunks, documents, organizations
from kb_text.analysis import indexed_words

_BATCH = 1000


def rebuild_text(tx: Tx) -> None:
    """Create the full text of every organization again from documents and chunks."""
    tx.engine.drop_text(tx.connection)
    tx.engine.create_text(tx.connection)
    for owner in list(tx.connection.scalars(sa.select(organizations.c.id))):
        after = 0
        while done := add_missing_text(tx, owner, after, _BATCH):
            after = done[-1]


def add_missing_text(tx: Tx, organization_id: str, after: int, limit: int) -> list[int]:
    """Index chunks that an organization's full text lacks: those numbered above `after`, in order; return their numbers."""
    query = sa.select(chunks.c.seq, chunks.c.content, chunks.c.metadata, documents.c.title)
    query = query.join(documents, documents.c.id == chunks.c.document_id)
    lacking = ~tx.text_index(organization_id).has(chunks.c.seq)
    query = query.where(chunks.c.organization_id == organization_id, chunks.c.seq > after, lacking)
    found = tx.execute(query.order_by(chunks.c.seq).limit(limit)).all()
    rows = [
        (row.seq, indexed_words(row.title, ChunkText(row.content, row.metadata))) for row in found
    ]
    tx.text_index(organization_id).add(rows)
    return [row.seq for row in found]
