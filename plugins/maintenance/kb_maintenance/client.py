"""Methods of the engine client: one function per request, shared by commands and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kb_framework.client import Engine, given


def export_archive(engine: Engine) -> Iterator[bytes]:
    return engine.download("/export")


def upload_import(engine: Engine, parts: Iterable[bytes], length: int) -> dict[str, Any]:
    return engine.send_parts("/import", parts, length)


def apply_import(engine: Engine, import_id: str) -> dict[str, Any]:
    return engine.post(f"/import/{import_id}/apply")


def discard_import(engine: Engine, import_id: str) -> None:
    engine.delete(f"/import/{import_id}")


def download_backup(engine: Engine) -> Iterator[bytes]:
    return engine.download("/backup")


def reindex(engine: Engine, embedder: str | None = None) -> dict[str, Any]:
    return engine.post("/reindex", given(embedder=embedder))


def compact(engine: Engine) -> dict[str, Any]:
    return engine.post("/reindex/compact")
