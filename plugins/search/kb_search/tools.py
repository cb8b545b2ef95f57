"""MCP tools: search. A model pays for what it reads, so answers have a budget unless another is given."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from kb_framework.client import Engine

# Enough for ten ordinary hits; what one search, and what many together, may cost.
SEARCH_TOKENS = 3000
BULK_TOKENS = 8000

Texts = list[str] | None


def search(
    engine: Engine,
    query: Annotated[str, Field(description="What to look for, in words.")],
    mode: Annotated[
        Literal["lexical", "vector", "hybrid"] | None,
        Field(description="By words, by meaning, or both."),
    ] = None,
    k: Annotated[int | None, Field(description="How many hits, 1 to 100; 10 by default.")] = None,
    max_tokens: Annotated[int, Field(description="What the answer may cost.")] = SEARCH_TOKENS,
    snippet_chars: int | None = None,
    cursor: Annotated[str | None, Field(description="next_cursor of the page before.")] = None,
    trace: bool | None = None,
    syntax: Annotated[
        bool | None, Field(description='Read query as: word "a phrase" -word title:word word*')
    ] = None,
    facets: Annotated[
        bool | None, Field(description="Count matches by tag, type, language, media.")
    ] = None,
    tag: Annotated[Texts, Field(description="Has ANY of these tags.")] = None,
    tags: Annotated[Texts, Field(description="Has ALL of these tags.")] = None,
    tags_match: Annotated[
        Literal["any", "all"] | None, Field(description="any: one of `tags` is enough.")
    ] = None,
    lang: str | None = None,
    path_glob: Annotated[str | None, Field(description="src/**")] = None,
    trust_min: Literal["primary", "secondary", "generated"] | None = None,
    media: Annotated[Texts, Field(description="markdown, pdf, …")] = None,
    ingested_after: Annotated[str | None, Field(description="ISO 8601")] = None,
    doc_id: int | None = None,
    doc_type: str | None = None,
) -> dict[str, Any]:
    """Search the knowledge base. Each hit has a snippet, a citation, and the chunk's and document's ids.

    `truncated` says that max_tokens shortened the answer; next_cursor leads to what is left.
    """
    options = {name: value for name, value in locals().items() if name not in {"engine", "query"}}
    return engine.search(query, **options)


def bulk_search(
    engine: Engine,
    queries: Annotated[
        list[Any],
        Field(
            description='Up to 100 searches, each with the fields of kb_search: {"query": "…", "k": 3}',
            json_schema_extra={"items": {"type": "object"}, "maxItems": 100},
        ),
    ],
    max_tokens: Annotated[int, Field(description="What the whole answer may cost.")] = BULK_TOKENS,
) -> dict[str, Any]:
    """Search for many things in one call; one that fails fails alone.

    A chunk that several queries find has its snippet once: snippet_ref is the index of the result that has it.
    """
    return engine.bulk_search(queries, max_tokens=max_tokens)
