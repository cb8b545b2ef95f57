"""Writing the log of curation: with the change, in one statement however many chunks it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import sqlalchemy as sa

from kb_framework.api import Actor
from kb_framework.api.parts import Tx
from kb_framework.api.sql import JsonObject, NewUuid
from kb_framework.api.times import now
from kb_knowledge.tables import SOURCE, events

EventType = Literal[
    "deactivated",
    "activated",
    "reclassified",
    "policy_changed",
    "added_from_research",
    "deleted_hard",
]
CURATION = ("is_active", "chunk_kind", "usage_policy")


def record(
    tx: Tx,
    actor: Actor,
    event_type: EventType,
    table: sa.Table,
    where: sa.ColumnElement[bool],
    *,
    reason: str | None,
    after: Mapping[str, Any] | None,
) -> int:
    """One event for each chunk in the table that matches, with what it is before the change; how many."""
    names = tuple(after) if after and event_type != "added_from_research" else ()
    if event_type == "deleted_hard":
        # What it was, but for its text.
        names = ("document_id", "chunk_index", "content_hash", *CURATION, *SOURCE)
    rows = sa.select(
        NewUuid(),
        table.c.organization_id,
        sa.literal(actor.user_id),
        table.c.id,
        sa.literal(event_type),
        JsonObject({name: table.c[name] for name in names}) if names else sa.null(),
        sa.literal(after, sa.JSON) if after else sa.null(),
        sa.literal(reason),
        sa.literal(now()),
    ).where(tx.owns(table), where)
    columns = [
        "id",
        "organization_id",
        "user_id",
        "chunk_id",
        "event_type",
        "before",
        "after",
        "reason",
        "created_at",
    ]
    return tx.execute(sa.insert(events).from_select(columns, rows.order_by(table.c.seq))).rowcount
