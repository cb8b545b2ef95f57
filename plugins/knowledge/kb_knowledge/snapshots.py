"""What contexts were made of, kept for as long as the settings say; from a chunk to whatever it was used for."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Actor
from kb_framework.api.chunks import citation
from kb_framework.api.paging import Page, PageIn
from kb_framework.api.parts import Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.api.times import format_time, now
from kb_framework.errors import Conflict, Forbidden, NotFound
from kb_knowledge.models import (
    AboutChunkIn,
    Answer,
    AnswerIn,
    Citation,
    Context,
    Snapshot,
    SnapshotChunk,
    SnapshotIn,
    SnapshotPage,
    SnapshotSummary,
)
from kb_knowledge.prompt import SECTIONS
from kb_knowledge.settings import KnowledgeSettings
from kb_knowledge.tables import curated, snapshot_chunks, snapshots

_LABEL = re.compile(r"\[([FAEQ]\d{1,4})\]")
_OUTSIDE = "not in the context"


# An answer is read by everybody who sees the snapshot, so it is the user's own who asked, or an editor's.
_ANSWER_OTHERS = "knowledge.edit"


class SnapshotsService:
    def __init__(self, store: Store, settings: KnowledgeSettings) -> None:
        self._store = store
        self._days = settings.snapshot_days

    def keep(self, query: str, options: Mapping[str, Any], context: Context, actor: Actor) -> str:
        """A new snapshot's id. Those that are too old go."""
        snapshot_id = str(uuid.uuid4())
        used = [
            {
                "id": str(uuid.uuid4()),
                "organization_id": actor.organization_id,
                "snapshot_id": snapshot_id,
                "chunk_id": item.chunk_id,
                "section": name,
                "label": item.label,
            }
            for name in SECTIONS
            for item in getattr(context, name)
        ]
        row = {
            "id": snapshot_id,
            "organization_id": actor.organization_id,
            "user_id": actor.user_id,
            "query": query,
            "options": dict(options),
            "prompt": context.prompt,
            "created_at": now(),
        }
        with self._store.write(actor.organization_id) as tx:
            self._forget_old(tx)
            tx.execute(sa.insert(snapshots).values(row))
            if used:
                tx.execute(sa.insert(snapshot_chunks), used)
        return snapshot_id

    def _forget_old(self, tx: Tx) -> None:
        if not self._days:
            return
        end = format_time(datetime.now(UTC) - timedelta(days=self._days))
        old = sa.select(snapshots.c.id).where(tx.owns(snapshots), snapshots.c.created_at < end)
        tx.execute(sa.delete(snapshot_chunks).where(snapshot_chunks.c.snapshot_id.in_(old)))
        tx.execute(sa.delete(snapshots).where(tx.owns(snapshots), snapshots.c.created_at < end))

    def list(self, asked: PageIn, actor: Actor) -> SnapshotPage:
        return self._page(actor, asked.wanted, [])

    def impact(self, asked: AboutChunkIn, actor: Actor) -> SnapshotPage:
        """The snapshots that used a chunk, newest first, also when the chunk is gone."""
        using = sa.select(snapshot_chunks.c.snapshot_id).where(
            snapshot_chunks.c.chunk_id == asked.chunk_id
        )
        return self._page(actor, asked.wanted, [snapshots.c.id.in_(using)])

    def _page(self, actor: Actor, page: Page, where: list[sa.ColumnElement[bool]]) -> SnapshotPage:
        with self._store.read(actor.organization_id) as tx:
            total = tx.scalar(
                sa.select(sa.func.count()).select_from(snapshots).where(tx.owns(snapshots), *where)
            )
            query = (
                sa.select(snapshots)
                .where(tx.owns(snapshots), *where)
                .order_by(snapshots.c.created_at.desc(), snapshots.c.seq.desc())
            )
            rows = tx.rows(page.cut(query))
        data = [SnapshotSummary.model_validate(_summary(row)) for row in rows]
        return SnapshotPage(data=data, meta=page.meta(total))

    def get(self, asked: SnapshotIn, actor: Actor) -> Snapshot:
        with self._store.read(actor.organization_id) as tx:
            row = self._one(tx, asked.snapshot_id)
            columns = (snapshot_chunks.c[name] for name in SnapshotChunk.model_fields)
            used = tx.rows(sa.select(*columns).where(snapshot_chunks.c.snapshot_id == row["id"]))
        order = list(SECTIONS)
        used.sort(key=lambda item: (order.index(item["section"]), int(item["label"][1:])))
        return Snapshot.model_validate({**_summary(row), "chunks": used})

    def answer(self, asked: AnswerIn, actor: Actor) -> Answer:
        """Keep what a generator somewhere else made of a snapshot."""
        return self.keep_answer(asked.snapshot_id, asked.text, asked.model, actor)

    def keep_answer(self, snapshot_id: str, text: str, model: str, actor: Actor) -> Answer:
        """Keep what a generator made of a snapshot, with its citations checked. An answer is given once."""
        with self._store.write(actor.organization_id) as tx:
            row = self._one(tx, snapshot_id)
            if row["user_id"] != actor.user_id and not actor.may(_ANSWER_OTHERS):
                raise Forbidden(
                    f"another user's snapshot is answered with the permission {_ANSWER_OTHERS}",
                    permission=_ANSWER_OTHERS,
                )
            if row["answer"] is not None:
                raise Conflict(
                    f"the snapshot {snapshot_id} has an answer already", snapshot_id=snapshot_id
                )
            marked, citations = check_citations(text, self._cited(tx, row["id"]))
            answer = Answer(text=marked, model=model, citations=citations)
            tx.execute(
                sa.update(snapshots)
                .where(snapshots.c.seq == row["seq"])
                .values(answer=answer.model_dump())
            )
        return answer

    def _one(self, tx: Tx, snapshot_id: str) -> Mapping[str, Any]:
        rows = tx.rows(
            sa.select(snapshots).where(tx.owns(snapshots), snapshots.c.id == snapshot_id)
        )
        if not rows:
            raise NotFound(f"there is no snapshot {snapshot_id}", snapshot_id=snapshot_id)
        return rows[0]

    def _cited(self, tx: Tx, snapshot_id: str) -> dict[str, Citation]:
        """What each label of a snapshot stands for."""
        labels = sa.select(snapshot_chunks.c.label, snapshot_chunks.c.chunk_id)
        found = dict(tx.execute(labels.where(snapshot_chunks.c.snapshot_id == snapshot_id)).all())
        query = sa.select(
            curated.c.id,
            curated.c.document_id,
            curated.c.metadata,
            documents.c.title,
            documents.c.path,
        )
        query = query.join(documents, documents.c.id == curated.c.document_id)
        rows = {
            row["id"]: row
            for row in tx.rows(query.where(among(curated.c.id, list(found.values()))))
        }
        cited = {}
        for label, chunk_id in found.items():
            row = rows.get(chunk_id)
            cited[label] = Citation(
                label=label,
                valid=True,
                chunk_id=chunk_id,
                title=row["title"] if row else None,
                citation=citation(row["path"], row["document_id"], row["metadata"])
                if row
                else None,
            )
        return cited


def check_citations(text: str, known: Mapping[str, Citation]) -> tuple[str, list[Citation]]:
    """The text with every citation marked that points at nothing, and what it cites, in order."""
    found = {
        label: known.get(label) or Citation(label=label, valid=False)
        for label in _LABEL.findall(text)
    }
    marked = _LABEL.sub(
        lambda match: match.group() if match[1] in known else f"[{match[1]}: {_OUTSIDE}]", text
    )
    return marked, list(found.values())


def _summary(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "answered": row["answer"] is not None}
