"""What the research routes take and give."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kb_framework.paging import PageMeta
from kb_framework.times import moment
from kb_framework.validation import Body, Model, Tag, Text

Kind = Literal["fact", "angle", "example", "quote"]
Policy = Literal["normal", "inspiration_only", "never_generate"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _after(text: str) -> str:
    return moment(text, "filters.created_after")


def _before(text: str) -> str:
    return moment(text, "filters.created_before")


SourceType = Annotated[Text, Field(min_length=1, max_length=32)]


class Filters(Body):
    """Where and when; every one that is given must hold."""

    tags: Annotated[list[Tag], Field(min_length=1, description="Has all of these.")] | None = None
    source_types: Annotated[list[SourceType], Field(min_length=1, description="Is one of these.")] | None = None
    created_after: Annotated[Text, AfterValidator(_after)] | None = None
    created_before: Annotated[Text, AfterValidator(_before)] | None = None
    path_prefix: Annotated[Text, Field(min_length=1, max_length=4096)] | None = None


class ResearchIn(Body):
    query: Annotated[Text, Field(max_length=5000), AfterValidator(_not_blank)]
    filters: Filters | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class Result(Model):
    """A snippet with all that is needed to add it. `chunk_id` is set where it is here already."""

    snippet_text: str
    score: float
    source: str
    source_type: str
    source_ref: str | None
    source_title: str | None
    suggested_kind: Kind
    suggested_policy: Policy
    chunk_id: str | None = None
    document_id: int | None = None


class ResearchOut(Model):
    results: list[Result]
    saved_id: str
    hint: str | None = None


class SavedItem(Model):
    id: str
    user_id: str
    query: str
    results: list[Result]
    created_at: str


class SavedPage(Model):
    data: list[SavedItem]
    meta: PageMeta


class AddIn(Body):
    """What to add, and as what: `chunk_kind` is a decision that nothing takes for you."""

    snippet_text: Annotated[Text, Field(max_length=10_000), AfterValidator(_not_blank)]
    chunk_kind: Kind
    usage_policy: Policy = "normal"
    source_type: SourceType | None = None
    source_ref: Annotated[Text, Field(min_length=1, max_length=2048)] | None = None
    source_title: Annotated[Text, Field(max_length=255), AfterValidator(_not_blank)] | None = None
    reason: Annotated[Text, Field(max_length=255)] | None = None


class SnippetAdded(Model):
    chunk_id: str
    document_id: int
    status: Literal["created", "exists"]
