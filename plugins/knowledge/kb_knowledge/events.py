"""Reading the log of curation, which is never changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from kb_framework.api import Actor, Download
from kb_framework.api.paging import Page
from kb_framework.api.parts import Store, Tx
from kb_framework.api.tables import chunks
from kb_framework.api.times import moment
from kb_knowledge.models import AboutChunkIn, ChunkEvent, ChunkEventPage, EventFilters, EventsIn
from kb_knowledge.tables import events

_FIELDS = tuple(ChunkEvent.model_fields)


def of_chunk(tx: Tx, chunk_id: str, limit: int) -> list[ChunkEvent]:
    newest = (events.c.created_at.desc(), events.c.seq.desc())
    query = _select().where(tx.owns(events), events.c.chunk_id == chunk_id)
    return [ChunkEvent.model_validate(row) for row in tx.rows(query.order_by(*newest).limit(limit))]


class EventsService:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, asked: EventsIn, actor: Actor) -> ChunkEventPage:
        """Events, newest first."""
        return self._page(actor, asked.wanted, _wanted(asked))

    def history(self, asked: AboutChunkIn, actor: Actor) -> ChunkEventPage:
        """A chunk's events, newest first; they outlive the chunk."""
        return self._page(actor, asked.wanted, {"chunk_id": asked.chunk_id})

    def _page(
        self, actor: Actor, page: Page, wanted: Mapping[str, str | int | None]
    ) -> ChunkEventPage:
        with self._store.read(actor.organization_id) as tx:
            conditions = _conditions(tx, wanted)
            total = tx.scalar(sa.select(sa.func.count()).select_from(events).where(*conditions))
            rows = tx.rows(
                page.cut(
                    _select()
                    .where(*conditions)
                    .order_by(events.c.created_at.desc(), events.c.seq.desc())
                )
            )
        return ChunkEventPage(
            data=[ChunkEvent.model_validate(row) for row in rows], meta=page.meta(total)
        )

    def export(self, asked: EventFilters, actor: Actor) -> Download:
        """Events as lines of JSON, oldest first, however many there are."""
        lines = self._lines(actor, _wanted(asked))
        # The first part is made now, so that what goes wrong at the beginning is an error with a status.
        first = next(lines, b"")
        return Download(itertools.chain([first], lines), "application/x-ndjson")

    def _lines(self, actor: Actor, wanted: Mapping[str, str | int | None]) -> Iterator[bytes]:
        with self._store.read(actor.organization_id) as tx:
            query = (
                _select()
                .where(*_conditions(tx, wanted))
                .order_by(events.c.created_at, events.c.seq)
            )
            result = tx.connection.execute(query, execution_options={"yield_per": 1000})
            for part in result.mappings().partitions(1000):
                yield "".join(
                    f"{ChunkEvent.model_validate(dict(row)).model_dump_json()}\n" for row in part
                ).encode()


def _wanted(asked: EventFilters) -> dict[str, str | int | None]:
    return {
        "user_id": asked.user_id,
        "chunk_id": asked.chunk_id,
        "document_id": asked.document_id,
        "event_type": asked.event_type,
        "since": moment(asked.since, "since") if asked.since else None,
        "until": moment(asked.until, "until") if asked.until else None,
    }


def _select() -> sa.Select:
    return sa.select(*(events.c[name] for name in _FIELDS))


def _conditions(tx: Tx, wanted: Mapping[str, str | int | None]) -> list[sa.ColumnElement[bool]]:
    conditions = [tx.owns(events)]
    for name in ("user_id", "chunk_id", "event_type"):
        if value := wanted.get(name):
            conditions.append(events.c[name] == value)
    if (document := wanted.get("document_id")) is not None:
        here = sa.select(chunks.c.id).where(tx.owns(chunks), chunks.c.document_id == document)
        conditions.append(events.c.chunk_id.in_(here))
    if since := wanted.get("since"):
        conditions.append(events.c.created_at >= since)
    if until := wanted.get("until"):
        conditions.append(events.c.created_at < until)
    return conditions
