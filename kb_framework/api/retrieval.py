"""What searches find, by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_framework.pipelines.columns import Candidates as Candidates
    from kb_framework.pipelines.columns import Hits as Hits
    from kb_framework.pipelines.columns import plain as plain
    from kb_framework.pipelines.retrieval import Retrieved as Retrieved

__getattr__ = lazily(
    __name__,
    {
        "kb_framework.pipelines.columns": "Candidates Hits plain",
        "kb_framework.pipelines.retrieval": "Retrieved",
    },
)
