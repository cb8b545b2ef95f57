"""MCP tools: search."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from kb_framework.client import Engine


def search(
    engine: Engine,
    query: Annotated[str, Field(description="What to look for, in words.")],
    mode: Literal["lexical", "vector", "hybrid"] | None = None,
    k: Annotated[int | None, Field(description="How many hits, 1 to 100; 10 by default.")] = None,
    tags: Annotated[list[str] | None, Field(description="Only documents with any of these tags.")] = None,
    doc_type: str | None = None,
    doc_id: int | None = None,
) -> dict[str, Any]:
    """Search the knowledge base. Each hit has a snippet, a citation, and the chunk's and document's ids."""
    return engine.search(query, mode=mode, k=k, tags=tags, doc_type=doc_type, doc_id=doc_id)
