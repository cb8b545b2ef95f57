"""What the documents routes take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from kb_documents.fields import DocType, Lang, SourceRef, SourceTitle, Title, Trust, not_blank
from kb_framework.paging import Hint, PageMeta
from kb_framework.validation import Body, Id, JsonObject, Model, Tag, Tags, Text


class NoteIn(Body):
    text: Annotated[Text, Field(max_length=10_000_000), AfterValidator(not_blank)]
    title: Title | None = None
    tags: Tags = []
    doc_type: DocType = "note"
    metadata: JsonObject = {}
    lang: Lang | None = None
    trust: Trust = "primary"
    source_ref: SourceRef | None = None
    source_title: SourceTitle | None = None


class FileFields(Body):
    """What comes beside an uploaded file."""

    tags: Tags = []
    doc_type: DocType = "document"
    title: Title | None = None
    path: Annotated[Text, Field(min_length=1, max_length=4096)] | None = None
    metadata: JsonObject = {}
    lang: Lang | None = None
    trust: Trust = "primary"
    source_ref: SourceRef | None = None
    source_title: SourceTitle | None = None
    source: Annotated[Text, Field(min_length=1, max_length=8192)] | None = None
    modified_ns: Id | None = None
    stamp: Annotated[Text, Field(max_length=128)] | None = None


class UploadIn(FileFields):
    filename: Annotated[Text, Field(min_length=1, max_length=1024)]


class TagsIn(Body):
    tags: Tags


class TagRename(Body):
    old: Tag
    new: Tag


class TagMerge(Body):
    tags: Annotated[list[Tag], Field(min_length=1)]
    into: Tag
    force: Annotated[
        bool, Field(description="Proceed although the safety threshold is exceeded.")
    ] = False
    preview: Annotated[bool, Field(description="Change nothing; say what would be changed.")] = (
        False
    )


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
    # Since when no file of it exists in any synced folder; null for a document that is found.
    missing_since: str | None = None


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
    # The document was missing, and its file is back.
    returned: bool = False
    # Another file with the same content is there.
    is_copy: bool = False
    # The tags that a document which was there did not have yet.
    tags_added: list[str] = []
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
    hint: Hint = None


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
    job_id: int


class SampleTitle(Model):
    id: int
    title: str


class TagPreview(Model):
    """How many documents a tag operation would change, and the first of them."""

    matched: int
    total: int
    percent: float
    threshold: int
    exceeds: bool
    sample: list[SampleTitle]


class Upload(Model):
    upload_id: str
    received: int
    max_bytes: int
    expires_at: str
