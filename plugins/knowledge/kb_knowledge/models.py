"""What the knowledge routes take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kb_framework.paging import PageMeta
from kb_framework.validation import Body, Text

Reason = Annotated[Text, Field(max_length=255)]
EventType = Literal["deactivated", "activated", "reclassified", "policy_changed", "added_from_research", "deleted_hard"]


class ReasonIn(Body):
    reason: Reason | None = None


class Event(BaseModel):
    """Who changed what of which chunk, when and why."""

    id: str
    user_id: str
    chunk_id: str
    event_type: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str | None
    created_at: str


class EventPage(BaseModel):
    data: list[Event]
    meta: PageMeta


class ChunkSummary(BaseModel):
    """A chunk with its curation. `preview` is the beginning of its text, or null where a model must not read it."""

    id: str
    document_id: int
    title: str
    path: str | None
    chunk_index: int
    preview: str | None
    content_hash: str
    is_active: bool
    chunk_kind: str
    usage_policy: str
    source_type: str | None
    source_ref: str | None
    source_title: str | None
    confidence: float | None
    created_at: str


class ChunkPage(BaseModel):
    data: list[ChunkSummary]
    meta: PageMeta


class ChunkDetail(ChunkSummary):
    """A chunk with its whole text, its metadata and its last events, newest first."""

    content: str | None
    metadata: dict[str, Any]
    job_id: str
    events: list[Event]


class ChunkChanged(ChunkSummary):
    """The chunk as it is now; `changed` says whether the request made it so."""

    changed: bool


class LeftOver(BaseModel):
    """Curation that waits for its text to come back: the chunk it was about is gone."""

    chunk_id: str
    content_hash: str
    document_title: str
    document_path: str | None
    is_active: bool
    chunk_kind: str
    usage_policy: str
    created_at: str


class LeftOverPage(BaseModel):
    data: list[LeftOver]
    meta: PageMeta
