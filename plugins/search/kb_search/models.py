"""What search takes and gives. The models of what it gives are the published wire objects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from kb_framework.api.models import Body, ErrorV1, Id, Model, Question, Tag, Text, Time
from kb_framework.api.selection import Filtered

Mode = Literal["lexical", "vector", "hybrid"]
Trust = Literal["primary", "secondary", "generated"]

MAX_QUERIES = 100
_LONGEST_QUERY = 10_000
_LONGEST_NAME = 1000


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Query = Annotated[
    Text,
    Field(max_length=_LONGEST_QUERY, description="What to look for."),
    AfterValidator(_not_blank),
]
Name = Annotated[Text, Field(max_length=_LONGEST_NAME)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]


class SearchIn(Filtered):
    """A search. Filters are combined with AND; an empty list is no filter. Further fields are filters that plugins offer."""

    query: Query
    mode: Annotated[Mode, Field(description="By words, by meaning, or both.")] = "hybrid"
    k: Annotated[int, Field(ge=1, le=100, description="How many hits at most.")] = 10
    max_tokens: Annotated[
        Tokens | None, Field(description="What the answer may cost, in tokens.")
    ] = None
    snippet_chars: Annotated[
        int, Field(ge=20, le=10_000, description="How long a snippet may be.")
    ] = 300
    cursor: Annotated[
        Name | None,
        Field(description="`next_cursor` of the page before, all else the same."),
    ] = None
    trace: Annotated[bool, Field(description="Show how the hits were found.")] = False
    syntax: Annotated[
        bool,
        Field(
            description='Read the query as: word "a phrase" -word title:word word*; all must match.'
        ),
    ] = False
    facets: Annotated[
        bool, Field(description="Count all matches by tag, type, language, media.")
    ] = False
    group: Annotated[
        Literal["document"] | None,
        Field(description="`document`: one hit per document; `more` counts its other matches."),
    ] = None
    tag: Annotated[list[Tag] | None, Field(description="Has ANY of these tags.")] = None
    tags: Annotated[list[Tag] | None, Field(description="Has ALL of these tags.")] = None
    tags_match: Annotated[
        Literal["any", "all"], Field(description="`any`: one of `tags` is enough.")
    ] = "all"
    lang: Annotated[Name | None, Field(description="Is in this language: en, …")] = None
    path_glob: Annotated[
        Name | None,
        Field(description="Its path matches: `src/**`, `*.md`.", min_length=1),
    ] = None
    trust_min: Annotated[
        Trust | None,
        Field(description="Minimum trust: primary > secondary > generated."),
    ] = None
    media: Annotated[
        list[Name] | None,
        Field(description="Is of these kinds: markdown, pdf, …"),
    ] = None
    ingested_after: Annotated[Time | None, Field(description="Was indexed after this time.")] = None
    doc_id: Annotated[Id | None, Field(description="Is this document.")] = None
    doc_type: Annotated[Name | None, Field(description="Is of this type.")] = None


# A cursor is bound to all fields but these, which do not decide which hits there are and in which order.
UNBOUND = {
    "k",
    "max_tokens",
    "snippet_chars",
    "cursor",
    "trace",
    "facets",
}


class BulkSearchIn(Body):
    """Searches, each as for `/search`."""

    queries: Annotated[
        list[Any],
        Field(
            description='Up to 100 searches, each with the fields of one: {"query": "…", "k": 3}.',
            json_schema_extra={"items": {"type": "object"}, "maxItems": MAX_QUERIES},
        ),
    ]
    max_tokens: Annotated[
        Tokens | None,
        Field(
            description="What the whole answer may cost a model; a chunk's text is then sent once."
        ),
    ] = None


def _is_absent(value: Any) -> bool:
    return value is None


class Wire(Model):
    """What is sent has exactly these fields; the published schemas say so."""

    model_config = ConfigDict(extra="forbid")


class RetrievalOut(Wire):
    method: Mode
    fusion_score: float | None
    lexical_score: float | None
    vector_score: float | None
    lexical_rank: int | None
    vector_rank: int | None


class HitOut(Wire):
    """A hit; further fields are those that plugins added to chunks and want to be seen."""

    model_config = ConfigDict(extra="allow")

    rank: int
    score: float
    score_kind: Literal["bm25", "cosine", "fusion"]
    chunk_id: str
    doc_id: int
    doc_path: str | None
    title: str
    heading_path: list[str]
    snippet: Annotated[
        str | None, Field(description="Null where `snippet_ref` says that it was sent before.")
    ]
    citation: str
    retrieval: RetrievalOut
    tags: list[str]
    doc_type: str
    lang: str | None
    media: str
    trust: Trust
    indexed_at: str | None
    chunk_kind: str | None
    usage_policy: str | None
    source_ref: Annotated[
        str | None,
        Field(description="Where the text is from, if that is known.", exclude_if=_is_absent),
    ] = None
    source_title: Annotated[
        str | None, Field(description="The title of that source.", exclude_if=_is_absent)
    ] = None
    more: Annotated[
        int | None,
        Field(
            description="With `group`: how many more chunks of the document match.",
            exclude_if=_is_absent,
        ),
    ] = None
    snippet_ref: Annotated[
        int | None,
        Field(
            description="In a bulk answer with a budget: the index of the result that has this chunk's snippet.",
            exclude_if=_is_absent,
        ),
    ] = None


class FacetOut(Wire):
    value: str | None
    count: int


class FacetsOut(Wire):
    """How many of the matching documents have each value, most frequent first."""

    documents: int
    tag: list[FacetOut]
    doc_type: list[FacetOut]
    lang: list[FacetOut]
    media: list[FacetOut]


class TracedOut(Wire):
    chunk_id: str
    rank: int
    score: float


class TraceOut(Wire):
    """How the hits were found: each retriever's list, the fused one, what was left out and why, and how long it took."""

    lists: dict[str, list[TracedOut]]
    fusion: list[TracedOut]
    degraded: dict[str, str]
    milliseconds: dict[str, float]
    revision: int


class SearchOut(Wire):
    schema_version: Literal["search_response.v1"]
    hits: list[HitOut]
    next_cursor: str | None
    truncated: Annotated[
        bool, Field(description="Whether `max_tokens` shortened snippets or dropped hits.")
    ]
    trace: TraceOut | None
    hint: str | None
    facets: Annotated[
        FacetsOut | None,
        Field(description="Only where they were asked for.", exclude_if=_is_absent),
    ] = None


class BulkSearchItem(Wire):
    """One search of many: either a response or an error."""

    schema_version: Literal["bulk_search_item.v1"]
    query: Annotated[Any, Field(description="The search as it was received.")]
    response: SearchOut | None
    error: ErrorV1 | None


class BulkCounts(Wire):
    total: int
    succeeded: int
    failed: int


class BulkSearchOut(Wire):
    schema_version: Literal["bulk_search_response.v1"]
    results: list[BulkSearchItem]
    summary: BulkCounts


class BulkSearchSummary(BulkCounts):
    """What the command line says on standard error after the results of many searches."""

    schema_version: Literal["bulk_search_summary.v1"]


class PlaceIn(Question):
    """A chunk, by its id or the beginning of it."""

    chunk_id: str


class PlaceOut(Wire):
    """Where a chunk stands."""

    chunk_id: str
    doc_id: int
    doc_path: str | None
    title: str
    citation: str
