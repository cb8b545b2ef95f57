"""The entry point of the bulk plugin: it offers every mutation kind, whoever contributed it, over a selection."""

from __future__ import annotations

from collections.abc import Mapping

from kb_framework import api, hookimpl
from kb_framework.plugins import Plugins


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [api.Migration(1, "job_type", "kb_bulk.migrations:add_job_type")]


@hookimpl
def kb_selection_filters() -> list[api.SelectionFilter]:
    def named(name: str, flag: str, help: str) -> api.SelectionFilter:
        return api.SelectionFilter(name, f"kb_bulk.filters:{name}", help=help, flag=flag)

    return [
        named("document_ids", "--ids", "Selects the documents with these ids."),
        named("tags", "--tags", "Selects documents that have ALL of these tags."),
        named("doc_type", "--type", "Selects documents of this type."),
        named("from_id", "--from-id", "Selects documents with this id or a higher one."),
        named("to_id", "--to-id", "Selects documents with this id or a lower one."),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [api.Service("bulk", "kb_bulk.service:BulkService")]


@hookimpl
def kb_routes() -> list[api.Routes]:
    return [api.Routes("bulk", "kb_bulk.routes:handlers", build=True)]


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"bulk": True}


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


@hookimpl
def kb_tools(plugins: Plugins) -> list[api.Tool]:
    return [
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
    return [*methods, api.ClientMethod("bulk_preview", "kb_bulk.client:bulk_preview")]
