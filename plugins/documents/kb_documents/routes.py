"""HTTP: the forms in which files come."""

from __future__ import annotations

import json
from typing import Annotated, Any

from litestar import Response, post
from litestar.datastructures import UploadFile
from litestar.di import NamedDependency
from litestar.params import MultipartBody, QueryParameter
from litestar.status_codes import HTTP_200_OK
from pydantic import ConfigDict

from kb_documents import models
from kb_documents.adding import AddingService, SentFile
from kb_documents.adding_operations import ADD_FILE, ADD_FILES
from kb_framework.api import Actor
from kb_framework.api.models import Body, Model, split_list, validate
from kb_framework.api.web import Answer, upload_bytes
from kb_framework.errors import InvalidInput


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

    def fields(self) -> dict[str, Any]:
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
        return values


class FilesUpload(Model):
    """Several files; `fields` is a JSON array that has an object for each of them, with what to know about it."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    files: list[UploadFile] | UploadFile
    fields: str | None = None

    def each(self) -> list[SentFile]:
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
        named = [upload_bytes(file) for file in files]
        return [(name, data, item) for (data, name), item in zip(named, fields, strict=True)]


FILE_ANSWERS = {
    200: Answer(models.Added, "The content is already there, or an existing document was updated"),
    201: Answer(models.Added, "Document created"),
    202: Answer(models.QueuedFile, "The file waits for a worker"),
}


@post(
    ADD_FILE.http.path,
    sync_to_thread=True,
    responses=FILE_ANSWERS,
    opt={"permission": ADD_FILE.permission, "body": "multipart"},
)
def add_document(
    data: MultipartBody[FileUpload],
    adding: NamedDependency[AddingService],
    actor: NamedDependency[Actor],
    queue: Annotated[
        bool, QueryParameter(description="Leave it to a worker, and answer at once with its job.")
    ] = False,
) -> Response[Any]:
    """Add a file."""
    content, filename = upload_bytes(data.file)
    file = validate(models.FileIn, {**data.fields(), "filename": filename, "queue": queue})
    answer = adding.add_file(file, actor, content)
    return Response(answer, status_code=answer.http_status)


@post(
    ADD_FILES.http.path,
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": ADD_FILES.permission, "body": "multipart"},
)
def add_documents(
    data: MultipartBody[FilesUpload],
    adding: NamedDependency[AddingService],
    actor: NamedDependency[Actor],
) -> models.AddedList:
    """Add several files at once; each succeeds or fails by itself."""
    return adding.add_files(Body(), actor, data.each())


handlers = [add_document, add_documents]
