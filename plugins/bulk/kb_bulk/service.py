"""Bulk operations on the host's pipelines."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from kb_bulk.models import BulkResult, Preview, body_model
from kb_framework.api import Actor, Over
from kb_framework.mutation import Mutation
from kb_framework.plugins import Plugins
from kb_framework.selection import SCOPES, Selector
from kb_framework.store.store import Store
from kb_framework.store.tables import chunks, documents
from kb_framework.validation import validate

_SAMPLE = 10
_SHOWN: dict[Over, list[sa.ColumnElement[Any]]] = {
    "documents": [documents.c.id, documents.c.title, documents.c.doc_type],
    "chunks": [chunks.c.id, chunks.c.document_id, documents.c.title, sa.func.substr(chunks.c.content, 1, 200).label("text")],
}


class BulkService:
    def __init__(self, store: Store, plugins: Plugins, selector: Selector, mutation: Mutation) -> None:
        self._store = store
        self._plugins = plugins
        self._selector = selector
        self._mutation = mutation

    def run(self, kind: str, body: Any, actor: Actor) -> BulkResult:
        selection = self._selector.given(body, self._mutation.kind(kind).over)
        result = self._mutation.run(
            kind,
            body,
            self._selector.condition(selection),
            actor,
            selection=selection.filters,
            force=body.force,
        )
        assert result.job_id is not None
        return BulkResult(
            job_id=result.job_id,
            status=result.status,  # type: ignore[arg-type]
            matched=result.matched,
            succeeded=result.succeeded,
            failed=result.failed,
            errors=result.errors,
        )

    def preview(self, body: Any, actor: Actor) -> Preview:
        """What an operation would touch; its fields are checked as they would be then."""
        kind = self._mutation.kind(body.operation)
        given = body.model_dump(exclude={"operation"}, exclude_none=True)
        operation = validate(body_model(self._plugins, kind), given)
        selection = self._selector.given(operation, kind.over)
        where = self._selector.condition(selection)
        with self._store.read(actor.organization_id) as tx:
            share = self._mutation.share(tx, kind, where, actor, selection.filters)
            columns = _SHOWN[kind.over]
            few = self._mutation.matching(tx, kind, columns, where, actor, selection.filters)
            sample = tx.rows(few.order_by(SCOPES[kind.over].key).limit(_SAMPLE))
        return Preview(
            operation=kind.name,
            matched=share.matched,
            total=share.total,
            percent=share.percent,
            threshold=share.threshold,
            exceeds=share.exceeds,
            sample=sample,  # type: ignore[arg-type]
        )
