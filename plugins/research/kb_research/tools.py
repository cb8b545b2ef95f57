"""MCP tools: research."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from kb_framework.client import Engine


def search(
    engine: Engine,
    query: str,
    filters: Annotated[
        dict[str, Any] | None,
        Field(description="tags, source_types, created_after, created_before, path_prefix; all must hold."),
    ] = None,
    limit: Annotated[int | None, Field(description="How many snippets, 1 to 100.")] = None,
) -> dict[str, Any]:
    """Search the knowledge base and sources beyond it for whole snippets that could be added with kb_research_add."""
    return engine.research_search(query, filters=filters, limit=limit)


def add(
    engine: Engine,
    snippet_text: str,
    chunk_kind: Annotated[Literal["fact", "angle", "example", "quote"], Field(description="What it is; the person decides.")],
    usage_policy: Literal["normal", "inspiration_only", "never_generate"] | None = None,
    source_type: str | None = None,
    source_ref: str | None = None,
    source_title: str | None = None,
    reason: Annotated[str | None, Field(description="Why, for the log.")] = None,
) -> dict[str, Any]:
    """Add a snippet to the knowledge base as a chunk of this kind. What was pruned is refused, not brought back."""
    return engine.research_add(
        snippet_text,
        chunk_kind,
        usage_policy=usage_policy,
        source_type=source_type,
        source_ref=source_ref,
        source_title=source_title,
        reason=reason,
    )
