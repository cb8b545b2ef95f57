"""Curation of chunks, one by one; over a selection it is the same mutations under the bulk plugin's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from kb_framework.api import Actor, MutationKind, Selection, resolve
from kb_framework.api.chunks import SOURCE, numbers_of_chunks
from kb_framework.api.parts import Mutation, Plugins, Selector, Store, Tx
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import Forbidden, InvalidInput, MutationRefused, NotFound
from kb_knowledge import conditions, events
from kb_knowledge.kinds import CHANGES, DELETE_CHUNK
from kb_knowledge.models import (
    ChunkChanged,
    ChunkDetail,
    ChunkIn,
    ChunkPage,
    ChunksIn,
    ChunkSummary,
    DeleteIn,
)
from kb_knowledge.mutations import Curation, DeleteChunk
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.tables import curated

_PREVIEW = 300
_EVENTS = 20
# The filters whose values a hint may name.
_VALUES = {
    "kind": ("kind", curated.c.chunk_kind),
    "policy": ("policy", curated.c.usage_policy),
    "source_type": ("source type", curated.c.source_type),
}
# By the model of each.
_KINDS = {kind.target.partition(":")[2]: kind.name for kind in CHANGES}


class KnowledgeService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        selector: Selector,
        mutation: Mutation,
        settings: KnowledgeSettings,
    ) -> None:
        self._store = store
        self._selector = selector
        self._plugins = plugins
        self._mutation = mutation
        self._settings = settings

    def list(self, asked: ChunksIn, actor: Actor) -> ChunkPage:
        """Chunks, in the order in which they came, whatever their state: this is for curators, not a search."""
        page = asked.wanted
        given = {**self._selector.named(asked, "chunks").filters}
        with self._store.read(actor.organization_id) as tx:
            where = self._selector.visible(Selection(given), actor, tx, "chunks")
            if asked.q is not None:
                where.append(conditions.has_words(asked.q))
            found = numbers_of_chunks(tx, where)
            total = tx.scalar(found.with_only_columns(sa.func.count(), maintain_column_froms=True))
            numbers = tx.connection.scalars(page.cut(found.order_by(chunks.c.seq)))
            rows = self._rows(tx, curated.c.seq.in_(list(numbers)))
            hint = None if total else self._why_empty(tx, given, asked.q)
        return ChunkPage(
            data=[_summary(row, actor) for row in rows], meta=page.meta(total), hint=hint
        )

    def get(self, asked: ChunkIn, actor: Actor) -> ChunkDetail:
        with self._store.read(actor.organization_id) as tx:
            row = self._one(tx, asked.chunk_id, actor)
            return _detail(row, events.of_chunk(tx, row["id"], _EVENTS), actor)

    def curate(self, kind: MutationKind, asked: BaseModel, actor: Actor) -> ChunkChanged:
        """Change one chunk as the operation of a kind says."""
        fields = asked.model_dump()
        return self.change(fields.pop("chunk_id"), resolve(kind.target)(**fields), actor)

    def change(self, chunk_id: str, curation: Curation, actor: Actor) -> ChunkChanged:
        """A plan of one for the host's pipeline."""
        before = self._store.look(actor.organization_id, lambda tx: self._one(tx, chunk_id, actor))
        self._run(_KINDS[type(curation).__name__], curation, before, actor)
        after = self._store.look(actor.organization_id, lambda tx: self._one(tx, chunk_id, actor))
        changed = any(before[name] != value for name, value in curation.values().items())
        return ChunkChanged(**_summary(after, actor).model_dump(), changed=changed)

    def delete(self, asked: DeleteIn, actor: Actor) -> None:
        if not self._settings.hard_delete:
            raise Forbidden(
                "chunks are not deleted for good here; deactivate them instead",
                hint="set KB_KNOWLEDGE_HARD_DELETE",
            )
        if not asked.confirm:
            raise InvalidInput(
                "confirm: must be true, because the chunk cannot be brought back", field="confirm"
            )
        with self._store.read(actor.organization_id) as tx:
            row = self._one(tx, asked.chunk_id, actor)
        self._run(DELETE_CHUNK.name, DeleteChunk(reason=asked.reason), row, actor)

    def _run(self, kind: str, operation: Any, row: Mapping[str, Any], actor: Actor) -> None:
        result = self._mutation.run(kind, operation, chunks.c.seq == row["seq"], actor)
        if result.failed:
            raise MutationRefused(result.errors[0]["error"], chunk_id=row["id"])
        if not result.matched:
            raise _no_such(row["id"])

    def _why_empty(self, tx: Tx, given: Mapping[str, Any], q: str | None) -> str | None:
        # That chunks are active is asked of every list, and tells nothing.
        told = {name: value for name, value in given.items() if name != "status"}
        beside = () if q is None else ("q",)
        return self._selector.why_empty(tx, told, "chunks", _VALUES, beside=beside)

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
    """The row, with the source that its document was added with unless it has its own.

    A model that curates is told about a chunk that it must never generate from, not what it says.
    """
    withheld = actor.reader == "model" and row["usage_policy"] == "never_generate"
    content = None if withheld else row["content"]
    source = {name: row[name] or row["metadata"].get(name) for name in SOURCE}
    return {
        **row,
        **source,
        "content": content,
        "preview": content[:_PREVIEW] if content is not None else None,
    }


def _summary(row: Mapping[str, Any], actor: Actor) -> ChunkSummary:
    return ChunkSummary.model_validate(_shown(row, actor))


def _detail(row: Mapping[str, Any], log: list[Any], actor: Actor) -> ChunkDetail:
    return ChunkDetail.model_validate({**_shown(row, actor), "events": log})
