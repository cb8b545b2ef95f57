"""Lists of documents: a page of those that filters select."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from kb_documents.finding import is_near
from kb_documents.list_models import ListIn
from kb_documents.missing import SINCE
from kb_documents.models import Document, DocumentPage
from kb_framework.api import Actor
from kb_framework.api.nesting import PROBLEM
from kb_framework.api.parts import Selector, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import document_tags, documents


class DocumentLists:
    def __init__(self, store: Store, selector: Selector) -> None:
        self._store = store
        self._selector = selector

    def list(self, asked: ListIn, actor: Actor) -> DocumentPage:
        """Return a page of documents; where nothing matches, also why."""
        page = asked.wanted
        selection = self._selector.named(asked, "documents")
        with self._store.read(actor.organization_id) as tx:
            here = [
                tx.owns(documents),
                *self._selector.visible(selection, actor, tx, "documents"),
                *([is_near(asked.q)] if asked.q else []),
            ]
            total = tx.scalar(sa.select(sa.func.count()).select_from(documents).where(*here))
            # Ids are sorted alone: a sort of whole rows reads and keeps the metadata of every document.
            query = sa.select(documents.c.id).where(*here).order_by(*_order(asked.sort))
            ids = list(tx.connection.scalars(page.cut(query))) if total else []
            by_id = {item.id: item for item in read_documents(tx, among(documents.c.id, ids))}
            beside = ("q",) if asked.q else ()
            hint = None if total else self._selector.why_empty(tx, selection.filters, beside=beside)
        return DocumentPage(
            data=[by_id[number] for number in ids], meta=page.meta(total), hint=hint
        )


def _order(sort: str) -> list[sa.ColumnElement[Any]]:
    column = documents.c[sort.removeprefix("-")]
    return [column.desc() if sort.startswith("-") else column, documents.c.id]


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
