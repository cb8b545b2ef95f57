"""Reading the log of curation, which is never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from kb_framework.api import Actor
from kb_framework.paging import Page, PageMeta
from kb_framework.store.store import Store, Tx
from kb_knowledge.models import Event
from kb_knowledge.tables import events

_FIELDS = tuple(Event.model_fields)


def of_chunk(tx: Tx, chunk_id: str, limit: int) -> list[Event]:
    query = _select().where(tx.owns(events), events.c.chunk_id == chunk_id)
    return [
        Event.model_validate(row) for row in tx.rows(query.order_by(events.c.created_at.desc(), events.c.seq.desc()).limit(limit))
    ]


class EventsService:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, actor: Actor, page: Page, wanted: Mapping[str, str | None]) -> tuple[list[Event], PageMeta]:
        """Events, newest first."""
        with self._store.read(actor.organization_id) as tx:
            conditions = _conditions(tx, wanted)
            total = tx.scalar(sa.select(sa.func.count()).select_from(events).where(*conditions))
            rows = tx.rows(page.cut(_select().where(*conditions).order_by(events.c.created_at.desc(), events.c.seq.desc())))
        return [Event.model_validate(row) for row in rows], page.meta(total)

    def export(self, actor: Actor, wanted: Mapping[str, str | None]) -> Iterator[bytes]:
        """Events as lines of JSON, oldest first, however many there are."""
        with self._store.read(actor.organization_id) as tx:
            query = _select().where(*_conditions(tx, wanted)).order_by(events.c.created_at, events.c.seq)
            result = tx.connection.execute(query, execution_options={"yield_per": 1000})
            for part in result.mappings().partitions(1000):
                yield "".join(f"{Event.model_validate(dict(row)).model_dump_json()}\n" for row in part).encode()


def _select() -> sa.Select:
    return sa.select(*(events.c[name] for name in _FIELDS))


def _conditions(tx: Tx, wanted: Mapping[str, str | None]) -> list[sa.ColumnElement[bool]]:
    conditions = [tx.owns(events)]
    for name in ("user_id", "chunk_id", "event_type"):
        if value := wanted.get(name):
            conditions.append(events.c[name] == value)
    if since := wanted.get("since"):
        conditions.append(events.c.created_at >= since)
    if until := wanted.get("until"):
        conditions.append(events.c.created_at < until)
    return conditions
