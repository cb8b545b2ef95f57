"""Bulk operations on the host's pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from kb_bulk.models import BulkResult, PreviewOut, body_model
from kb_bulk.plans import Once, genuine, issue
from kb_bulk.settings import BulkSettings
from kb_framework.api import Actor, MutationKind, Over
from kb_framework.api.models import validate
from kb_framework.api.mutation import fingerprint
from kb_framework.api.parts import Mutation, Plugins, Selector, Store
from kb_framework.api.selection import SCOPES
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import InvalidInput

_SAMPLE = 10
_SHOWN: dict[Over, list[sa.ColumnElement[Any]]] = {
    "documents": [documents.c.id, documents.c.title, documents.c.doc_type],
    "chunks": [
        chunks.c.id,
        chunks.c.document_id,
        documents.c.title,
        sa.func.substr(chunks.c.content, 1, 200).label("text"),
    ],
}


class BulkService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        selector: Selector,
        mutation: Mutation,
        settings: BulkSettings,
    ) -> None:
        self._store = store
        self._plan_seconds = settings.plan_seconds
        self._plugins = plugins
        self._selector = selector
        self._mutation = mutation

    def run(self, kind: MutationKind, body: Any, actor: Actor) -> BulkResult:
        selection = self._selector.given(body, kind.over)
        result = self._mutation.run(
            kind.name,
            body,
            lambda tx: self._selector.condition(selection, tx, kind.over),
            actor,
            selection=selection.filters,
            force=body.force,
            promise=self._promised(kind, body, actor) if body.plan is not None else None,
        )
        assert result.job_id is not None
        return BulkResult(
            job_id=result.job_id,
            status=result.status,  # type: ignore[arg-type]
            matched=result.matched,
            succeeded=result.succeeded,
            failed=result.failed,
            errors=result.errors,
            hint=None if result.matched else self._why_empty(kind.over, selection.filters, actor),
        )

    def _why_empty(self, over: Over, filters: Mapping[str, Any], actor: Actor) -> str | None:
        with self._store.read(actor.organization_id) as tx:
            return self._selector.why_empty(tx, filters, over)

    def _promised(self, kind: MutationKind, body: Any, actor: Actor) -> Once:
        """The plan that a body names, if it is genuine and the rest of the body says the same."""
        with self._store.read(actor.organization_id) as tx:
            plan = genuine(tx, body.plan, kind, actor)
        planned = validate(type(body), plan.fields)
        for name in type(body).model_fields:
            if name not in {"plan", "force"} and getattr(body, name) != getattr(planned, name):
                raise InvalidInput(f"{name}: is not what the plan says", field=name)
        return Once(plan, kind, actor)

    def preview(self, kinds: Iterable[MutationKind], body: Any, actor: Actor) -> PreviewOut:
        """What an operation would touch; its fields are checked as they would be then."""
        kind = next(kind for kind in kinds if kind.name == body.operation)
        given = body.model_dump(exclude={"operation"}, exclude_none=True)
        operation = validate(body_model(self._plugins, kind), given)
        selection = self._selector.given(operation, kind.over)
        with self._store.read(actor.organization_id) as tx:
            where = self._selector.condition(selection, tx, kind.over)
            key = SCOPES[kind.over].key
            matching = self._mutation.matching(
                tx, kind, [key], where, actor, selection.filters
            ).order_by(key)
            found = fingerprint(tx, matching)
            share = self._mutation.share(tx, kind, found.matched, actor, selection.filters)
            foreseen = self._mutation.foreseen(
                tx, kind, operation, where, actor, selection.filters, found.matched
            )
            sample = tx.rows(matching.with_only_columns(*_SHOWN[kind.over]).limit(_SAMPLE))
            fields = operation.model_dump(mode="json", exclude={"force", "plan"}, exclude_none=True)
            hint = (
                None
                if share.matched
                else self._selector.why_empty(tx, selection.filters, kind.over)
            )
            plan, expires_at = issue(tx, kind, fields, found, actor, self._plan_seconds)
        return PreviewOut(
            operation=kind.name,
            matched=share.matched,
            total=share.total,
            percent=share.percent,
            threshold=share.threshold,
            exceeds=share.exceeds,
            sample=sample,  # type: ignore[arg-type]
            refused=foreseen.refused,
            objections=foreseen.objections,  # type: ignore[arg-type]
            plan=plan,
            expires_at=expires_at,
            hint=hint,
        )
