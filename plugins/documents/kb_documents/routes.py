"""HTTP: documents, notes, tags, jobs, uploads."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from litestar import Response, delete, get, patch, post, put
from litestar.datastructures import UploadFile
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, MultipartBody, QueryParameter, RawBody
from litestar.response import Stream
from litestar.status_codes import HTTP_200_OK, HTTP_201_CREATED, HTTP_202_ACCEPTED
from pydantic import ConfigDict

from kb_documents import models
from kb_documents.service import DocumentsService
from kb_documents.source_models import SourceList
from kb_documents.uploads import UploadsService
from kb_framework.api import Actor
from kb_framework.bootstrap import split_list
from kb_framework.edges.http.params import (
    Answer,
    DocumentId,
    PageNumber,
    PerPage,
    QueryText,
    TagList,
    upload_bytes,
)
from kb_framework.errors import InvalidInput
from kb_framework.paging import Page
from kb_framework.validation import Model, clean_tag, validate


class FileUpload(Model):
    """A file with what to know about it; lists are comma-separated or repeated, metadata is a JSON object."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    file: UploadFile
    tags: list[str] | str | None = None
    doc_type: str | None = None
    title: str | None = None
    path: str | None = None
    metadata: str | None = None
    lang: str | None = None
    trust: str | None = None
    source_ref: str | None = None
    source_title: str | None = None
    source: str | None = None
    modified_ns: str | None = None
    stamp: str | None = None

    def fields(self) -> models.FileFields:
        values = self.model_dump(exclude={"file"}, exclude_none=True)
        if "tags" in values:
            given = values["tags"]
            values["tags"] = [
                tag
                for part in ([given] if isinstance(given, str) else given)
                for tag in split_list(part)
            ]
        if "modified_ns" in values:
            if not values["modified_ns"].lstrip("-").isdigit():
                raise InvalidInput("modified_ns: must be a whole number", field="modified_ns")
            values["modified_ns"] = int(values["modified_ns"])
        if "metadata" in values:
            try:
                values["metadata"] = json.loads(values["metadata"])
            except (ValueError, RecursionError):
                raise InvalidInput("metadata: must be a JSON object", field="metadata") from None
        return validate(models.FileFields, values)


