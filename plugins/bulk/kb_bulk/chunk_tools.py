"""MCP tools: chunks by id."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.client import Engine


def get_chunks(
    engine: Engine,
    chunk_ids: Annotated[list[str], Field(description="Ids of chunks, as search gives them; 1 to 100.")],
    include_source: Annotated[bool, Field(description="Also the job that each chunk came from.")] = False,
    include_embeddings: Annotated[bool, Field(description="Also the vectors: hundreds of numbers for each chunk.")] = False,
) -> dict[str, Any]:
    """Get the whole text of chunks by their ids, in one call. Ordered by id; what is not there is listed in `not_found`."""
    return engine.get_chunks(chunk_ids, include_source=include_source or None, include_embeddings=include_embeddings or None)
