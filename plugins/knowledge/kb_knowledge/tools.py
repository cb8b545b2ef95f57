"""MCP tools: deleting a chunk, a context, and an answer that a client's model may give."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.api import Sample
from kb_framework.client import Engine

_ANSWER_TOKENS = 1024

Reason = Annotated[str | None, Field(description="Why, for the log.")]
TopK = Annotated[int | None, Field(description="How many candidates are looked at, 1 to 100.")]
MaxTokens = Annotated[int | None, Field(description="How long the prompt may be.")]
# Named one by one, the filters would be most of what a model reads of these tools.
Filters = Annotated[
    dict[str, Any] | None, Field(description='Selection filters, such as {"tags": ["a"]}.')
]
Ids = Annotated[list[str] | None, Field(description="Chunk ids.")]


def delete(
    engine: Engine, chunk_id: str, confirm: bool = False, reason: Reason = None
) -> dict[str, Any]:
    """Delete a chunk for good; `confirm` must be true. Ask the person first; deactivating can be undone."""
    engine.delete_chunk(chunk_id, confirm=confirm, reason=reason)
    return {"chunk_id": chunk_id, "deleted": True}


def context(
    engine: Engine,
    query: str,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    filters: Filters = None,
    pin: Ids = None,
    exclude: Ids = None,
) -> dict[str, Any]:
    """The knowledge to answer a question from: facts, angles, examples, quotes, and a prompt with the rules for each.

    Cite the labels, such as [F1], and name the snapshot_id.
    """
    return engine.knowledge_context(
        query, top_k=top_k, max_tokens=max_tokens, filters=filters, pin=pin, exclude=exclude
    )


def ask(
    engine: Engine,
    sample: Sample,
    query: str,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    filters: Filters = None,
    pin: Ids = None,
    exclude: Ids = None,
) -> dict[str, Any]:
    """Have a question answered from the knowledge base, with checked citations; without a generator, the context comes back."""
    said = sample.answer
    if said is None:
        asked = engine.ask(
            query, top_k=top_k, max_tokens=max_tokens, filters=filters, pin=pin, exclude=exclude
        )
        if asked["answer"] is not None or not sample.possible:
            return asked
        # Nothing here generates, but the client has a model.
        said = sample(asked["context"]["prompt"], _ANSWER_TOKENS, asked["snapshot_id"])
    return {
        "answer": engine.answer_snapshot(said.state, said.text, said.model),
        "snapshot_id": said.state,
    }
