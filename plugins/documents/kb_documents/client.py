"""Methods of the engine client: one function per request, shared by commands, tools and scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from kb_framework.client import Engine, given
from kb_framework.errors import InvalidInput, NotFound


def add_note(engine: Engine, text: str, **fields: Any) -> dict[str, Any]:
    return engine.post("/notes", {"text": text, **given(**fields)})


def add_file(engine: Engine, filename: str, data: bytes, **fields: Any) -> dict[str, Any]:
    return engine.upload("/documents", filename, data, given(**fields))


def queue_file(engine: Engine, filename: str, data: bytes, **fields: Any) -> dict[str, Any]:
    """Leave a file to a worker; its job."""
    form = {"fields": given(**fields), "files": [("file", filename, data)]}
    return json.loads(engine.request("POST", "/documents", params={"queue": "true"}, **form).body)[
        "job"
    ]


def add_files(
    engine: Engine, files: Sequence[tuple[str, bytes, Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Each file's name, content and fields; for each either its `response` or its `error`."""
    parts = [("files", name, data) for name, data, _ in files]
    fields = json.dumps([given(**fields) for _, _, fields in files])
    return engine.upload_files("/documents/batch", parts, {"fields": fields})["results"]


def list_documents(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/documents", **params)


def get_document(engine: Engine, document_id: int) -> dict[str, Any]:
    return engine.get(f"/documents/{document_id}")


def find_document(engine: Engine, named: str) -> dict[str, Any]:
    """Return the document with this id, path or title; a path may be longer or shorter than the one it is known by."""
    if named.isdecimal():
        return get_document(engine, int(named))
    asked = dict.fromkeys((named, PurePath(named).name))
    near = {
        item["id"]: item
        for q in asked
        if q
        for item in list_documents(engine, q=q, per_page=100)["data"]
    }
    found = [item for item in near.values() if _is_called(item, named)]
    if len(found) == 1:
        return found[0]
    listed = "\n".join(
        f"    {item['id']}  {item['path'] or item['title']}"
        for item in (found or [*near.values()])[:10]
    )
    if found:
        raise InvalidInput(f"{len(found)} documents are called {named!r}; give an id:\n{listed}")
    meant = f"; these are near:\n{listed}" if near else ""
    raise NotFound(
        f"no document has the id, path or title {named!r}{meant}",
        hint=None if near else "kb list lists documents",
    )


def _is_called(item: Mapping[str, Any], named: str) -> bool:
    if item["title"].casefold() == named.casefold() or item["path"] == named:
        return True
    # Whole folders and names must agree: `notes/a.md` is `~/notes/a.md`, and not `b-notes/a.md`.
    path = item["path"] or ""
    ends = f"/{named}".endswith(f"/{path}") or f"/{path}".endswith(f"/{named}")
    return bool(path) and ends


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


def merge_tags(engine: Engine, tags: list[str], into: str, **options: Any) -> dict[str, Any]:
    return engine.post("/tags/merge", {"tags": tags, "into": into, **given(**options)})


def list_jobs(engine: Engine, **params: Any) -> dict[str, Any]:
    return engine.get("/jobs", **params)


def get_job(engine: Engine, job_id: int) -> dict[str, Any]:
    return engine.get(f"/jobs/{job_id}")


def get_sources(engine: Engine, document_id: int) -> list[dict[str, Any]]:
    return engine.get(f"/documents/{document_id}/sources")["data"]


def start_upload(engine: Engine, filename: str, **fields: Any) -> dict[str, Any]:
    return engine.post("/uploads", {"filename": filename, **given(**fields)})


def append_upload(engine: Engine, upload_id: str, offset: int, data: bytes) -> dict[str, Any]:
    reply = engine.request("PUT", f"/uploads/{upload_id}", params={"offset": offset}, content=data)
    return json.loads(reply.body)


def finish_upload(engine: Engine, upload_id: str) -> dict[str, Any]:
    return engine.post(f"/uploads/{upload_id}/finish")
