"""Operations of documents and maintenance that other plugins still serve by hand-written routes, called here the same way."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.api import Actor, Http, Operation
from kb_framework.paging import PageIn, PageMeta
from kb_framework.validation import JsonObject, Question, Tag, Tags, Text

_HERE = "kb_console.not_yet_operations"


class DocumentsIn(PageIn):
    tags: Annotated[list[Tag] | None, Field(description="Has ALL of these tags.")] = None
    doc_type: Annotated[Text | None, Field(description="Is of this type.")] = None
    q: Annotated[Text | None, Field(description="Title or path contains this.")] = None
    sort: Annotated[Text, Field(description="A field, with - for descending.")] = "id"
    missing: Annotated[
        bool, Field(description="Only those whose files vanished from a synced folder.")
    ] = False


class DocumentRef(Question):
    document_id: int


class TagsIn(Question):
    document_id: int
    tags: Tags


class PatchIn(Question):
    document_id: int
    title: Text | None = None
    doc_type: Text | None = None
    metadata: JsonObject | None = None
    trust: Text | None = None


class JobsIn(PageIn):
    job_type: Text | None = None
    status: Text | None = None


class JobRef(Question):
    job_id: int


class NoteIn(Question):
    text: Text
    title: Text | None = None
    tags: Tags = []


def _operation(
    name: str, method: Any, path: str, model: str, permission: str = "documents.read"
) -> Operation[Any, Any]:
    return Operation(
        name,
        f"console_not_yet.{name}",
        permission,
        Http(method, path, by_hand=True),
        input=f"{_HERE}:{model}",
    )


OPERATIONS = {
    item.name: item
    for item in (
        _operation("list_documents", "GET", "/documents", "DocumentsIn"),
        _operation("get_document", "GET", "/documents/{document_id:int}", "DocumentRef"),
        _operation(
            "get_document_chunks", "GET", "/documents/{document_id:int}/chunks", "DocumentRef"
        ),
        _operation("get_sources", "GET", "/documents/{document_id:int}/sources", "DocumentRef"),
        _operation("get_file", "GET", "/documents/{document_id:int}/file", "DocumentRef"),
        _operation(
            "delete_document",
            "DELETE",
            "/documents/{document_id:int}",
            "DocumentRef",
            "documents.delete",
        ),
        _operation(
            "set_document_tags",
            "PUT",
            "/documents/{document_id:int}/tags",
            "TagsIn",
            "documents.write",
        ),
        _operation(
            "update_document", "PATCH", "/documents/{document_id:int}", "PatchIn", "documents.write"
        ),
        _operation("list_tags", "GET", "/tags", "PageInAlone"),
        _operation("list_jobs", "GET", "/jobs", "JobsIn"),
        _operation("get_job", "GET", "/jobs/{job_id:int}", "JobRef"),
        _operation("add_note", "POST", "/notes", "NoteIn", "documents.write"),
        _operation("doctor", "GET", "/doctor", "Nothing", "engine.operate"),
        _operation("repair", "POST", "/doctor/repair", "Nothing", "engine.operate"),
    )
}


class PageInAlone(PageIn):
    """Which page of a list."""


class Nothing(Question):
    """No fields."""


class NotYet:
    """Calls the services behind those routes."""

    def __init__(self, documents: Any, doctor: Any = None) -> None:
        self._documents = documents
        self._doctor = doctor

    def list_documents(self, asked: DocumentsIn, actor: Actor) -> dict[str, Any]:
        data, meta, hint = self._documents.list(
            actor,
            asked.wanted,
            asked.tags or [],
            asked.doc_type,
            asked.q,
            asked.sort,
            asked.missing,
        )
        return {**_page(data, meta), "hint": hint}

    def get_document(self, asked: DocumentRef, actor: Actor) -> Any:
        return self._documents.get(asked.document_id, actor)

    def get_document_chunks(self, asked: DocumentRef, actor: Actor) -> Any:
        return {"data": self._documents.chunks(asked.document_id, actor)}

    def get_sources(self, asked: DocumentRef, actor: Actor) -> Any:
        return self._documents.sources(asked.document_id, actor)

    def get_file(self, asked: DocumentRef, actor: Actor) -> Any:
        return self._documents.file(asked.document_id, actor)

    def delete_document(self, asked: DocumentRef, actor: Actor) -> None:
        self._documents.delete(asked.document_id, actor)

    def set_document_tags(self, asked: TagsIn, actor: Actor) -> Any:
        return self._documents.set_tags(asked.document_id, asked.tags, actor)

    def update_document(self, asked: PatchIn, actor: Actor) -> Any:
        from kb_documents.models import DocumentPatch

        given = asked.model_dump(exclude={"document_id"}, exclude_none=True)
        return self._documents.update(asked.document_id, DocumentPatch(**given), actor)

    def list_tags(self, asked: PageIn, actor: Actor) -> Any:
        return _page(*self._documents.tags(actor, asked.wanted))

    def list_jobs(self, asked: JobsIn, actor: Actor) -> Any:
        return _page(*self._documents.jobs(actor, asked.wanted, asked.job_type, asked.status))

    def get_job(self, asked: JobRef, actor: Actor) -> Any:
        return self._documents.job(asked.job_id, actor)

    def add_note(self, asked: NoteIn, actor: Actor) -> Any:
        from kb_documents.models import NoteIn as Note

        return self._documents.add_note(Note(**asked.model_dump(exclude_none=True)), actor)

    def doctor(self, _: Question, actor: Actor) -> Any:
        return self._doctor.report()

    def repair(self, _: Question, actor: Actor) -> Any:
        return self._doctor.repair()


def _page(data: Any, meta: PageMeta) -> dict[str, Any]:
    rows = [item if isinstance(item, dict) else item.model_dump(mode="json") for item in data]
    return {"data": rows, "meta": meta.model_dump()}
