"""What is already there for a file that comes."""

from __future__ import annotations

import sqlalchemy as sa
from kb_files.api import CHUNK

from kb_documents.ingest_items import Known
from kb_documents.prepare import Incoming
from kb_documents.tables import followed, sources
from kb_framework.api.parts import Tx
from kb_framework.api.tables import chunks, damage

# Built once: they are executed for every file.
_OF_SOURCE = sa.select(sources.c.document_id, sources.c.content_hash, sources.c.title).where(
    sources.c.organization_id == sa.bindparam("owner"), sources.c.source == sa.bindparam("place")
)
_ELSEWHERE = (
    sa.select(sources.c.source)
    .where(
        sources.c.organization_id == sa.bindparam("owner"),
        sources.c.document_id == sa.bindparam("document"),
        sources.c.source != sa.bindparam("place"),
    )
    .limit(1)
)
_OF_CONTENT = (
    sa.select(followed.c.id)
    .where(
        followed.c.organization_id == sa.bindparam("owner"),
        followed.c.content_hash == sa.bindparam("digest"),
        followed.c.path.is_not(None),
    )
    .order_by(followed.c.missing_since.is_not(None), followed.c.id)
    .limit(1)
)
_HURT = (
    sa.select(damage.c.key)
    .where(damage.c.kind == CHUNK, damage.c.document_id == sa.bindparam("document"))
    .limit(1)
)
_IS_MISSING = sa.select(followed.c.missing_since).where(followed.c.id == sa.bindparam("document"))


def known_of(tx: Tx, incoming: Incoming) -> Known:
    """Return what is there for a file. Notes are not files: two people may note the same."""
    if incoming.is_note:
        return Known()
    owner, digest = tx.organization_id, incoming.content_hash
    before = (None, None)
    if incoming.source is not None:
        row = tx.execute(_OF_SOURCE, {"owner": owner, "place": incoming.source}).first()
        if row is not None:
            before = (row.title, row.document_id)
            if row.content_hash == digest:
                return _same(tx, row.document_id, before)
            # A document that also came from elsewhere stays: a change in one place must not change the other.
            # No other source of a missing document exists.
            here = {"owner": owner, "document": row.document_id, "place": incoming.source}
            missing = tx.execute(_IS_MISSING, {"document": row.document_id}).scalar() is not None
            if missing or tx.execute(_ELSEWHERE, here).first() is None:
                return Known(None, row.document_id, *before)
    return _same(tx, tx.execute(_OF_CONTENT, {"owner": owner, "digest": digest}).scalar(), before)


def _same(tx: Tx, document_id: int | None, before: tuple[str | None, int | None]) -> Known:
    """Return a document with this content. One with a damaged chunk is read again."""
    if document_id is not None and tx.execute(_HURT, {"document": document_id}).first() is not None:
        return Known(None, document_id, *before)
    return Known(document_id, None, *before)


def chunk_hashes(tx: Tx, document_id: int | None) -> set[str]:
    if document_id is None:
        return set()
    return set(
        tx.connection.scalars(
            sa.select(chunks.c.content_hash).where(chunks.c.document_id == document_id)
        )
    )


def is_copy(tx: Tx, incoming: Incoming, document_id: int) -> bool:
    here = {"owner": tx.organization_id, "document": document_id, "place": incoming.source}
    return incoming.source is not None and tx.execute(_ELSEWHERE, here).first() is not None
