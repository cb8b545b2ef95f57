"""What the counts of documents and tags take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from kb_framework.api.models import Model, Question, Text
from kb_framework.api.paging import Hint
from kb_framework.api.parts import Plugins
from kb_framework.api.selection import Filtered, with_filters

FacetName = Literal["tag", "doc_type", "lang", "media", "trust", "month"]
FACETS: tuple[FacetName, ...] = ("tag", "doc_type", "lang", "media", "trust", "month")
Date = Annotated[Text, Field(max_length=10)]


def _is_absent(value: Any) -> bool:
    return value is None


class FacetsIn(Filtered):
    """What documents are counted by, and which are counted: those that all filters select, or all."""

    by: Annotated[
        list[FacetName] | None,
        Field(description="What to count by; by everything if it is left out."),
    ] = None
    top: Annotated[
        int, Field(ge=1, le=200, description="How many values of each, the most frequent first.")
    ] = 20


def facets_model(plugins: Plugins) -> type[FacetsIn]:
    return with_filters("DocumentFacetsIn", FacetsIn, plugins, "documents")


class Facet(Model):
    """How many documents have a value."""

    value: str | None
    count: int


Values = Annotated[
    list[Facet] | None,
    Field(description="Only where it was asked for.", exclude_if=_is_absent),
]


class FacetsOut(Model):
    """How many documents are selected, and how many of them have each value. Months are in order, those with most documents."""

    documents: int
    tag: Values = None
    doc_type: Values = None
    lang: Values = None
    media: Values = None
    trust: Values = None
    month: Values = None
    hint: Hint = None


class GrowthIn(Filtered):
    """A period, and which documents are counted: those that all filters select, or all."""

    since: Annotated[
        Date | None, Field(description="The first day, in UTC; 29 days before the last.")
    ] = None
    until: Annotated[Date | None, Field(description="The last day, in UTC; today.")] = None


def growth_model(plugins: Plugins) -> type[GrowthIn]:
    return with_filters("GrowthIn", GrowthIn, plugins, "documents")


class Day(Model):
    day: str
    count: int


class Growth(Model):
    """How many of the documents that are there now were added on each day, and before the first."""

    since: str
    until: str
    before: int
    added: int
    days: list[Day]


class TagPrefixIn(Question):
    """The beginning of a tag."""

    prefix: Annotated[
        Annotated[Text, Field(max_length=128)] | None,
        Field(description="How the tag begins, in any case."),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="How many tags at most.")] = 10


class TagUse(Model):
    """A tag, and how many documents have it."""

    tag: str
    count: int


class TagCompletions(Model):
    data: list[TagUse]
