"""What the operations of knowledge take and give."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from kb_framework.api.models import Body, ChunkId, Id, Model, Question, Text
from kb_framework.api.paging import Hint, PageIn, PageMeta
from kb_framework.api.selection import Filtered
from kb_knowledge.conditions import Kind, Policy, Reason, Status
from kb_knowledge.log import EventType


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _as_uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError("must be an id like 6ba7b810-9dad-11d1-80b4-00c04fd430c8") from None


Uuid = Annotated[str, Field(json_schema_extra={"format": "uuid"}), AfterValidator(_as_uuid)]
OfChunk = Annotated[str, Field(description="The chunk's id.")]
OfSnapshot = Annotated[str, Field(description="The snapshot's id.")]
Time = Annotated[Text, Field(max_length=64)]


class ChunkIn(Question):
    """Which chunk is meant."""

    chunk_id: OfChunk


# The fields of the last base are the first: a path and filters come before the page.
class AboutChunkIn(PageIn, ChunkIn):
    """Which chunk, and which page of what is known of it."""

    chunk_id: Annotated[str, Field(description="The chunk's id, also of one that is gone.")]


class DeleteIn(ChunkIn):
    """Which chunk is deleted for good, and why."""

    confirm: Annotated[bool, Field(description="Must be true: it cannot be undone.")] = False
    reason: Annotated[Reason | None, Field(description="Why, for the log.")] = None


class ChunksIn(PageIn, Filtered):
    """Which chunks are listed, and which page of them. Further fields are the filters that plugins offer."""

    q: Annotated[
        Annotated[Text, Field(max_length=1000)] | None,
        Field(description="Only chunks with all of these words in their text or title."),
    ] = None
    kind: Annotated[Kind | None, Field(description="Only chunks of this kind.")] = None
    status: Annotated[Status, Field(description="active (the default), inactive or all.")] = (
        "active"
    )
    policy: Annotated[Policy | None, Field(description="Only chunks with this policy.")] = None


class EventFilters(Question):
    """Which events are meant."""

    user_id: Annotated[Uuid | None, Field(description="Only what this user did.")] = None
    chunk_id: Annotated[Uuid | None, Field(description="Only what happened to this chunk.")] = None
    document_id: Annotated[
        Id | None, Field(description="Only what happened to chunks that this document has now.")
    ] = None
    event_type: Annotated[EventType | None, Field(description="Only events of this type.")] = None
    since: Annotated[
        Time | None, Field(description="Not before this time, such as 2026-01-31.")
    ] = None
    until: Annotated[Time | None, Field(description="Before this time.")] = None


class EventsIn(PageIn, EventFilters):
    """Which events are listed, and which page of them."""


class ChunkEvent(Model):
    """Who changed what of which chunk, when and why."""

    id: str
    user_id: str
    chunk_id: str
    event_type: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str | None
    created_at: str


class ChunkEventPage(Model):
    data: list[ChunkEvent]
    meta: PageMeta


class ChunkSummary(Model):
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


class ChunkPage(Model):
    data: list[ChunkSummary]
    meta: PageMeta
    hint: Hint = None


class ChunkDetail(ChunkSummary):
    """A chunk with its whole text, its metadata and its last events, newest first."""

    content: str | None
    metadata: dict[str, Any]
    job_id: str
    events: list[ChunkEvent]


class ChunkChanged(ChunkSummary):
    """The chunk as it is now; `changed` says whether the request made it so."""

    changed: bool


class LeftOver(Model):
    """Curation that waits for its text to come back: the chunk it was about is gone."""

    chunk_id: str
    content_hash: str
    document_title: str
    document_path: str | None
    is_active: bool
    chunk_kind: str
    usage_policy: str
    created_at: str


class LeftOverPage(Model):
    data: list[LeftOver]
    meta: PageMeta


class Caps(Body):
    """How many chunks of each kind a context may have; null is no limit."""

    max_facts: Annotated[int, Field(ge=0, le=100)] | None = None
    max_angles: Annotated[int, Field(ge=0, le=100)] | None = 1
    max_examples: Annotated[int, Field(ge=0, le=100)] | None = 1
    max_quotes: Annotated[int, Field(ge=0, le=100)] | None = None


class ContextIn(Body):
    """A question, and how much knowledge to give with it."""

    query: Annotated[
        Text, Field(max_length=10_000, description="The question."), AfterValidator(_not_blank)
    ]
    top_k: Annotated[int, Field(ge=1, le=100, description="How many candidates are looked at.")] = (
        20
    )
    caps: Annotated[Caps, Field(description="How many chunks of each kind are used.")] = Caps()
    max_tokens: Annotated[
        int, Field(ge=1, le=10_000_000, description="How long the prompt may be.")
    ] = 4000
    pin: Annotated[
        list[ChunkId], Field(max_length=100, description="Chunks to use in any case.")
    ] = []
    exclude: Annotated[list[ChunkId], Field(max_length=1000, description="Chunks not to use.")] = []

    @model_validator(mode="after")
    def _decided(self) -> ContextIn:
        both = sorted(set(self.pin) & set(self.exclude))
        if both:
            raise ValueError(f"{both[0]} is both in pin and in exclude")
        return self


class ContextChunk(Model):
    """A chunk of a context, under the label by which an answer cites it."""

    label: str
    chunk_id: str
    document_id: int
    title: str
    citation: str
    content: str
    chunk_kind: str
    usage_policy: str
    source_type: str | None
    source_ref: str | None
    source_title: str | None
    score: float | None
    tokens: int
    pinned: bool


class Rejected(Model):
    chunk_id: str
    reason: str


class Sections(Model):
    facts: list[ContextChunk] = []
    angles: list[ContextChunk] = []
    examples: list[ContextChunk] = []
    quotes: list[ContextChunk] = []


class Context(Sections):
    """What a generator is given, and what was left out."""

    rejected: list[Rejected]
    prompt: str
    tokens: int
    snapshot_id: str
    hint: str | None = None


class Citation(Model):
    """What an answer refers to. One that is not `valid` points at nothing in the context."""

    label: str
    valid: bool
    chunk_id: str | None = None
    title: str | None = None
    citation: str | None = None


class Answer(Model):
    """Generated text; citations that point outside of the context are marked in it."""

    text: str
    model: str
    citations: list[Citation]


class Asked(Model):
    """An answer, or (null) no generator is configured and the context is the result."""

    answer: Answer | None
    snapshot_id: str
    context: Context


def _is_absent(value: object) -> bool:
    return value is None


class AnswerPart(Model):
    """A line of an answer that is still being made: a piece of `text` or, in the last line, what was `asked`."""

    text: Annotated[str | None, Field(exclude_if=_is_absent)] = None
    asked: Annotated[Asked | None, Field(exclude_if=_is_absent)] = None


class SnapshotIn(Question):
    """Which snapshot is meant."""

    snapshot_id: OfSnapshot


class AnswerIn(Body):
    """What a generator somewhere else made of a snapshot's prompt."""

    snapshot_id: OfSnapshot
    text: Annotated[
        Text,
        Field(max_length=1_000_000, description="The answer, with its citations."),
        AfterValidator(_not_blank),
    ]
    model: Annotated[Text, Field(min_length=1, max_length=255, description="What made the answer.")]


class SnapshotChunk(Model):
    chunk_id: str
    section: str
    label: str


class SnapshotSummary(Model):
    id: str
    user_id: str
    query: str
    options: dict[str, Any]
    answered: bool
    created_at: str


class Snapshot(SnapshotSummary):
    """What a context was made of, and what became of it."""

    prompt: str
    chunks: list[SnapshotChunk]
    answer: Answer | None


class SnapshotPage(Model):
    data: list[SnapshotSummary]
    meta: PageMeta
