"""Methods of the engine client."""

from __future__ import annotations

from typing import Any

from kb_framework.client import Engine, given


def search(engine: Engine, query: str, **options: Any) -> dict[str, Any]:
    return engine.post("/search", {"query": query, **given(**options)})


def bulk_search(engine: Engine, queries: list[Any], max_tokens: int | None = None) -> dict[str, Any]:
    return engine.post("/search/bulk", {"queries": queries, **given(max_tokens=max_tokens)})


def find_chunk(engine: Engine, chunk_id: str) -> dict[str, Any]:
    return engine.get(f"/search/chunks/{chunk_id}")
