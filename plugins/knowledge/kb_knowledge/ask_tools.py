"""MCP tools: contexts and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.client import Engine

TopK = Annotated[int | None, Field(description="How many candidates are looked at, 1 to 100.")]
MaxTokens = Annotated[int | None, Field(description="How long the prompt may be.")]
Filters = Annotated[dict[str, Any] | None, Field(description='Selection filters, such as {"tags": ["a"]}.')]
Ids = Annotated[list[str] | None, Field(description="Chunk ids.")]


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
    return engine.knowledge_context(query, top_k=top_k, max_tokens=max_tokens, filters=filters, pin=pin, exclude=exclude)


def ask(
    engine: Engine,
    query: str,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    filters: Filters = None,
    pin: Ids = None,
    exclude: Ids = None,
) -> dict[str, Any]:
    """Have a question answered from the knowledge base, with checked citations; without a generator, the context comes back."""
    return engine.ask(query, top_k=top_k, max_tokens=max_tokens, filters=filters, pin=pin, exclude=exclude)
