"""The entry point of the bulk plugin: it offers every mutation kind, whoever contributed it, over a selection."""

from __future__ import annotations

from typing import Any

from kb_framework import api, hookimpl
from kb_framework.api.parts import Plugins


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
    help = "Selects the chunks with these ids."
    return [api.SelectionFilter("chunk_ids", "kb_bulk.filters:chunk_ids", help, over="chunks")]


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
