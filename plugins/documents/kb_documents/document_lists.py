"""Documents as they are shown."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from kb_documents.missing import SINCE
from kb_documents.models import Document
from kb_framework.nesting import PROBLEM
from kb_framework.storage.sql import among
from kb_framework.storage.store import Tx
from kb_framework.storage.tables import document_tags, documents


def read_documents(tx: Tx, where: sa.ColumnElement[bool]) -> list[Document]:
    """Return the organization's documents that match, with their tags, in no order."""
    rows = tx.rows(sa.select(documents, SINCE).where(tx.owns(documents), where))
    tags: dict[int, list[str]] = {row["id"]: [] for row in rows}
    links = sa.select(document_tags.c.document_id, document_tags.c.tag)
    links = links.where(among(document_tags.c.document_id, list(tags)))
    for number, tag in tx.execute(links.order_by(document_tags.c.tag)):
        tags[number].append(tag)
    return [
        Document.model_validate(
            {**row, "metadata": _shown(row["metadata"]), "tags": tags[row["id"]]}
        )
        for row in rows
    ]


def _shown(metadata: Any) -> dict[str, Any]:
    return (
        metadata
        if isinstance(metadata, dict)
        else {PROBLEM: "this is not a JSON object, so it cannot be shown"}
    )
