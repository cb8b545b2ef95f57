"""Methods of the engine client."""

from __future__ import annotations

from typing import Any

from kb_framework.client import Engine, given


def research_search(engine: Engine, query: str, **options: Any) -> dict[str, Any]:
    return engine.post("/research/search", {"query": query, **given(**options)})


def research_recent(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/research/recent", **params)


def research_add(engine: Engine, snippet_text: str, chunk_kind: str, **fields: Any) -> dict[str, Any]:
    return engine.post("/research/add-to-knowledge", {"snippet_text": snippet_text, "chunk_kind": chunk_kind, **given(**fields)})
