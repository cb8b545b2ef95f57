"""The entry point of the research plugin. What it adds is knowledge, so without the knowledge plugin it offers nothing."""

from __future__ import annotations

from collections.abc import Mapping

from kb_framework import api, hookimpl
from kb_framework.plugins import Plugins


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("research", "kb_research.settings:ResearchSettings")]


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [api.Migration(1, "saved_items", "kb_research.migrations:create_saved_items")]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("research.search", "Search sources for research.", "viewer"),
        api.Permission("research.add_to_knowledge", "Add what research found.", "editor"),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [api.Service("research", "kb_research.service:ResearchService")]


@hookimpl
def kb_research_sources() -> list[api.ResearchSource]:
    return [
        api.ResearchSource("store", "kb_research.store_source:StoreSource"),
        api.ResearchSource("files", "kb_research.local:LocalFiles"),
    ]


@hookimpl
def kb_export_tables() -> list[api.ExportTable]:
    return [api.ExportTable("saved_research_items", table="saved_research_items", key="id")]


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"research": True}


def _offered(plugins: Plugins) -> bool:
    return plugins.services.get("knowledge_adding") is not None


@hookimpl
def kb_routes(plugins: Plugins) -> list[api.Routes]:
    return [api.Routes("research", "kb_research.routes:handlers", under=("research",))] if _offered(plugins) else []


@hookimpl
def kb_commands(plugins: Plugins) -> list[api.Command]:
    def command(name: str, help: str) -> api.Command:
        return api.Command(f"research {name}", f"kb_research.commands:{name}", help=help, group="Knowledge")

    offered = [
        command("search", "Search here and elsewhere for snippets to add."),
        command("add", "Add a snippet, and say what it is."),
        command("recent", "List your searches."),
    ]
    return offered if _offered(plugins) else []


@hookimpl
def kb_tools(plugins: Plugins) -> list[api.Tool]:
    offered = [
        api.Tool(
            "kb_research_search",
            "kb_research.tools:search",
            "Search for snippets",
            "read",
            open_world=True,
            permission="research.search",
        ),
        api.Tool(
            "kb_research_add",
            "kb_research.tools:add",
            "Add a snippet",
            "write",
            idempotent=True,
            permission="research.add_to_knowledge",
        ),
    ]
    return offered if _offered(plugins) else []


@hookimpl
def kb_client_methods(plugins: Plugins) -> list[api.ClientMethod]:
    names = ("research_search", "research_recent", "research_add") if _offered(plugins) else ()
    return [api.ClientMethod(name, f"kb_research.client:{name}") for name in names]
