"""The operations on documents, tags and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Command, Http, Operation, Tool

if TYPE_CHECKING:
    from kb_documents import models
    from kb_documents.source_models import SourceList
    from kb_framework.api.paging import PageIn

READ, WRITE, DELETE = "documents.read", "documents.write", "documents.delete"
_MODELS = "kb_documents.models"
_RENDER = "kb_documents.render"
_COMMANDS = "kb_documents.commands"
_GROUP = "Documents"

# Documents

GET_DOCUMENT: Operation[models.DocumentIn, models.Document] = Operation(
    "get_document",
    "documents.get",
    READ,
    Http("GET", "/documents/{document_id:int}"),
    input=f"{_MODELS}:DocumentIn",
    output=f"{_MODELS}:Document",
    help="Return one document.",
    tool=Tool(
        "kb_get_document",
        "kb_documents.tools:get_document",
        "Get a document",
        read_only=True,
        idempotent=True,
        help="One document: title, tags, metadata; with `content`, its text in chunks.",
    ),
)

FIND_DOCUMENT: Operation[models.NamedDocumentIn, models.Document] = Operation(
    "find_document",
    "documents.find",
    READ,
    Http("GET", "/documents/find"),
    input=f"{_MODELS}:NamedDocumentIn",
    output=f"{_MODELS}:Document",
    help="Return the document with this id, path or title. A path may be longer or shorter than the document's.",
    command=Command(
        "show",
        f"{_COMMANDS}:show",
        help="Show a document, or its text.",
        group=_GROUP,
        positional=("document",),
        examples=("kb show 42", "kb show 42 --text"),
    ),
)

GET_CHUNKS: Operation[models.DocumentIn, models.ChunkList] = Operation(
    "get_document_chunks",
    "documents.chunks",
    READ,
    Http("GET", "/documents/{document_id:int}/chunks"),
    input=f"{_MODELS}:DocumentIn",
    output=f"{_MODELS}:ChunkList",
    help="List a document's chunks, in order.",
)

GET_SOURCES: Operation[models.DocumentIn, SourceList] = Operation(
    "get_sources",
    "documents.sources",
    READ,
    Http("GET", "/documents/{document_id:int}/sources"),
    input=f"{_MODELS}:DocumentIn",
    output="kb_documents.source_models:SourceList",
    help="List the files on somebody's disk that a document was read from.",
)

GET_FILE: Operation[models.DocumentIn, Any] = Operation(
    "get_file",
    "documents.file",
    READ,
    Http("GET", "/documents/{document_id:int}/file", download="application/octet-stream"),
    input=f"{_MODELS}:DocumentIn",
    help="Download the stored file, as it came.",
)

DELETE_DOCUMENT: Operation[models.DocumentIn, None] = Operation(
    "delete_document",
    "documents.delete",
    DELETE,
    Http("DELETE", "/documents/{document_id:int}", status=204),
    input=f"{_MODELS}:DocumentIn",
    help="Delete a document for good.",
    command=Command(
        "remove",
        f"{_COMMANDS}:remove",
        help="Delete documents for good.",
        group=_GROUP,
        omit=("document_id",),
        examples=("kb remove 42 43",),
    ),
)

SET_TAGS: Operation[models.TagsIn, models.Document] = Operation(
    "set_document_tags",
    "documents.set_tags",
    WRITE,
    Http("PUT", "/documents/{document_id:int}/tags"),
    input=f"{_MODELS}:TagsIn",
    output=f"{_MODELS}:Document",
    help="Replace a document's tags.",
    command=Command(
        "tag",
        f"{_COMMANDS}:tag",
        help="Add, remove or replace the tags of a document.\nWithout flags, show them.",
        group=_GROUP,
        omit=("document_id", "tags"),
        examples=("kb tag 42 --add reviewed --remove draft",),
    ),
)

UPDATE: Operation[models.DocumentPatch, models.Document] = Operation(
    "update_document",
    "documents.update",
    WRITE,
    Http("PATCH", "/documents/{document_id:int}"),
    input=f"{_MODELS}:DocumentPatch",
    output=f"{_MODELS}:Document",
    help="Change a document's title, doc_type, metadata (as a whole) or trust.",
)

# Tags

LIST_TAGS: Operation[PageIn, models.TagPage] = Operation(
    "list_tags",
    "document_tags.list",
    READ,
    Http("GET", "/tags"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:TagPage",
    help="List tags with how many documents have each, most used first.",
    command=Command(
        "tags",
        help="List tags with their counts.\nMost used first.",
        group=_GROUP,
        defaults={"per_page": 100},
        render=f"{_RENDER}:tags",
        examples=("kb tags",),
    ),
    tool=Tool(
        "kb_tags",
        title="List tags",
        read_only=True,
        idempotent=True,
        help="The tags in use, each with how many documents have it.",
        defaults={"per_page": 100},
    ),
)

RENAME_TAG: Operation[models.TagRename, models.Changed] = Operation(
    "rename_tag",
    "document_tags.rename",
    WRITE,
    Http("POST", "/tags/rename"),
    input=f"{_MODELS}:TagRename",
    output=f"{_MODELS}:Changed",
    help="Rename a tag everywhere; a name in use is refused.",
    command=Command(
        "tags rename",
        help="Rename a tag everywhere.\nA name in use is refused (merge instead).",
        group=_GROUP,
        positional=("old", "new"),
        render=f"{_RENDER}:changed",
        examples=("kb tags rename draft drafts",),
    ),
)

MERGE_TAGS: Operation[models.TagMerge, models.MergeAnswer] = Operation(
    "merge_tags",
    "document_tags.merge",
    WRITE,
    Http("POST", "/tags/merge"),
    input=f"{_MODELS}:TagMerge",
    output=f"{_MODELS}:MergeAnswer",
    help=(
        "Replace several tags by one, on every document that has any of them; with `preview`, say how many those are."
    ),
    command=Command(
        "tags merge",
        f"{_COMMANDS}:merge_tags",
        help="Merge tags into one.\nReplaces them on every document that has any of them.",
        group=_GROUP,
        positional=("tags",),
        omit=("preview",),
        flags={"force": "-f"},
        examples=("kb tags merge todo,to-do --into tasks",),
    ),
)

# Jobs

LIST_JOBS: Operation[models.JobsIn, models.JobPage] = Operation(
    "list_jobs",
    "document_jobs.list",
    READ,
    Http("GET", "/jobs"),
    input=f"{_MODELS}:JobsIn",
    output=f"{_MODELS}:JobPage",
    help="List jobs, newest first: what was ingested or changed, and how it went.",
    command=Command(
        "jobs",
        help="List jobs: what was ingested or changed, and how it went.\nNewest first.",
        group=_GROUP,
        flags={"job_type": "--type"},
        render=f"{_RENDER}:jobs",
        examples=("kb jobs --status failed", "kb jobs --type bulk_delete --json"),
    ),
)

GET_JOB: Operation[models.JobIn, models.Job] = Operation(
    "get_job",
    "document_jobs.get",
    READ,
    Http("GET", "/jobs/{job_id:int}"),
    input=f"{_MODELS}:JobIn",
    output=f"{_MODELS}:Job",
    help="Show one job: who did what, to how many, with which filter, and what went wrong.",
    command=Command(
        "jobs show",
        help="Show one job with its errors.",
        group=_GROUP,
        positional=("job_id",),
        render=f"{_RENDER}:job",
        examples=("kb jobs show 17",),
    ),
)

OPERATIONS: list[Operation[Any, Any]] = [
    GET_DOCUMENT,
    FIND_DOCUMENT,
    GET_CHUNKS,
    GET_SOURCES,
    GET_FILE,
    DELETE_DOCUMENT,
    SET_TAGS,
    UPDATE,
    LIST_TAGS,
    RENAME_TAG,
    MERGE_TAGS,
    LIST_JOBS,
    GET_JOB,
]
