"""Methods of the engine client: one function per request, shared by commands, tools and scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kb_framework.client import Engine, given


def add_note(engine: Engine, text: str, **fields: Any) -> dict[str, Any]:
    return engine.post("/notes", {"text": text, **given(**fields)})


def add_file(engine: Engine, filename: str, data: bytes, **fields: Any) -> dict[str, Any]:
    return engine.upload("/documents", filename, data, given(**fields))


def queue_file(engine: Engine, filename: str, data: bytes, **fields: Any) -> dict[str, Any]:
    """Leave a file to a worker; its job."""
    form = {"fields": given(**fields), "files": [("file", filename, data)]}
    return json.loads(engine.request("POST", "/documents", params={"queue": "true"}, **form).body)["job"]


def add_files(engine: Engine, files: Sequence[tuple[str, bytes, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Each file's name, content and fields; for each either its `response` or its `error`."""
    parts = [("files", name, data) for name, data, _ in files]
    fields = json.dumps([given(**fields) for _, _, fields in files])
    return engine.upload_files("/documents/batch", parts, {"fields": fields})["results"]


def list_documents(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/documents", **params)


def get_document(engine: Engine, document_id: int) -> dict[str, Any]:
    return engine.get(f"/documents/{document_id}")


def get_document_chunks(engine: Engine, document_id: int) -> list[dict[str, Any]]:
    return engine.get(f"/documents/{document_id}/chunks")["data"]


def get_file(engine: Engine, document_id: int) -> bytes:
    return engine.request("GET", f"/documents/{document_id}/file").body


def delete_document(engine: Engine, document_id: int) -> None:
    engine.delete(f"/documents/{document_id}")


def set_document_tags(engine: Engine, document_id: int, tags: list[str]) -> dict[str, Any]:
    return engine.put(f"/documents/{document_id}/tags", {"tags": tags})


def update_document(engine: Engine, document_id: int, **fields: Any) -> dict[str, Any]:
    return engine.patch(f"/documents/{document_id}", given(**fields))


def list_tags(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/tags", **params)


def rename_tag(engine: Engine, old: str, new: str) -> dict[str, Any]:
    return engine.post("/tags/rename", {"old": old, "new": new})


def merge_tags(engine: Engine, tags: list[str], into: str) -> dict[str, Any]:
    return engine.post("/tags/merge", {"tags": tags, "into": into})


def list_jobs(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/jobs", **params)


def get_job(engine: Engine, job_id: int) -> dict[str, Any]:
    return engine.get(f"/jobs/{job_id}")


def get_sources(engine: Engine, document_id: int) -> list[dict[str, Any]]:
    return engine.get(f"/documents/{document_id}/sources")["data"]


def compare_sources(engine: Engine, files: list[dict[str, Any]], root: str | None = None, **options: Any) -> dict[str, Any]:
    return engine.post("/sources/compare", {"files": files, **given(root=root, **options)})


def forget_sources(engine: Engine, sources: list[str], **options: Any) -> dict[str, Any]:
    return engine.post("/sources/forget", {"sources": sources, **given(**options)})


def start_upload(engine: Engine, filename: str, **fields: Any) -> dict[str, Any]:
    return engine.post("/uploads", {"filename": filename, **given(**fields)})


def append_upload(engine: Engine, upload_id: str, offset: int, data: bytes) -> dict[str, Any]:
    reply = engine.request("PUT", f"/uploads/{upload_id}", params={"offset": offset}, content=data)
    return json.loads(reply.body)


def finish_upload(engine: Engine, upload_id: str) -> dict[str, Any]:
    return engine.post(f"/uploads/{upload_id}/finish")
