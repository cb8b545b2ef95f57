"""MCP tools: curation of chunks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from kb_framework.client import Engine

Kind = Literal["fact", "angle", "example", "quote"]
Policy = Literal["normal", "inspiration_only", "never_generate"]
Reason = Annotated[str | None, Field(description="Why, for the log.")]


def list_chunks(
    engine: Engine,
    q: Annotated[str | None, Field(description="Words of the text or title.")] = None,
    kind: Kind | None = None,
    status: Literal["active", "inactive", "all"] = "active",
    policy: Policy | None = None,
    source_type: str | None = None,
    page: int = 1,
    per_page: int = 20,
) -> dict[str, Any]:
    """List chunks with their curation, whether they can be found or not. To find text for an answer, search instead."""
    return engine.list_chunks(q=q, kind=kind, status=status, policy=policy, source_type=source_type, page=page, per_page=per_page)


def show(engine: Engine, chunk_id: str) -> dict[str, Any]:
    """One chunk: text, metadata, curation and its last events."""
    return engine.get_chunk(chunk_id)


def deactivate(engine: Engine, chunk_id: str, reason: Reason = None) -> dict[str, Any]:
    """Take a chunk out of every search. It can be activated again."""
    return engine.deactivate_chunk(chunk_id, reason=reason)


def activate(engine: Engine, chunk_id: str, reason: Reason = None) -> dict[str, Any]:
    """Let a chunk be found again."""
    return engine.activate_chunk(chunk_id, reason=reason)


def reclassify(engine: Engine, chunk_id: str, chunk_kind: Kind, reason: Reason = None) -> dict[str, Any]:
    """Say what a chunk is: a fact, an angle (a view to write from), an example or a quote."""
    return engine.reclassify_chunk(chunk_id, chunk_kind, reason=reason)


def set_policy(engine: Engine, chunk_id: str, usage_policy: Policy, reason: Reason = None) -> dict[str, Any]:
    """Say what a chunk may be used for: anything, inspiration only (never stated as fact), or no generation at all."""
    return engine.set_chunk_policy(chunk_id, usage_policy, reason=reason)


def history(engine: Engine, chunk_id: str, page: int = 1, per_page: int = 20) -> dict[str, Any]:
    """Every event of a chunk, newest first: who changed what, and why. Also of a chunk that is gone."""
    return engine.chunk_history(chunk_id, page=page, per_page=per_page)


def impact(engine: Engine, chunk_id: str, page: int = 1, per_page: int = 20) -> dict[str, Any]:
    """The snapshots (contexts and answers) that a chunk was used for, newest first."""
    return engine.chunk_impact(chunk_id, page=page, per_page=per_page)


def delete(engine: Engine, chunk_id: str, confirm: bool = False, reason: Reason = None) -> dict[str, Any]:
    """Delete a chunk for good; `confirm` must be true. Ask the person first; deactivating can be undone."""
    engine.delete_chunk(chunk_id, confirm=confirm, reason=reason)
    return {"chunk_id": chunk_id, "deleted": True}
