"""What the documents routes take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from kb_documents.fields import DocType, Lang, Title, Trust, not_blank
from kb_framework.paging import PageMeta
from kb_framework.validation import Body, Id, JsonObject, Model, Tag, Text


class NoteIn(Body):
    text: Annotated[Text, Field(max_length=10_000_000), AfterValidator(not_blank)]
    title: Title | None = None
    tags: list[Tag] = []
    doc_type: DocType = "note"
    metadata: JsonObject = {}
    lang: Lang | None = None
    trust: Trust = "primary"


class FileFields(Body):
    """What comes beside an uploaded file."""

    tags: list[Tag] = []
    doc_type: DocType = "document"
    title: Title | None = None
    path: Annotated[Text, Field(min_length=1, max_length=4096)] | None = None
    metadata: JsonObject = {}
    lang: Lang | None = None
    trust: Trust = "primary"
    source: Annotated[Text, Field(min_length=1, max_length=8192)] | None = None
    modified_ns: Id | None = None


class UploadIn(FileFields):
    filename: Annotated[Text, Field(min_length=1, max_length=1024)]


class TagsIn(Body):
    tags: list[Tag]


class TagRename(Body):
    old: Tag
    new: Tag


class TagMerge(Body):
    tags: Annotated[list[Tag], Field(min_length=1)]
    into: Tag


class DocumentPatch(Body):
    title: Title | None = None
    doc_type: DocType | None = None
    metadata: JsonObject | None = None
    trust: Trust | None = None


class Document(Model):
    id: int
    doc_type: str
    title: str
    path: str | None
    media: str
    lang: str | None
    trust: str
    tags: list[str]
    metadata: dict[str, Any]
    chunk_count: int
    content_hash: str
    bytes: int
    created_at: str
    updated_at: str
    indexed_at: str | None


class Job(Model):
    id: int
    uuid: str
    job_type: str
    status: str
    filename: str | None
    document_id: int | None
    error: str | None
    matched: int | None
    succeeded: int | None
    failed: int | None
    user_id: str
    # The name that belongs to it.
    user: str | None
    created_at: str
    finished_at: str | None


class QueuedFile(Model):
    """A file that a worker will make a document of; `GET /jobs/{id}` tells when."""

    job: Job


class Chunk(Model):
    """A chunk; further fields are those of plugins."""

    model_config = ConfigDict(extra="allow")

    id: str
    job_id: str
    chunk_index: int
    content: str
    content_hash: str
    metadata: dict[str, Any]
    created_at: str


class Added(Model):
    document: Document
    job: Job
    status: Literal["added", "updated", "unchanged"] = "added"
    duplicate: bool = False
    attachments: list[dict[str, Any]] = []


class AddedItem(Model):
    """What became of one of several files: an answer, or an error as it would have been answered alone."""

    response: Added | None = None
    error: dict[str, Any] | None = None


class AddedList(Model):
    """In the order of the files."""

    results: list[AddedItem]


class DocumentPage(Model):
    data: list[Document]
    meta: PageMeta


class JobPage(Model):
    data: list[Job]
    meta: PageMeta


class TagCount(Model):
    tag: str
    count: int


class TagPage(Model):
    data: list[TagCount]
    meta: PageMeta


class ChunkList(Model):
    data: list[Chunk]


class Changed(Model):
    """How many documents a tag operation changed, and which it could not."""

    matched: int
    succeeded: int
    failed: int
    errors: list[dict[str, Any]]


class Upload(Model):
    upload_id: str
    received: int
    max_bytes: int
    expires_at: str
