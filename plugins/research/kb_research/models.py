"""What the research routes take and give."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from kb_framework.api.models import Body, Model, Question, Text
from kb_framework.api.paging import PageMeta
from kb_framework.api.parts import Plugins
from kb_framework.api.selection import Filtered, with_filters

Kind = Literal["fact", "angle", "example", "quote"]
Policy = Literal["normal", "inspiration_only", "never_generate"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


SourceType = Annotated[Text, Field(min_length=1, max_length=32)]


class Filters(Filtered):
    """Which snippets; every filter that is given must hold. Further fields are filters that plugins offer."""

    source_types: Annotated[
        list[SourceType] | None,
        Field(description="Only from these types of source."),
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
        Field(description="Only snippets that all of these select."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="How many snippets, 1 to 100.")] = 20


def research_model(plugins: Plugins) -> type[ResearchIn]:
    """Return the model of a search with every filter that plugins offer."""
    return _research_model(with_filters("ResearchFilters", Filters, plugins, "chunks"))


@functools.lru_cache(maxsize=8)
def _research_model(filters: Any) -> type[ResearchIn]:
    words = "Only snippets that all of these select."
    field: Any = (Annotated[filters | None, Field(description=words)], None)
    return create_model("ResearchSearch", __base__=ResearchIn, filters=field)


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


class SavedIn(Question):
    """Which search is meant."""

    saved_id: Annotated[str, Field(description="The search's `saved_id`.")]


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
