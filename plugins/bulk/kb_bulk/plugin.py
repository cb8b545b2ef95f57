"""The entry point of the bulk plugin: it offers every mutation kind, whoever contributed it, over a selection."""

from __future__ import annotations

from collections.abc import Mapping

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
    return [api.Service("bulk", "kb_bulk.service:BulkService"), api.Service("chunks", "kb_bulk.chunks:ChunksService")]


@hookimpl
def kb_routes(plugins: Plugins) -> list[api.Routes]:
    of_kinds = {kind.path.strip("/").split("/")[0] for kind in plugins.kinds if kind.bulk}
    return [api.Routes("bulk", "kb_bulk.routes:handlers", build=True, under=tuple(sorted({"bulk", "chunks", *of_kinds})))]


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"bulk": True, "chunks_by_id": True}


@hookimpl
def kb_commands(plugins: Plugins) -> list[api.Command]:
    get = api.Command("chunks get", "kb_bulk.chunk_commands:get", help="Show chunks by id.", group="Knowledge")
    return [get] + [
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


@hookimpl
def kb_tools(plugins: Plugins) -> list[api.Tool]:
    get = api.Tool(
        "kb_get_chunks",
        "kb_bulk.chunk_tools:get_chunks",
        "Get chunks",
        "read",
        read_only=True,
        idempotent=True,
        permission="documents.read",
    )
    return [get] + [
        api.Tool(
            kind.tool_name,
            "kb_bulk.tools:build",
            f"Bulk: {kind.help.rstrip('.').lower()}",
            "curate",
            destructive=kind.destructive,
            idempotent=True,
            build=True,
            contributed_by=plugins.kinds.plugin_of(kind.name),
            permission=kind.permission,
            asks=True,
        )
        for kind in plugins.kinds
        if kind.bulk
    ]


@hookimpl
def kb_client_methods(plugins: Plugins) -> list[api.ClientMethod]:
    methods = [
        api.ClientMethod(
            f"bulk_{kind.name}", "kb_bulk.client:build", build=True, contributed_by=plugins.kinds.plugin_of(kind.name)
        )
        for kind in plugins.kinds
        if kind.bulk
    ]
    return [*methods, *(api.ClientMethod(name, f"kb_bulk.client:{name}") for name in ("bulk_preview", "get_chunks"))]
