"""What the research routes take and give."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kb_framework.paging import PageMeta
from kb_framework.times import moment
from kb_framework.validation import Body, Model, Question, Tag, Text

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


class Filters(Question):
    """Where and when; every one that is given must hold."""

    tags: Annotated[
        Annotated[list[Tag], Field(min_length=1)] | None,
        Field(description="Only with all of these tags."),
    ] = None
    source_types: Annotated[
        Annotated[list[SourceType], Field(min_length=1)] | None,
        Field(description="Only from these types of source."),
    ] = None
    created_after: Annotated[
        Annotated[Text, AfterValidator(_after)] | None,
        Field(description="Not before this time, such as 2026-01-31."),
    ] = None
    created_before: Annotated[
        Annotated[Text, AfterValidator(_before)] | None, Field(description="Before this time.")
    ] = None
    path_prefix: Annotated[
        Annotated[Text, Field(min_length=1, max_length=4096)] | None,
        Field(description="Only files whose path begins so."),
    ] = None


class ResearchIn(Question):
    query: Annotated[
        Text, Field(max_length=5000, description="What to look for."), AfterValidator(_not_blank)
    ]
    filters: Annotated[
        Filters | None,
        Field(
            description="tags, source_types, created_after, created_before, path_prefix; all must hold."
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="How many snippets, 1 to 100.")] = 20


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

    snippet_text: Annotated[
        Text,
        Field(max_length=10_000, description="The text, as it is to be kept."),
        AfterValidator(_not_blank),
    ]
    chunk_kind: Annotated[Kind, Field(description="What it is; the person decides.")]
    usage_policy: Annotated[Policy, Field(description="What it may be used for.")] = "normal"
    source_type: Annotated[
        SourceType | None, Field(description="What kind of source it is from, such as web.")
    ] = None
    source_ref: Annotated[
        Annotated[Text, Field(min_length=1, max_length=2048)] | None,
        Field(description="Where it is from: an address or an id."),
    ] = None
    source_title: Annotated[
        Annotated[Text, Field(max_length=255), AfterValidator(_not_blank)] | None,
        Field(description="What the source is called."),
    ] = None
    reason: Annotated[
        Annotated[Text, Field(max_length=255)] | None, Field(description="Why, for the log.")
    ] = None


class SnippetAdded(Model):
    chunk_id: str
    document_id: int
    status: Literal["created", "exists"]

    @property
    def http_status(self) -> int:
        return 201 if self.status == "created" else 200
