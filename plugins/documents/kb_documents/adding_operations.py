"""The operations that add documents: notes, files, uploads in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Command, Http, Operation, Tool

if TYPE_CHECKING:
    from kb_documents import models
    from kb_framework.api.models import Body

WRITE = "documents.write"
_MODELS = "kb_documents.models"
_GROUP = "Documents"
_THERE = (
    f"{_MODELS}:Added",
    "The content is already there, or an existing document was updated",
)

ADD_NOTE: Operation[models.NoteIn, models.Added] = Operation(
    "add_note",
    "adding.add_note",
    WRITE,
    Http("POST", "/notes", status=201, answers={200: _THERE}),
    input=f"{_MODELS}:NoteIn",
    output=f"{_MODELS}:Added",
    help="Add a note.",
    command=Command(
        "note",
        help="Add a note.\nWithout a text it is read from standard input.",
        group=_GROUP,
        words="text",
        stdin=True,
        omit=("metadata",),
        flags={"doc_type": "--type"},
        render="kb_documents.render:added",
        examples=(
            "kb note Keys are rotated every 90 days --tags security",
            "kb note - --title Minutes < minutes.txt",
        ),
    ),
    tool=Tool(
        "kb_addnote",
        title="Add a note",
        profile="write",
        omit=("lang", "trust"),
        help="Save a note as a new document, searchable at once.",
    ),
)

# Files are sent in forms, whose routes are written by hand.

ADD_FILE: Operation[models.FileIn, models.FileAnswer] = Operation(
    "add_file",
    "adding.add_file",
    WRITE,
    Http(
        "POST",
        "/documents",
        status=201,
        query=("queue",),
        content="form",
        form="kb_documents.forms:one_file",
        by_hand=True,
    ),
    input=f"{_MODELS}:FileIn",
    output=f"{_MODELS}:FileAnswer",
    help="Add a file.",
)

ADD_FILES: Operation[Body, models.AddedList] = Operation(
    "add_files",
    "adding.add_files",
    WRITE,
    Http(
        "POST",
        "/documents/batch",
        content="form",
        form="kb_documents.forms:several_files",
        by_hand=True,
    ),
    output=f"{_MODELS}:AddedList",
    help="Add several files at once; each succeeds or fails by itself.",
)

START_UPLOAD: Operation[models.UploadIn, models.Upload] = Operation(
    "start_upload",
    "uploads.start",
    WRITE,
    Http("POST", "/uploads", status=201),
    input=f"{_MODELS}:UploadIn",
    output=f"{_MODELS}:Upload",
    help="Begin an upload in parts.",
    tool=Tool(
        "kb_upload_start",
        title="Start a file upload",
        profile="write",
        help=(
            "Begin uploading a file. Then send its content with kb_upload_append, in one or more parts, "
            "and call kb_upload_finish."
        ),
        omit=(
            "path",
            "metadata",
            "lang",
            "trust",
            "source_ref",
            "source_title",
            "source",
            "modified_ns",
            "stamp",
        ),
    ),
)

APPEND_UPLOAD: Operation[models.AppendIn, models.Upload] = Operation(
    "append_upload",
    "uploads.append",
    WRITE,
    Http("PUT", "/uploads/{upload_id:uuid}", content="bytes"),
    input=f"{_MODELS}:AppendIn",
    output=f"{_MODELS}:Upload",
    help="Send a part as the request's body; parts follow each other.",
    tool=Tool(
        "kb_upload_append",
        "kb_documents.tools:append_upload",
        "Send a part of a file",
        "write",
        help="Send the next part of an upload. Answers with `received`, the offset of the part after it.",
    ),
)

FINISH_UPLOAD: Operation[models.UploadRef, models.Added] = Operation(
    "finish_upload",
    "uploads.finish",
    WRITE,
    Http("POST", "/uploads/{upload_id:uuid}/finish", status=201, answers={200: _THERE}),
    input=f"{_MODELS}:UploadRef",
    output=f"{_MODELS}:Added",
    help="Make a document of the uploaded parts.",
    tool=Tool(
        "kb_upload_finish",
        title="Finish a file upload",
        profile="write",
        help="Turn the uploaded parts into a document.",
    ),
)

OPERATIONS: list[Operation[Any, Any]] = [
    ADD_NOTE,
    ADD_FILE,
    ADD_FILES,
    START_UPLOAD,
    APPEND_UPLOAD,
    FINISH_UPLOAD,
]
