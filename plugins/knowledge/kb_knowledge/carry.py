"""Chunks that go and come: the log says that they went, and their curation waits for the same text to come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from kb_framework.api import Actor, Changes, Plan
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Store, Tx
from kb_framework.api.sql import NewUuid, among
from kb_framework.api.tables import BigId, documents
from kb_framework.api.times import now
from kb_knowledge import log
from kb_knowledge.log import EventType
from kb_knowledge.models import LeftOver, LeftOverPage
from kb_knowledge.mutations import Curation, DeleteChunk
from kb_knowledge.tables import SOURCE, curated, left_over

# The chunks of the documents that a mutation is about, as they were before it.
_KEPT = (
    "id",
    "organization_id",
    "document_id",
    "chunk_index",
    "content_hash",
    *log.CURATION,
    *SOURCE,
)
before = sa.Table(
    "knowledge_before",
    sa.MetaData(),
    sa.Column("seq", BigId, primary_key=True),
    *(sa.Column(name, curated.c[name].type) for name in _KEPT),
    sa.Column("title", sa.Text),
    sa.Column("path", sa.Text),
    prefixes=["TEMPORARY"],
)
# What a change to each column is called.
_CARRIED: dict[str, EventType] = {
    "is_active": "deactivated",
    "chunk_kind": "reclassified",
    "usage_policy": "policy_changed",
}


@contextmanager
def followed(plan: Plan, selected: sa.Select, tx: Tx) -> Iterator[None]:
    """Around a mutation: its own changes are logged, and so is every chunk that is gone afterwards."""
    operation = plan.operation
    if isinstance(operation, Curation | DeleteChunk):
        operation.record(plan, selected, tx)
        yield
    elif plan.chunks is not None or getattr(operation, "keeps_chunks", False):
        yield
    else:
        newest = tx.scalar(sa.select(sa.func.max(curated.c.seq))) or 0
        concerned = list(tx.connection.scalars(selected))
        _look(tx, selected)
        yield
        _record_gone(tx, plan.actor, plan.kind)
        tx.execute(sa.delete(before))
        if (tx.scalar(sa.select(sa.func.max(curated.c.seq))) or 0) > newest:
            bring_back(
                tx, plan.actor, among(curated.c.document_id, concerned) & (curated.c.seq > newest)
            )


def follow_added(changes: Changes, tx: Tx) -> None:
    """Give what was added the curation that its text had before."""
    if changes.action == "added":
        bring_back(tx, changes.actor, curated.c.document_id.in_(changes.documents))


def _look(tx: Tx, selected: sa.Select) -> None:
    tx.execute(sa.schema.CreateTable(before, if_not_exists=True))
    tx.execute(sa.delete(before))
    rows = sa.select(
        curated.c.seq, *(curated.c[name] for name in _KEPT), documents.c.title, documents.c.path
    )
    rows = rows.join(documents, documents.c.id == curated.c.document_id).where(
        curated.c.document_id.in_(selected)
    )
    tx.execute(sa.insert(before).from_select(["seq", *_KEPT, "title", "path"], rows))


def _record_gone(tx: Tx, actor: Actor, kind: str) -> None:
    gone = ~sa.exists().where(curated.c.seq == before.c.seq)
    log.record(tx, actor, "deleted_hard", before, gone, reason=kind, after=None)
    curation = sa.or_(
        before.c.is_active.is_(False),
        before.c.chunk_kind != "fact",
        before.c.usage_policy != "normal",
    )
    names = ("organization_id", "content_hash", *log.CURATION)
    rows = sa.select(
        NewUuid(),
        before.c.id,
        before.c.title,
        before.c.path,
        sa.literal(now()),
        *(before.c[name] for name in names),
    ).where(gone, curation)
    columns = ["id", "chunk_id", "document_title", "document_path", "created_at", *names]
    tx.execute(sa.insert(left_over).from_select(columns, rows))


def bring_back(tx: Tx, actor: Actor, new: sa.ColumnElement[bool]) -> None:
    """Curate new chunks as their text was; what a chunk already says about itself stays."""
    # Most often nothing waits, and then nothing is looked for.
    if tx.scalar(sa.select(left_over.c.seq).where(tx.owns(left_over)).limit(1)) is None:
        return
    # By the document alone: asked for an organization's chunks as well, the engine would look through all of them.
    waiting = sa.exists().where(
        tx.owns(left_over), left_over.c.content_hash == curated.c.content_hash
    )
    query = sa.select(
        curated.c.seq, curated.c.content_hash, *(curated.c[name] for name in log.CURATION)
    )
    found = sorted(tx.rows(query.where(new, waiting)), key=lambda row: row["seq"])
    if not found:
        return
    hashes = {row["content_hash"] for row in found}
    old = (
        sa.select(left_over)
        .where(tx.owns(left_over), among(left_over.c.content_hash, hashes))
        .order_by(left_over.c.seq)
    )
    by_hash: dict[str, list] = {}
    for row in tx.execute(old):
        by_hash.setdefault(row.content_hash, []).append(row)
    used: list[int] = []
    for chunk in found:
        candidates = by_hash[chunk["content_hash"]]
        if not candidates:
            continue
        former = candidates.pop()
        used.append(former.seq)
        if (chunk["is_active"], chunk["chunk_kind"], chunk["usage_policy"]) != (
            True,
            "fact",
            "normal",
        ):
            continue
        changed = {
            name: getattr(former, name)
            for name in log.CURATION
            if getattr(former, name) != chunk[name]
        }
        here = curated.c.seq == chunk["seq"]
        for name, value in changed.items():
            reason = f"carried over from chunk {former.chunk_id}, which had the same text"
            log.record(tx, actor, _CARRIED[name], curated, here, reason=reason, after={name: value})
        tx.execute(sa.update(curated).where(here).values(changed))
    tx.execute(sa.delete(left_over).where(among(left_over.c.seq, used)))


class LeftOverService:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, asked: PageIn, actor: Actor) -> LeftOverPage:
        """The curation that could not be carried over so far, newest first."""
        with self._store.read(actor.organization_id) as tx:
            total = tx.scalar(
                sa.select(sa.func.count()).select_from(left_over).where(tx.owns(left_over))
            )
            query = sa.select(*(left_over.c[name] for name in LeftOver.model_fields)).where(
                tx.owns(left_over)
            )
            rows = tx.rows(
                asked.wanted.cut(
                    query.order_by(left_over.c.created_at.desc(), left_over.c.seq.desc())
                )
            )
        data = [LeftOver.model_validate(row) for row in rows]
        return LeftOverPage(data=data, meta=asked.wanted.meta(total))
