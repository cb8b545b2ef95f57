"""Hooks that the knowledge plugin calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kb_framework import api
from kb_framework.api.hooks import hookspec

if TYPE_CHECKING:
    from kb_framework.api.parts import Tx

# In flight


@hookspec
def kb_gate_hits(
    query: api.RetrievalQuery, hits: list[api.ScoredChunk], tx: Tx
) -> Iterable[api.Rejection]:  # type: ignore[empty-body]
    """Reject hits that are not relevant to the question, before a context is made of them.

    Called once per context with the best hits, best first, every gate every time. Return rejections; what any gate rejects is
    left out, and its reason is kept with the snapshot. An exception stops the assembly.

    ```python
    from kb_framework import api, hookimpl

    @hookimpl
    def kb_gate_hits(hits):
        return [api.Rejection(hit.chunk, "too short to say anything") for hit in hits if len(hit.content) < 10]
    ```
    """
