"""Missing documents: their files vanished from a synced folder. They are hidden, and come back with their files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from kb_documents.tables import followed, sources
from kb_framework.api.models import Body
from kb_framework.api.parts import Tx
from kb_framework.api.tables import chunks, document_tags, documents
from kb_framework.api.times import now

Condition = sa.ColumnElement[bool]
# Beside the host's columns of `documents`, which do not have it.
SINCE = sa.literal_column("documents.missing_since", followed.c.missing_since.type).label(
    "missing_since"
)
_MISSING = followed.c.missing_since.is_not(None)


class MarkMissing(Body):
    """The mutation that makes documents missing."""

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        tx.execute(
            sa.update(followed).where(followed.c.id.in_(documents)).values(missing_since=now())
        )


def missing_ids(tx: Tx) -> sa.Select:
    return sa.select(followed.c.id).where(tx.owns(followed), _MISSING)


def is_missing(value: bool) -> Condition:
    """The selection filter."""
    ids = sa.select(followed.c.id).where(_MISSING)
    return documents.c.id.in_(ids) if value else documents.c.id.not_in(ids)


def narrow_selection(filters: Mapping[str, Any], purpose: str, tx: Tx) -> Condition | None:
    """Leave missing documents out, unless the selection names them by id or asks for missing ones.

    A mutation without a selection acts on documents that a service chose.
    """
    if "missing" in filters or "document_ids" in filters or (purpose == "mutation" and not filters):
        return None
    # Chunks that are read by id are few: the condition costs them less than the statement that asks whether it is needed.
    few = purpose == "read" and "chunk_ids" in filters
    return documents.c.id.not_in(missing_ids(tx)) if few or _any(tx) else None


def not_missing(tx: Tx) -> Condition:
    """The condition that a tag link is that of a document which is found."""
    return document_tags.c.document_id.not_in(missing_ids(tx)) if _any(tx) else sa.true()


def narrow_retrieval(tx: Tx) -> Condition | None:
    # Over chunks alone, so that a search need not join documents. Without missing documents a search stays unfiltered.
    return chunks.c.document_id.not_in(missing_ids(tx)) if _any(tx) else None


def _any(tx: Tx) -> bool:
    return (
        tx.once("missing documents", lambda: tx.scalar(sa.select(sa.exists(missing_ids(tx)))))
        is True
    )


def revive(tx: Tx, document_id: int, source: str | None) -> bool:
    """Make a document found again, because its content or path came back from `source`; return whether it was missing.

    Its other sources are forgotten: none of them existed while it was missing.
    """
    here = followed.c.id == document_id
    # Asked first: an update of a document moves the corpus revision, which makes cursors stale.
    if tx.scalar(sa.select(followed.c.missing_since).where(here)) is None:
        return False
    tx.execute(sa.update(followed).where(here).values(missing_since=None))
    others = (
        tx.owns(sources),
        sources.c.document_id == document_id,
        sources.c.source != (source or ""),
    )
    tx.execute(sa.delete(sources).where(*others))
    return True