class FilesUpload(Model):
    """Several files; `fields` is a JSON array that has an object for each of them, with what to know about it."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    files: list[UploadFile] | UploadFile
    fields: str | None = None

    def each(self) -> Iterator[tuple[bytes, str, dict[str, Any]]]:
        files = self.files if isinstance(self.files, list) else [self.files]
        try:
            fields = [{} for _ in files] if self.fields is None else json.loads(self.fields)
        except (ValueError, RecursionError):
            fields = None
        if (
            not isinstance(fields, list)
            or len(fields) != len(files)
            or not all(isinstance(item, dict) for item in fields)
        ):
            raise InvalidInput(
                "fields: must be a JSON array with an object for each file", field="fields"
            )
        return ((*upload_bytes(file), item) for file, item in zip(files, fields, strict=True))


def _answer(added: models.Added) -> Response[models.Added]:
    return Response(added, status_code=HTTP_201_CREATED if added.status == "added" else HTTP_200_OK)


ALREADY_THERE = {
    200: Answer(models.Added, "The content is already there, or an existing document was updated")
}
FILE_ANSWERS = {
    **ALREADY_THERE,
    201: Answer(models.Added, "Document created"),
    202: Answer(models.QueuedFile, "The file waits for a worker"),
}


@post("/notes", sync_to_thread=True, responses=ALREADY_THERE, opt={"permission": "documents.write"})
def add_note(
    data: JSONBody[models.NoteIn],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> Response[models.Added]:
    """Add a note."""
    return _answer(documents.add_note(data, actor))


@post(
    "/documents",
    sync_to_thread=True,
    responses=FILE_ANSWERS,
    opt={"permission": "documents.write", "body": "multipart"},
)
def add_document(
    data: MultipartBody[FileUpload],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
    queue: Annotated[
        bool, QueryParameter(description="Leave it to a worker, and answer at once with its job.")
    ] = False,
) -> Response[Any]:
    """Add a file."""
    content, filename = upload_bytes(data.file)
    if queue:
        queued = models.QueuedFile(
            job=documents.queue_file(content, filename, data.fields(), actor)
        )
        return Response(queued, status_code=HTTP_202_ACCEPTED)
    return _answer(documents.add_file(content, filename, data.fields(), actor))


@post(
    "/documents/batch",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "documents.write", "body": "multipart"},
)
def add_documents(
    data: MultipartBody[FilesUpload],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.AddedList:
    """Add several files at once; each succeeds or fails by itself."""
    return models.AddedList(results=documents.add_files(data.each(), actor))


@get("/documents", sync_to_thread=True, opt={"permission": "documents.read"})
def list_documents(
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
    tags: TagList = (),  # type: ignore[assignment]
    doc_type: QueryText = None,
    q: QueryText = None,
    page: PageNumber = 1,
    per_page: PerPage = 20,
    sort: Annotated[str, QueryParameter(description="A field, with - for descending.")] = "id",
    missing: Annotated[
        bool, QueryParameter(description="Only those whose files vanished from a synced folder.")
    ] = False,
) -> models.DocumentPage:
    """List documents; `tags` keeps those that have all of them."""
    try:
        wanted = [clean_tag(tag) for part in tags for tag in split_list(part)]
    except ValueError as error:
        raise InvalidInput(f"tags: {error}", field="tags") from None
    data, meta, hint = documents.list(
        actor, Page(page, per_page), wanted, doc_type, q, sort, missing
    )
    return models.DocumentPage(data=data, meta=meta, hint=hint)


@get("/documents/{document_id:int}", sync_to_thread=True, opt={"permission": "documents.read"})
def get_document(
    document_id: DocumentId,
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.Document:
    """One document."""
    return documents.get(document_id, actor)


@get(
    "/documents/{document_id:int}/chunks", sync_to_thread=True, opt={"permission": "documents.read"}
)
def get_chunks(
    document_id: DocumentId,
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.ChunkList:
    """A document's chunks, in order."""
    return models.ChunkList.model_validate({"data": documents.chunks(document_id, actor)})


