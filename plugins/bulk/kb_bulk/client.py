"""Methods of the engine client: one per mutation kind, and the preview."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_framework.client import Engine, given
from kb_framework.plugins import Plugins


def build(plugins: Plugins, name: str) -> Callable[..., dict[str, Any]]:
    kind = next(kind for kind in plugins.kinds if f"bulk_{kind.name}" == name)

    def method(engine: Engine, **parameters: Any) -> dict[str, Any]:
        return engine.post(kind.path, given(**parameters))

    return method


def get_chunks(engine: Engine, chunk_ids: list[str], **options: Any) -> dict[str, Any]:
    return engine.post("/chunks/bulk", {"chunk_ids": chunk_ids, **given(**options)})


def bulk_preview(engine: Engine, operation: str, **parameters: Any) -> dict[str, Any]:
    return engine.post("/bulk/preview", {"operation": operation, **given(**parameters)})
