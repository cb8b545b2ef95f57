"""The entry point of the documents plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from kb_documents.file_cleanup import FileCleanup
    from kb_documents.vanished import VanishedService
    from kb_framework.api.parts import Tx


@hookimpl
def kb_hookspecs() -> list[api.Hookspecs]:
    return [api.Hookspecs("kb_documents.hookspecs")]


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [
        api.Migration(1, "uploads", "kb_documents.migrations:create_uploads"),
        api.Migration(2, "sources", "kb_documents.migrations:create_sources"),
        api.Migration(3, "queue", "kb_documents.migrations:create_queue"),
        api.Migration(4, "refused", "kb_documents.migrations:create_refused"),
        api.Migration(5, "missing", "kb_documents.migrations:add_missing"),
        api.Migration(6, "left_out", "kb_documents.migrations:create_left_out"),
        api.Migration(7, "folders", "kb_documents.migrations:create_folders"),
        api.Migration(8, "views", "kb_documents.migrations:create_views"),
    ]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("documents", "kb_documents.settings:DocumentsSettings")]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("documents", "kb_documents.service:DocumentsService"),
        api.Service("document_tags", "kb_documents.tags:TagsService"),
        api.Service("document_jobs", "kb_documents.jobs:JobsService"),
        api.Service("adding", "kb_documents.adding:AddingService", ("notes",)),
        api.Service("file_cleanup", "kb_documents.file_cleanup:FileCleanup"),
        api.Service("ingest", "kb_documents.ingest:Ingest"),
        api.Service("ingest_queue", "kb_documents.ingest_queue:IngestQueue"),
        api.Service("uploads", "kb_documents.uploads:UploadsService", ("uploads",)),
        api.Service("source_files", "kb_documents.sources:SourcesService"),
        api.Service("vanished_files", "kb_documents.vanished:VanishedService"),
        api.Service("synced_folders", "kb_documents.synced_folders:SyncedFolders"),
        api.Service("views", "kb_documents.views:ViewsService", ("views",)),
        api.Service("document_lists", "kb_documents.document_lists:DocumentLists"),
        api.Service("document_counts", "kb_documents.counts:CountsService", ("facets",)),
    ]


@hookimpl
def kb_routes() -> list[api.Routes]:
    return [api.Routes("documents", "kb_documents.routes:handlers")]


@hookimpl
def kb_operations() -> list[api.Operation[Any, Any]]:
    from kb_documents import (
        adding_operations,
        operations,
        selection_operations,
        source_operations,
    )

    return [
        *operations.OPERATIONS,
        *adding_operations.OPERATIONS,
        *source_operations.OPERATIONS,
        *selection_operations.OPERATIONS,
    ]


@hookimpl
def kb_mutation_kinds() -> list[api.MutationKind]:
    return [
        api.MutationKind(
            "delete",
            "kb_documents.mutations:Delete",
            verb="delete",
            help="Delete documents for good.",
            destructive=True,
            command="bulk-remove",
            permission="documents.delete",
            example="--tags draft,old --type note",
        ),
        api.MutationKind(
            "tags",
            "kb_documents.mutations:ChangeTags",
            verb="change the tags of",
            help="Add and remove tags.",
            command="bulk-tag",
            example="--tags draft --add reviewed --remove draft --yes",
        ),
        api.MutationKind(
            "set_tags",
            "kb_documents.mutations:SetTags",
            verb="replace the tags of",
            help="Replace all tags.",
            destructive=True,
            example="--from-id 100 --to-id 199 --set archive,2025",
        ),
        api.MutationKind(
            "update",
            "kb_documents.mutations:Update",
            verb="change",
            help="Change fields of a document.",
            bulk=False,
        ),
        api.MutationKind(
            "replace",
            "kb_documents.document_writer:Replace",
            verb="replace",
            help="Give a document new content.",
            bulk=False,
        ),
        api.MutationKind(
            "missing",
            "kb_documents.missing:MarkMissing",
            verb="mark as missing",
            help="Hide documents whose files vanished from a synced folder.",
            bulk=False,
            permission="documents.delete",
        ),
    ]


@hookimpl
def kb_selection_filters() -> list[api.SelectionFilter]:
    from kb_documents.filter_list import FILTERS

    return FILTERS


@hookimpl
def kb_export_tables() -> list[api.ExportTable]:
    return [
        api.ExportTable("document_sources", table="document_sources", key="source"),
        api.ExportTable("refused_sources", table="refused_sources", key="source"),
        api.ExportTable("left_out_sources", table="left_out_sources", key="source"),
        api.ExportTable(
            "synced_folders",
            table="synced_folders",
            key="root",
            adapt="kb_documents.synced_folders:of_any_machine",
        ),
        api.ExportTable(
            "saved_views",
            table="saved_views",
            key="name",
            adapt="kb_documents.views:follow_ids",
        ),
    ]


@hookimpl
def kb_narrow_selection(
    selection: api.Selection, purpose: str, tx: Tx
) -> ColumnElement[bool] | None:
    from kb_documents.missing import narrow_selection
    from kb_documents.views import all_filters

    return narrow_selection(all_filters(selection.filters, tx), purpose, tx)


@hookimpl
def kb_narrow_retrieval(tx: Tx) -> ColumnElement[bool] | None:
    from kb_documents.missing import narrow_retrieval

    return narrow_retrieval(tx)


@hookimpl
def kb_serving(file_cleanup: FileCleanup, vanished_files: VanishedService) -> None:
    file_cleanup.begin()
    vanished_files.keep_expiring()


@hookimpl
def kb_mutation_applied(result: api.MutationResult, file_cleanup: FileCleanup) -> None:
    if result.kind in ("delete", "replace"):
        file_cleanup.remove()


@hookimpl
def kb_extractors() -> list[api.Extractor]:
    return [
        api.Extractor(
            "markdown",
            "kb_documents.extract:markdown",
            media="markdown",
            suffixes=(".md", ".markdown", ".mdx", ".mkd"),
            precedence=0,
        ),
        api.Extractor(
            "text",
            "kb_documents.extract:plain_text",
            media="text",
            suffixes=(".txt", ".text", ".log", ""),
            precedence=0,
        ),
    ]


@hookimpl
def kb_chunkers() -> list[api.Chunker]:
    return [api.Chunker("structure", "kb_documents.chunk:by_structure")]


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, target: str, help: str) -> api.Command:
        return api.Command(name, f"kb_documents.{target}", help=help, group="Documents")

    return [
        command("add", "add_command:add", "Add files and folders."),
        command(
            "sync",
            "sync_commands:sync",
            "Keep in step with a folder: add, update, remove what vanished.",
        ),
        command("watch", "watch_command:watch", "Stay in step with a folder while it changes."),
        command(
            "worker",
            "worker_commands:worker",
            "Read the files that were sent with queue=true.",
        ),
    ]


@hookimpl
def kb_checks() -> list[api.Check]:
    return [api.Check("metadata", "kb_documents.checks:MetadataCheck", rank=60)]
