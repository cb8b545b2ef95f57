"""Conditions on documents: the filter that a person asks with, and the narrowing that applies whether asked or not."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_framework.api.tables import documents
from kb_legalhold.tables import legal_holds


def on_hold(value: bool) -> sa.ColumnElement[bool]:
    held = sa.select(legal_holds.c.document_id)
    return documents.c.id.in_(held) if value else documents.c.id.not_in(held)


def not_sealed(tx: Tx) -> sa.ColumnElement[bool] | None:
    """The condition that no hold seals the document; None where nothing is sealed, and nothing need be looked up."""
    if tx.scalar(sa.select(legal_holds.c.id).where(legal_holds.c.sealed).limit(1)) is None:
        return None
    return documents.c.id.not_in(sa.select(legal_holds.c.document_id).where(legal_holds.c.sealed))
