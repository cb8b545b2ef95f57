"""HTTP: curation of chunks and its log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import UUID

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from litestar.status_codes import HTTP_200_OK

from kb_framework.api import Actor
from kb_framework.http import PageNumber, PerPage
from kb_framework.paging import Page
from kb_framework.times import moment
from kb_knowledge import models
from kb_knowledge.carry import LeftOverService
from kb_knowledge.conditions import Kind, Policy, Status
from kb_knowledge.events import EventsService
from kb_knowledge.log import EventType
from kb_knowledge.mutations import Activate, Deactivate, Reclassify, SetPolicy
from kb_knowledge.service import KnowledgeService

Knowledge = NamedDependency[KnowledgeService]
Who = NamedDependency[Actor]
Since = Annotated[str | None, QueryParameter(max_length=64, description="Not before this time.")]
Until = Annotated[str | None, QueryParameter(max_length=64, description="Before this time.")]


@get("/knowledge/chunks", sync_to_thread=True, opt={"permission": "knowledge.view"})
def list_chunks(
    knowledge: Knowledge,
    actor: Who,
    q: Annotated[str | None, QueryParameter(min_length=1, max_length=1000, description="Words of the text or title.")] = None,
    kind: FromQuery[Kind | None] = None,
    status: FromQuery[Status] = "active",
    policy: FromQuery[Policy | None] = None,
    source_type: Annotated[str | None, QueryParameter(max_length=32)] = None,
    page: PageNumber = 1,
    per_page: PerPage = 20,
) -> models.ChunkPage:
    """List chunks with their curation; by default those that are active."""
    wanted = {"q": q, "kind": kind, "status": status, "policy": policy, "source_type": source_type}
    data, meta = knowledge.list(actor, Page(page, per_page), wanted)
    return models.ChunkPage(data=data, meta=meta)


@get("/knowledge/chunks/{chunk_id:uuid}", sync_to_thread=True, opt={"permission": "knowledge.view"})
def get_chunk(chunk_id: FromPath[UUID], knowledge: Knowledge, actor: Who) -> models.ChunkDetail:
    """One chunk, with its whole text and its last 20 events."""
    return knowledge.get(str(chunk_id), actor)


@post(
    "/knowledge/chunks/{chunk_id:uuid}/deactivate",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "knowledge.deactivate"},
)
def deactivate_chunk(
    chunk_id: FromPath[UUID], knowledge: Knowledge, actor: Who, data: JSONBody[Deactivate | None] = None
) -> models.ChunkChanged:
    """Take a chunk out of every search."""
    return knowledge.change(str(chunk_id), data or Deactivate(), actor)


@post(
    "/knowledge/chunks/{chunk_id:uuid}/activate",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "knowledge.deactivate"},
)
def activate_chunk(
    chunk_id: FromPath[UUID], knowledge: Knowledge, actor: Who, data: JSONBody[Activate | None] = None
) -> models.ChunkChanged:
    """Let a chunk be found again."""
    return knowledge.change(str(chunk_id), data or Activate(), actor)


@post(
    "/knowledge/chunks/{chunk_id:uuid}/reclassify",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "knowledge.reclassify"},
)
def reclassify_chunk(
    chunk_id: FromPath[UUID], data: JSONBody[Reclassify], knowledge: Knowledge, actor: Who
) -> models.ChunkChanged:
    """Say what a chunk is: fact, angle, example or quote."""
    return knowledge.change(str(chunk_id), data, actor)


@post(
    "/knowledge/chunks/{chunk_id:uuid}/set-policy",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "knowledge.set_policy"},
)
def set_chunk_policy(
    chunk_id: FromPath[UUID], data: JSONBody[SetPolicy], knowledge: Knowledge, actor: Who
) -> models.ChunkChanged:
    """Say what a chunk may be used for: normal, inspiration_only or never_generate."""
    return knowledge.change(str(chunk_id), data, actor)


@delete("/knowledge/chunks/{chunk_id:uuid}", sync_to_thread=True, opt={"permission": "knowledge.delete_hard"})
def delete_chunk(
    chunk_id: FromPath[UUID],
    knowledge: Knowledge,
    actor: Who,
    confirm: Annotated[bool, QueryParameter(description="Must be true: it cannot be undone.")] = False,
    reason: Annotated[str | None, QueryParameter(max_length=255)] = None,
) -> None:
    """Delete a chunk for good, where that is allowed."""
    knowledge.delete(str(chunk_id), actor, confirm=confirm, reason=reason)


@get("/knowledge/chunks/{chunk_id:uuid}/events", sync_to_thread=True, opt={"permission": "knowledge.view"})
def chunk_history(
    chunk_id: FromPath[UUID], knowledge: Knowledge, actor: Who, page: PageNumber = 1, per_page: PerPage = 20
) -> models.EventPage:
    """Every event of a chunk, newest first, also of one that is gone."""
    data, meta = knowledge.history(str(chunk_id), actor, Page(page, per_page))
    return models.EventPage(data=data, meta=meta)


@get("/knowledge/events", sync_to_thread=True, opt={"permission": "knowledge.view"})
def list_events(
    knowledge_events: NamedDependency[EventsService],
    actor: Who,
    user_id: FromQuery[UUID | None] = None,
    chunk_id: FromQuery[UUID | None] = None,
    event_type: FromQuery[EventType | None] = None,
    since: Since = None,
    until: Until = None,
    page: PageNumber = 1,
    per_page: PerPage = 20,
) -> models.EventPage:
    """Who changed what, newest first."""
    wanted = _wanted(user_id, chunk_id, event_type, since, until)
    data, meta = knowledge_events.list(actor, Page(page, per_page), wanted)
    return models.EventPage(data=data, meta=meta)


@get("/knowledge/events/export", sync_to_thread=True, media_type="application/x-ndjson", opt={"permission": "knowledge.view"})
def export_events(
    knowledge_events: NamedDependency[EventsService],
    actor: Who,
    user_id: FromQuery[UUID | None] = None,
    chunk_id: FromQuery[UUID | None] = None,
    event_type: FromQuery[EventType | None] = None,
    since: Since = None,
    until: Until = None,
) -> Stream:
    """The same as lines of JSON, oldest first, however many there are."""
    lines = knowledge_events.export(actor, _wanted(user_id, chunk_id, event_type, since, until))
    # The first part is made now, so that what goes wrong at the beginning still becomes an error with a status.
    first: Iterator[bytes] = iter([next(lines, b"")])
    return Stream(itertools.chain(first, lines), media_type="application/x-ndjson")


def _wanted(
    user_id: UUID | None, chunk_id: UUID | None, event_type: str | None, since: str | None, until: str | None
) -> dict[str, Any]:
    return {
        "user_id": str(user_id) if user_id else None,
        "chunk_id": str(chunk_id) if chunk_id else None,
        "event_type": event_type,
        "since": moment(since, "since") if since else None,
        "until": moment(until, "until") if until else None,
    }


@get("/knowledge/left-over", sync_to_thread=True, opt={"permission": "knowledge.view"})
def list_left_over(
    knowledge_left_over: NamedDependency[LeftOverService], actor: Who, page: PageNumber = 1, per_page: PerPage = 20
) -> models.LeftOverPage:
    """Curation that could not be carried over: its chunk is gone, and it waits for the same text to come back."""
    data, meta = knowledge_left_over.list(actor, Page(page, per_page))
    return models.LeftOverPage(data=data, meta=meta)


handlers = [
    list_chunks,
    get_chunk,
    deactivate_chunk,
    activate_chunk,
    reclassify_chunk,
    set_chunk_policy,
    delete_chunk,
    chunk_history,
    list_events,
    export_events,
    list_left_over,
]
