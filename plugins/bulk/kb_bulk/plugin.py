"""The entry point of the bulk plugin: it offers every mutation kind, whoever contributed it, over a selection."""

from __future__ import annotations

from typing import Any

from kb_framework import api, hookimpl
from kb_framework.plugins import Plugins


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [
        api.Migration(1, "job_type", "kb_bulk.migrations:add_job_type"),
        api.Migration(2, "plans", "kb_bulk.migrations:create_plans"),
    ]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("bulk", "kb_bulk.settings:BulkSettings")]


@hookimpl
def kb_selection_filters() -> list[api.SelectionFilter]:
    def named(name: str, flag: str, help: str, over: api.Over = "documents") -> api.SelectionFilter:
        return api.SelectionFilter(name, f"kb_bulk.filters:{name}", help=help, flag=flag, over=over)

    return [
        named("document_ids", "--ids", "Selects the documents with these ids."),
        named("tags", "--tags", "Selects documents that have ALL of these tags."),
        named("doc_type", "--type", "Selects documents of this type."),
        named("from_id", "--from-id", "Selects documents with this id or a higher one."),
        named("to_id", "--to-id", "Selects documents with this id or a lower one."),
        named("chunk_ids", "--chunk-ids", "Selects the chunks with these ids.", over="chunks"),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("bulk", "kb_bulk.service:BulkService", ("bulk",)),
        api.Service("chunks", "kb_bulk.chunks:ChunksService", ("chunks_by_id",)),
    ]


@hookimpl
def kb_operations(plugins: Plugins) -> list[api.Operation[Any, Any]]:
    from kb_bulk.operations import operations

    return operations(plugins)


@hookimpl
def kb_commands(plugins: Plugins) -> list[api.Command]:
    return [
        api.Command(
            kind.command_name,
            "kb_bulk.commands:build",
            help=f"{kind.help} Over a selection.",
            group="Bulk",
            build=True,
            contributed_by=plugins.kinds.plugin_of(kind.name),
        )
        for kind in plugins.kinds
        if kind.bulk
    ]
