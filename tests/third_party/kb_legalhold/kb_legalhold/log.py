"""The log: what happened while holds were in force, written in the transaction in which it happened."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api import Actor, Changes
from kb_framework.api.parts import Tx
from kb_framework.api.times import now
from kb_legalhold.tables import legal_hold_log, legal_holds


def record_changes(changes: Changes, tx: Tx) -> None:
    """Note a change of documents; without a hold in the organization there is nothing to account for."""
    holds = _in_force(tx)
    if holds and changes.count:
        _insert(tx, changes.actor, changes.action, changes.count, holds)


def record(tx: Tx, actor: Actor, action: str, documents: int) -> None:
    """Note what was done to the holds themselves."""
    _insert(tx, actor, action, documents, _in_force(tx))


def _in_force(tx: Tx) -> int:
    return tx.scalar(
        sa.select(sa.func.count()).select_from(legal_holds).where(tx.owns(legal_holds))
    )


def _insert(tx: Tx, actor: Actor, action: str, documents: int, holds: int) -> None:
    tx.execute(
        sa.insert(legal_hold_log).values(
            organization_id=tx.organization_id,
            action=action,
            documents=documents,
            holds=holds,
            user_id=actor.user_id,
            created_at=now(),
        )
    )
