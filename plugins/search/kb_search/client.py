"""Methods of the engine client."""

from __future__ import annotations

from typing import Any

from kb_framework.client import Engine, given


def search(engine: Engine, query: str, **options: Any) -> dict[str, Any]:
    return engine.post("/search", {"query": query, **given(**options)})
