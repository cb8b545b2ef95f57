"""MCP tools that are more than one call: deleting a chunk, and an answer that a client's model may give."""

from __future__ import annotations

from typing import Any

from kb_framework.api import Operation, Sample
from kb_framework.api.client import Engine

_ANSWER_TOKENS = 1024


def delete(
    engine: Engine, operation: Operation[Any, Any], *, chunk_id: str, **given: Any
) -> dict[str, Any]:
    """Delete a chunk, and say so: the operation itself answers nothing."""
    engine.run(operation, {"chunk_id": chunk_id, **given})
    return {"chunk_id": chunk_id, "deleted": True}


def ask(
    engine: Engine, operation: Operation[Any, Any], sample: Sample, **question: Any
) -> dict[str, Any]:
    """Answer by the engine's generator; where there is none, by the model of the client."""
    said = sample.answer
    if said is None:
        asked = engine.run(operation, question)
        if asked["answer"] is not None or not sample.possible:
            return asked
        said = sample(asked["context"]["prompt"], _ANSWER_TOKENS, asked["snapshot_id"])
    return {
        "answer": engine.answer_snapshot(said.state, said.text, said.model),
        "snapshot_id": said.state,
    }
