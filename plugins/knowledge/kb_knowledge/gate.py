"""The default gate: a hit must hold enough of the question, by its words or by its meaning."""

from __future__ import annotations

from kb_framework.api import Rejection, ScoredChunk


def reject(text: str, hits: list[ScoredChunk]) -> list[Rejection]:
    return []
