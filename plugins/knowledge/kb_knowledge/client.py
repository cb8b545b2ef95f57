"""The method of the engine client that no operation makes: an answer in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kb_framework.client import Engine, given
from kb_framework.errors import EngineError


def stream_answer(engine: Engine, query: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield `{"text": …}` for each piece of an answer as it comes, at last `{"asked": …}`, which `ask` returns."""
    for line in engine.lines("/knowledge/ask/stream", {"query": query, **given(**options)}):
        if "error" in line:
            raise EngineError(line["status"], line["error"])
        yield line
