"""The entry point of the research plugin. What it adds is knowledge, so without the knowledge plugin it offers nothing."""

from __future__ import annotations

from typing import Any

from kb_framework import api, hookimpl
from kb_framework.api.parts import Plugins


@hookimpl
def kb_hookspecs() -> list[api.Hookspecs]:
    return [api.Hookspecs("kb_research.hookspecs")]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("research", "kb_research.settings:ResearchSettings")]


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [
        api.Migration(1, "saved_items", "kb_research.migrations:create_saved_items"),
        api.Migration(2, "limits", "kb_research.migrations:create_limits"),
    ]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("research.search", "Search sources for research.", "viewer"),
        api.Permission("research.add_to_knowledge", "Add what research found.", "editor"),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("limiter", "kb_research.limits:Limiter"),
        api.Service("research", "kb_research.service:ResearchService", ("research",)),
    ]


@hookimpl
def kb_research_sources() -> list[api.ResearchSource]:
    return [
        api.ResearchSource("store", "kb_research.store_source:StoreSource"),
        api.ResearchSource("files", "kb_research.local:LocalFiles"),
    ]


@hookimpl
def kb_export_tables() -> list[api.ExportTable]:
    return [api.ExportTable("saved_research_items", table="saved_research_items", key="id")]


def _offered(plugins: Plugins) -> bool:
    return plugins.services.get("knowledge_adding") is not None


@hookimpl
def kb_operations(plugins: Plugins) -> list[api.Operation[Any, Any]]:
    from kb_research.operations import OPERATIONS

    return OPERATIONS if _offered(plugins) else []
