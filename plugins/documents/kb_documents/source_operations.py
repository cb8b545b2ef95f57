"""The operations on the files of folders; apart, so that an unchanged folder imports no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Command, Http, Operation

if TYPE_CHECKING:
    from kb_documents import source_models as models
    from kb_framework.api.paging import PageIn

_MODELS = "kb_documents.source_models"

COMPARE: Operation[models.SourcesIn, models.SourcesOut] = Operation(
    "compare_sources",
    "source_files.compare",
    "documents.read",
    Http("POST", "/sources/compare"),
    input=f"{_MODELS}:SourcesIn",
    output=f"{_MODELS}:SourcesOut",
    help="Compare a folder's files with what is known of them: which are new, changed or gone, by size and time of change.",
)

FORGET: Operation[models.ForgetIn, models.ForgetOut] = Operation(
    "forget_sources",
    "vanished_files.forget",
    "documents.delete",
    Http("POST", "/sources/forget"),
    input=f"{_MODELS}:ForgetIn",
    output=f"{_MODELS}:ForgetOut",
    help="Mark documents as missing whose last source vanished, within the safety threshold of their folder.",
)

MOVE: Operation[models.MoveIn, models.MoveOut] = Operation(
    "move_sources",
    "synced_folders.move",
    "documents.write",
    Http("POST", "/sources/move"),
    input=f"{_MODELS}:MoveIn",
    output=f"{_MODELS}:MoveOut",
    help="Follow a folder that was renamed or moved: its documents get their new paths.",
)

EXPIRE: Operation[models.ExpireIn, models.ExpireOut] = Operation(
    "expire_missing",
    "vanished_files.expire",
    "documents.delete",
    Http("POST", "/sources/expire"),
    input=f"{_MODELS}:ExpireIn",
    output=f"{_MODELS}:ExpireOut",
    help="Delete documents that have been missing for longer than KB_DOCUMENTS_MISSING_DAYS.",
)

LIST_FOLDERS: Operation[PageIn, models.FolderPage] = Operation(
    "list_folders",
    "synced_folders.list",
    "documents.read",
    Http("GET", "/folders"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:FolderPage",
    help="List the folders that were synced.",
    command=Command(
        "folders",
        "kb_documents.sync_commands:folders",
        help="List the folders that kb sync keeps in step with.\nWith the options that it uses for each.",
        group="Documents",
        omit=("page", "per_page"),
        examples=("kb folders", "kb folders --json"),
    ),
)

RECALL_FOLDER: Operation[models.FolderRoot, models.RecalledFolder] = Operation(
    "recall_folder",
    "synced_folders.recall",
    "documents.read",
    Http("POST", "/folders/recall"),
    input=f"{_MODELS}:FolderRoot",
    output=f"{_MODELS}:RecalledFolder",
    help="Return one synced folder, or null.",
)

REMEMBER_FOLDER: Operation[models.FolderIn, models.SyncedFolder] = Operation(
    "remember_folder",
    "synced_folders.remember",
    "documents.write",
    Http("PUT", "/folders"),
    input=f"{_MODELS}:FolderIn",
    output=f"{_MODELS}:SyncedFolder",
    help="Remember a folder and the options to sync it by.",
)

FORGET_FOLDER: Operation[models.FolderRoot, None] = Operation(
    "forget_folder",
    "synced_folders.forget",
    "documents.write",
    Http("DELETE", "/folders", status=204),
    input=f"{_MODELS}:FolderRoot",
    help="Forget a folder; its documents stay.",
    command=Command(
        "folders forget",
        "kb_documents.sync_commands:forget_folder",
        help="Forget a synced folder; its documents stay.\n`kb sync` no longer updates it.",
        group="Documents",
        omit=("root",),
        examples=("kb folders forget ~/notes",),
    ),
)

OPERATIONS: list[Operation[Any, Any]] = [
    COMPARE,
    FORGET,
    MOVE,
    EXPIRE,
    LIST_FOLDERS,
    RECALL_FOLDER,
    REMEMBER_FOLDER,
    FORGET_FOLDER,
]