@get(
    "/documents/{document_id:int}/file",
    sync_to_thread=True,
    media_type="application/octet-stream",
    opt={"permission": "documents.read"},
)
def get_file(
    document_id: DocumentId,
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> Stream:
    """The stored file, as it came."""
    file = documents.file(document_id, actor)
    # Always a download, never rendered: a stored page must not run in this origin.
    return Stream(
        file.parts,
        media_type=mimetypes.guess_type(file.name)[0] or "application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=utf-8''{quote(file.name, safe='')}",
            "Content-Length": str(file.size),
            "ETag": f'"{file.digest}"',
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )


@delete("/documents/{document_id:int}", sync_to_thread=True, opt={"permission": "documents.delete"})
def delete_document(
    document_id: DocumentId,
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> None:
    """Delete a document for good."""
    documents.delete(document_id, actor)


@put(
    "/documents/{document_id:int}/tags", sync_to_thread=True, opt={"permission": "documents.write"}
)
def set_tags(
    document_id: DocumentId,
    data: JSONBody[models.TagsIn],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.Document:
    """Replace a document's tags."""
    return documents.set_tags(document_id, data.tags, actor)


@patch("/documents/{document_id:int}", sync_to_thread=True, opt={"permission": "documents.write"})
def patch_document(
    document_id: DocumentId,
    data: JSONBody[models.DocumentPatch],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.Document:
    """Change a document's title, doc_type, metadata (as a whole) or trust."""
    return documents.update(document_id, data, actor)


@get("/tags", sync_to_thread=True, opt={"permission": "documents.read"})
def list_tags(
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
    page: PageNumber = 1,
    per_page: PerPage = 20,
) -> models.TagPage:
    """Tags with how many documents have each, most used first."""
    data, meta = documents.tags(actor, Page(page, per_page))
    return models.TagPage.model_validate({"data": data, "meta": meta})


@post(
    "/tags/rename",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "documents.write"},
)
def rename_tag(
    data: JSONBody[models.TagRename],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.Changed:
    """Rename a tag everywhere; a name in use is refused."""
    return documents.rename_tag(data.old, data.new, actor)


@post(
    "/tags/merge",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "documents.write"},
)
def merge_tags(
    data: JSONBody[models.TagMerge],
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> models.Changed | models.TagPreview:
    """Replace several tags by one, on every document that has any of them; with `preview`, say how many those are."""
    if data.preview:
        return documents.preview_merge(data.tags, data.into, actor)
    return documents.merge_tags(data.tags, data.into, actor, force=data.force)


@get("/jobs", sync_to_thread=True, opt={"permission": "documents.read"})
def list_jobs(
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
    job_type: QueryText = None,
    status: QueryText = None,
    page: PageNumber = 1,
    per_page: PerPage = 20,
) -> models.JobPage:
    """Jobs, newest first."""
    data, meta = documents.jobs(actor, Page(page, per_page), job_type, status)
    return models.JobPage(data=data, meta=meta)


@get("/jobs/{job_id:int}", sync_to_thread=True, opt={"permission": "documents.read"})
def get_job(
    job_id: DocumentId, documents: NamedDependency[DocumentsService], actor: NamedDependency[Actor]
) -> models.Job:
    """One job."""
    return documents.job(job_id, actor)


@get(
    "/documents/{document_id:int}/sources",
    sync_to_thread=True,
    opt={"permission": "documents.read"},
)
def get_sources(
    document_id: DocumentId,
    documents: NamedDependency[DocumentsService],
    actor: NamedDependency[Actor],
) -> SourceList:
    """The files on somebody's disk that a document was read from."""
    return documents.sources(document_id, actor)


@post("/uploads", sync_to_thread=True, opt={"permission": "documents.write"})
def start_upload(
    data: JSONBody[models.UploadIn],
    uploads: NamedDependency[UploadsService],
    actor: NamedDependency[Actor],
) -> models.Upload:
    """Begin an upload in parts."""
    return uploads.start(data, actor)


@put(
    "/uploads/{upload_id:uuid}",
    sync_to_thread=True,
    opt={"permission": "documents.write", "body": "bytes"},
)
def append_upload(
    upload_id: FromPath[UUID],
    body: RawBody,
    uploads: NamedDependency[UploadsService],
    actor: NamedDependency[Actor],
    offset: Annotated[
        int, QueryParameter(ge=0, le=2**62, description="Where this part begins.")
    ] = 0,
) -> models.Upload:
    """Send a part as the request's body; parts follow each other."""
    return uploads.append(str(upload_id), offset, body, actor)


@post(
    "/uploads/{upload_id:uuid}/finish",
    sync_to_thread=True,
    responses=ALREADY_THERE,
    opt={"permission": "documents.write"},
)
def finish_upload(
    upload_id: FromPath[UUID],
    uploads: NamedDependency[UploadsService],
    actor: NamedDependency[Actor],
) -> Response[models.Added]:
    """Make a document of the uploaded parts."""
    return _answer(uploads.finish(str(upload_id), actor))


handlers = [
    add_note,
    add_document,
    add_documents,
    list_documents,
    get_document,
    get_chunks,
    get_file,
    delete_document,
    set_tags,
    patch_document,
    list_tags,
    rename_tag,
    merge_tags,
    list_jobs,
    get_job,
    get_sources,
    start_upload,
    append_upload,
    finish_upload,
]
