"""Curation of chunks, one by one; over a selection it is the same mutations under the bulk plugin's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Actor, Selection
from kb_framework.errors import Forbidden, InvalidInput, MutationRefused, NotFound
from kb_framework.mutation import Mutation
from kb_framework.paging import Page, PageMeta
from kb_framework.plugins import Plugins
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import chunks, documents
from kb_knowledge import conditions, events
from kb_knowledge.models import ChunkChanged, ChunkDetail, ChunkSummary
from kb_knowledge.mutations import Activate, Curation, Deactivate, DeleteChunk, Reclassify, SetPolicy
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.tables import curated

_PREVIEW = 300
_EVENTS = 20
_KINDS: dict[type[Curation], str] = {
    Deactivate: "deactivate",
    Activate: "activate",
    Reclassify: "reclassify",
    SetPolicy: "set_policy",
}


class KnowledgeService:
    def __init__(self, store: Store, plugins: Plugins, mutation: Mutation, settings: KnowledgeSettings) -> None:
        self._store = store
        self._plugins = plugins
        self._mutation = mutation
        self._settings = settings

    def list(self, actor: Actor, page: Page, wanted: Mapping[str, str | None]) -> tuple[list[ChunkSummary], PageMeta]:
        """Chunks, in the order in which they came, whatever their state: this is for curators, not a search."""
        given = {name: value for name, value in wanted.items() if value is not None}
        with self._store.read(actor.organization_id) as tx:
            where = [self._condition(name, value) for name, value in given.items()]
            where = [tx.owns(chunks), *where, *self._visible(tx, actor)]
            source = chunks.join(documents, documents.c.id == chunks.c.document_id)
            total = tx.scalar(sa.select(sa.func.count()).select_from(source).where(*where))
            numbers = page.cut(sa.select(chunks.c.seq).select_from(source).where(*where).order_by(chunks.c.seq))
            rows = self._rows(tx, curated.c.seq.in_(list(tx.connection.scalars(numbers))))
        return [_summary(row, actor) for row in rows], page.meta(total)

    def get(self, chunk_id: str, actor: Actor) -> ChunkDetail:
        with self._store.read(actor.organization_id) as tx:
            row = self._one(tx, chunk_id, actor)
            return _detail(row, events.of_chunk(tx, row["id"], _EVENTS), actor)

    def history(self, chunk_id: str, actor: Actor, page: Page) -> tuple[list[Any], PageMeta]:
        """A chunk's events, newest first; they outlive the chunk."""
        return events.EventsService(self._store).list(actor, page, {"chunk_id": chunk_id.lower()})

    def change(self, chunk_id: str, curation: Curation, actor: Actor) -> ChunkChanged:
        """A plan of one for the host's pipeline."""
        before = self._store.look(actor.organization_id, lambda tx: self._one(tx, chunk_id, actor))
        self._run(_KINDS[type(curation)], curation, before, actor)
        after = self._store.look(actor.organization_id, lambda tx: self._one(tx, chunk_id, actor))
        changed = any(before[name] != value for name, value in curation.values().items())
        return ChunkChanged(**_summary(after, actor).model_dump(), changed=changed)

    def delete(self, chunk_id: str, actor: Actor, *, confirm: bool, reason: str | None = None) -> None:
        if not self._settings.hard_delete:
            raise Forbidden("chunks are not deleted for good here; deactivate them instead", hint="set KB_KNOWLEDGE_HARD_DELETE")
        if not confirm:
            raise InvalidInput("confirm: must be true, because the chunk cannot be brought back", field="confirm")
        with self._store.read(actor.organization_id) as tx:
            row = self._one(tx, chunk_id, actor)
        self._run("delete_chunk", DeleteChunk(reason=reason), row, actor)

    def _run(self, kind: str, operation: Any, row: Mapping[str, Any], actor: Actor) -> None:
        result = self._mutation.run(kind, operation, chunks.c.seq == row["seq"], actor)
        if result.failed:
            raise MutationRefused(result.errors[0]["error"], chunk_id=row["id"])
        if not result.matched:
            raise _no_such(row["id"])

    def _condition(self, name: str, value: str) -> sa.ColumnElement[bool]:
        return getattr(conditions, "query" if name == "q" else name)(value)

    def _visible(self, tx: Tx, actor: Actor) -> list[sa.ColumnElement[bool]]:
        return self._plugins.narrow_selection(Selection({}), actor, "read", tx)

    def _one(self, tx: Tx, chunk_id: str, actor: Actor) -> Mapping[str, Any]:
        rows = self._rows(tx, curated.c.id == chunk_id.lower(), *self._visible(tx, actor))
        if not rows:
            raise _no_such(chunk_id)
        return rows[0]

    def _rows(self, tx: Tx, *where: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
        query = sa.select(curated, documents.c.title, documents.c.path)
        query = query.join(documents, documents.c.id == curated.c.document_id)
        return tx.rows(query.where(tx.owns(curated), *where).order_by(curated.c.seq))


def _no_such(chunk_id: str) -> NotFound:
    return NotFound(f"there is no chunk {chunk_id}", chunk_id=chunk_id)


def _shown(row: Mapping[str, Any], actor: Actor) -> dict[str, Any]:
    """The row; a model that curates is told about a chunk that it must never generate from, not what it says."""
    withheld = actor.reader == "model" and row["usage_policy"] == "never_generate"
    content = None if withheld else row["content"]
    return {**row, "content": content, "preview": content[:_PREVIEW] if content is not None else None}


def _summary(row: Mapping[str, Any], actor: Actor) -> ChunkSummary:
    return ChunkSummary.model_validate(_shown(row, actor))


def _detail(row: Mapping[str, Any], log: list[Any], actor: Actor) -> ChunkDetail:
    return ChunkDetail.model_validate({**_shown(row, actor), "events": log})
