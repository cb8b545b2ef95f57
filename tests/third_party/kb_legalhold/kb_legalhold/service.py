"""The work of the legal hold plugin, free of any edge."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api import Actor
from kb_framework.api.parts import Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.api.times import now
from kb_framework.errors import NotFound
from kb_legalhold.log import record
from kb_legalhold.models import Hold, HoldIn, HoldPage, HoldsIn, Placed, Released, ReleaseIn
from kb_legalhold.settings import LegalHoldSettings
from kb_legalhold.tables import legal_holds


class LegalHoldService:
    def __init__(self, store: Store, settings: LegalHoldSettings) -> None:
        self._store = store
        self._settings = settings

    def place(self, wanted: HoldIn, actor: Actor) -> Placed:
        """Put documents on hold, all of them or, if one does not exist, none.

        A document that the matter holds already stays as it is, but for being sealed: asking again never weakens a hold.
        """
        matter = wanted.matter or self._settings.default_matter
        ids = list(dict.fromkeys(wanted.document_ids))
        with self._store.write(actor.organization_id) as tx:
            _require(tx, ids)
            held = sa.and_(
                tx.owns(legal_holds),
                legal_holds.c.matter == matter,
                among(legal_holds.c.document_id, ids),
            )
            if wanted.sealed:
                tx.execute(sa.update(legal_holds).where(held).values(sealed=True))
            free = sa.select(
                documents.c.organization_id,
                documents.c.id,
                sa.literal(matter),
                sa.literal(wanted.reason),
                sa.literal(wanted.sealed),
                sa.literal(actor.user_id),
                sa.literal(now()),
            ).where(
                tx.owns(documents),
                among(documents.c.id, ids),
                documents.c.id.not_in(sa.select(legal_holds.c.document_id).where(held)),
            )
            columns = [
                "organization_id",
                "document_id",
                "matter",
                "reason",
                "sealed",
                "user_id",
                "created_at",
            ]
            placed = tx.execute(sa.insert(legal_holds).from_select(columns, free)).rowcount
            record(tx, actor, "hold_placed", placed)
            # Sealing changes what a search finds, so what was read before is stale.
            tx.corpus_changed()
        return Placed(matter=matter, placed=placed, already_held=len(ids) - placed)

    def release(self, wanted: ReleaseIn, actor: Actor) -> Released:
        """End the holds on documents: those of one matter, or (none given) of all."""
        with self._store.write(actor.organization_id) as tx:
            held = sa.and_(
                tx.owns(legal_holds), among(legal_holds.c.document_id, wanted.document_ids)
            )
            if wanted.matter is not None:
                held = sa.and_(held, legal_holds.c.matter == wanted.matter)
            distinct = sa.func.count(sa.distinct(legal_holds.c.document_id))
            count = tx.scalar(sa.select(distinct).where(held))
            released = tx.execute(sa.delete(legal_holds).where(held)).rowcount
            record(tx, actor, "hold_released", count)
            tx.corpus_changed()
        return Released(released=released)

    def list(self, asked: HoldsIn, actor: Actor) -> HoldPage:
        """The holds in force, oldest first; sealed ones too, since whoever holds must be able to release."""
        with self._store.read(actor.organization_id) as tx:
            conditions = [tx.owns(legal_holds)]
            if asked.matter is not None:
                conditions.append(legal_holds.c.matter == asked.matter)
            if asked.document_id is not None:
                conditions.append(legal_holds.c.document_id == asked.document_id)
            total = tx.scalar(
                sa.select(sa.func.count()).select_from(legal_holds).where(*conditions)
            )
            query = sa.select(*(legal_holds.c[name] for name in Hold.model_fields)).where(
                *conditions
            )
            rows = tx.rows(asked.wanted.cut(query.order_by(legal_holds.c.id)))
        return HoldPage(
            data=[Hold.model_validate(row) for row in rows], meta=asked.wanted.meta(total)
        )


def _require(tx: Tx, ids: list[int]) -> None:
    found = set(
        tx.connection.scalars(
            sa.select(documents.c.id).where(tx.owns(documents), among(documents.c.id, ids))
        )
    )
    missing = [number for number in ids if number not in found]
    if missing:
        raise NotFound(f"there is no document {missing[0]}", document_id=missing[0])
