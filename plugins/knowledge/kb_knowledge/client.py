"""Methods of the engine client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kb_framework.client import Engine, given


def list_chunks(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/knowledge/chunks", **params)


def get_chunk(engine: Engine, chunk_id: str) -> dict[str, Any]:
    return engine.get(f"/knowledge/chunks/{chunk_id}")


def deactivate_chunk(engine: Engine, chunk_id: str, reason: str | None = None) -> dict[str, Any]:
    return engine.post(f"/knowledge/chunks/{chunk_id}/deactivate", given(reason=reason))


def activate_chunk(engine: Engine, chunk_id: str, reason: str | None = None) -> dict[str, Any]:
    return engine.post(f"/knowledge/chunks/{chunk_id}/activate", given(reason=reason))


def reclassify_chunk(engine: Engine, chunk_id: str, chunk_kind: str, reason: str | None = None) -> dict[str, Any]:
    return engine.post(f"/knowledge/chunks/{chunk_id}/reclassify", {"chunk_kind": chunk_kind, **given(reason=reason)})


def set_chunk_policy(engine: Engine, chunk_id: str, usage_policy: str, reason: str | None = None) -> dict[str, Any]:
    return engine.post(f"/knowledge/chunks/{chunk_id}/set-policy", {"usage_policy": usage_policy, **given(reason=reason)})


def delete_chunk(engine: Engine, chunk_id: str, *, confirm: bool = False, reason: str | None = None) -> None:
    engine.delete(f"/knowledge/chunks/{chunk_id}", confirm="true" if confirm else None, reason=reason)


def chunk_history(engine: Engine, chunk_id: str, **params: Any) -> dict[str, Any]:
    return engine.get(f"/knowledge/chunks/{chunk_id}/events", **params)


def list_events(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/knowledge/events", **params)


def export_events(engine: Engine, **params: Any) -> Iterator[bytes]:
    return engine.download("/knowledge/events/export", **params)


def list_left_over(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/knowledge/left-over", **params)


def knowledge_context(engine: Engine, query: str, **options: Any) -> dict[str, Any]:
    return engine.post("/knowledge/context", {"query": query, **given(**options)})


def ask(engine: Engine, query: str, **options: Any) -> dict[str, Any]:
    return engine.post("/knowledge/ask", {"query": query, **given(**options)})


def list_snapshots(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/knowledge/snapshots", **params)


def get_snapshot(engine: Engine, snapshot_id: str) -> dict[str, Any]:
    return engine.get(f"/knowledge/snapshots/{snapshot_id}")


def answer_snapshot(engine: Engine, snapshot_id: str, text: str, model: str) -> dict[str, Any]:
    return engine.put(f"/knowledge/snapshots/{snapshot_id}/answer", {"text": text, "model": model})


def chunk_impact(engine: Engine, chunk_id: str, **params: Any) -> dict[str, Any]:
    return engine.get(f"/knowledge/chunks/{chunk_id}/impact", **params)
