"""What the operations on documents take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from kb_documents.fields import DocType, Lang, SourceRef, SourceTitle, Title, Trust, not_blank
from kb_framework.api.models import Body, Id, JsonObject, Model, Question, Tag, Tags, Text
from kb_framework.api.paging import Hint, PageIn, PageMeta

JobStatus = Literal["queued", "running", "done", "failed", "partial_failure", "duplicate"]
Type = Annotated[DocType, Field(description="The document's type.")]
Language = Annotated[
    Lang | None, Field(description="The language, like en or ko; by default it is detected.")
]
Trusted = Annotated[Trust, Field(description="How far it is trusted.")]
GivenTags = Annotated[Tags, Field(description="Tags to give the document.")]
SourceOf = Annotated[
    SourceRef | None, Field(description="Where it is from, such as an address; hits cite it.")
]
TitleOfSource = Annotated[SourceTitle | None, Field(description="The title of the source.")]
Metadata = Annotated[JsonObject, Field(description="Further fields, as a JSON object.")]


class NoteIn(Body):
    text: Annotated[
        Text,
        Field(max_length=10_000_000, description="The note, in Markdown."),
        AfterValidator(not_blank),
    ]
    title: Annotated[Title | None, Field(description="By default the first line.")] = None
    tags: GivenTags = []
    doc_type: Type = "note"
    metadata: Metadata = {}
    lang: Language = None
    trust: Trusted = "primary"
    source_ref: SourceOf = None
    source_title: TitleOfSource = None


class FileFields(Body):
    """What comes beside an uploaded file."""

    tags: GivenTags = []
    doc_type: Type = "document"
    title: Annotated[Title | None, Field(description="By default the file's own.")] = None
    path: Annotated[
        Annotated[Text, Field(min_length=1, max_length=4096)] | None,
        Field(description="The path it is known by; by default its name."),
    ] = None
    metadata: Metadata = {}
    lang: Language = None
    trust: Trusted = "primary"
    source_ref: SourceOf = None
    source_title: TitleOfSource = None
    source: Annotated[Text, Field(min_length=1, max_length=8192)] | None = None
    modified_ns: Id | None = None
    stamp: Annotated[Text, Field(max_length=128)] | None = None


class Named(Body):
    filename: Annotated[
        Text,
        Field(
            min_length=1, max_length=1024, description="With its ending, which tells the format."
        ),
    ]


# The fields of the last base are the first: a file's name comes before what is known of it.
class UploadIn(FileFields, Named):
    """A file that will be sent in parts."""


class FileIn(FileFields, Named):
    """A file that is sent at once; `queue` leaves it to a worker."""

    queue: Annotated[
        bool, Field(description="Leave it to a worker, and answer at once with its job.")
    ] = False


class UploadRef(Question):
    """Which upload is meant."""

    upload_id: Annotated[str, Field(description="The upload's id.")]


class AppendIn(UploadRef):
    """Where the next part of an upload belongs."""

    offset: Annotated[
        int, Field(ge=0, le=2**62, description="How many bytes were received so far.")
    ] = 0


class DocumentIn(Question):
    """Which document is meant."""

    document_id: Annotated[Id, Field(description="The document's id.")]


class NamedDocumentIn(Question):
    """A document by what a person calls it."""

    document: Annotated[
        Text, Field(min_length=1, max_length=4096, description="Its id, path or title.")
    ]


class TagsIn(DocumentIn):
    """The tags of a document, which replace those that it has."""

    tags: Annotated[Tags, Field(description="All tags that it will have.")]


class DocumentPatch(Body):
    """What to change of a document; what is left out stays."""

    document_id: Annotated[Id, Field(description="The document's id.")]
    title: Title | None = None
    doc_type: Type | None = None
    metadata: Annotated[
        JsonObject | None, Field(description="Replaces its metadata as a whole.")
    ] = None
    trust: Trusted | None = None


class TagRename(Body):
    old: Annotated[Tag, Field(description="The tag as it is.")]
    new: Annotated[Tag, Field(description="The tag as it will be.")]


class TagMerge(Body):
    tags: Annotated[list[Tag], Field(min_length=1, description="The tags to replace.")]
    into: Annotated[Tag, Field(description="The tag that replaces them.")]
    force: Annotated[
        bool, Field(description="Proceed although the safety threshold is exceeded.")
    ] = False
    preview: Annotated[bool, Field(description="Change nothing; say what would be changed.")] = (
        False
    )


class JobFilters(Question):
    """Which jobs are meant."""

    job_type: Annotated[
        Annotated[Text, Field(max_length=10_000)] | None,
        Field(description="ingest, bulk_delete, bulk_tags, bulk_set_tags …"),
    ] = None
    status: Annotated[JobStatus | None, Field(description="Only jobs in this state.")] = None
    document_id: Annotated[
        Id | None, Field(description="Only the files that became this document.")
    ] = None


class JobsIn(PageIn, JobFilters):
    """Which jobs are listed, and which page of them."""


class JobIn(Question):
    """Which job is meant."""

    job_id: Annotated[Id, Field(description="The job's number.")]


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

    @property
    def http_status(self) -> int:
        return 202


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

    @property
    def http_status(self) -> int:
        return 201 if self.status == "added" else 200


FileAnswer = Added | QueuedFile


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


MergeAnswer = Changed | TagPreview


class Upload(Model):
    upload_id: str
    received: int
    max_bytes: int
    expires_at: str
