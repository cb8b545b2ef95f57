"""The entry point of the embeddings plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_embedders() -> list[api.Embedder]:
    return [api.Embedder("wordllama", "kb_embeddings.wordllama:WordLlama")]
