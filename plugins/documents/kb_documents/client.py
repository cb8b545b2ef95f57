"""Methods of the engine client: one function per request, shared by commands, tools and scripts."""

from __future__ import annotations

from typing import Any

from kb_framework.client import Engine


def list_documents(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/documents", **params)
