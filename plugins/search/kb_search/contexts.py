"""What chunks stand under: the title and headings that each was embedded with."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import sqlalchemy as sa

from kb_framework.store.sql import among
from kb_framework.store.store import Tx
from kb_framework.store.tables import chunks, documents

_QUERY = sa.select(chunks.c.seq, documents.c.title, chunks.c.metadata).join(documents, documents.c.id == chunks.c.document_id)


def contexts(numbers: Iterable[int], tx: Tx) -> Mapping[int, Hashable]:
    """The context of each chunk; those that have the same one stand beside each other, in one document or in several."""
    rows = tx.execute(_QUERY.where(among(chunks.c.seq, numbers)))
    return {seq: (title, *(metadata.get("heading_path") or ())) for seq, title, metadata in rows}
