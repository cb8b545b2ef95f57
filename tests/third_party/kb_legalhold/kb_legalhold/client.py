"""Methods of the engine client: one function per request, shared by commands, tools and scripts."""

from __future__ import annotations

from typing import Any

from kb_framework.client import Engine, given


def list_holds(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/legal-holds", **params)


def place_hold(engine: Engine, document_ids: list[int], **fields: Any) -> dict[str, Any]:
    return engine.post("/legal-holds", {"document_ids": document_ids, **given(**fields)})


def release_hold(engine: Engine, document_ids: list[int], **fields: Any) -> dict[str, Any]:
    return engine.post("/legal-holds/release", {"document_ids": document_ids, **given(**fields)})
