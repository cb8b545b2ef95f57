"""The entry point of the console plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_hookspecs() -> list[api.Hookspecs]:
    return [api.Hookspecs("kb_console.hookspecs")]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("console", "kb_console.settings:ConsoleSettings")]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("console", "kb_console.service:Console", ("console",)),
    ]


@hookimpl
def kb_routes() -> list[api.Routes]:
    return [api.Routes("console", "kb_console.routes:handlers", build=True, base="/console")]


@hookimpl
def kb_commands() -> list[api.Command]:
    return [
        api.Command(
            "console",
            "kb_console.commands:console",
            help="Open the console in a browser.",
            group="Start",
        )
    ]


@hookimpl
def kb_pages() -> list[api.Page]:
    """The console's own pages, in the order of its menu. Each is there where its operation is."""

    def page(
        name: str,
        path: str,
        title: str,
        group: str,
        operation: str,
        rank: int,
        permission: str = "",
    ) -> api.Page:
        return api.Page(
            name, path, title, group, operation=operation, permission=permission, rank=rank
        )

    return [
        page("home", "/", "Home", "", "list_documents", 10),
        page("search", "/search", "Search", "", "search", 20),
        page("documents", "/documents", "Documents", "", "list_documents", 30),
        page("knowledge", "/knowledge", "Knowledge", "Curate", "list_chunks", 10),
        page("ask", "/ask", "Ask", "Curate", "knowledge_context", 20),
        page("research", "/research", "Research", "Curate", "research_search", 30),
        page("jobs", "/jobs", "Jobs", "Operate", "list_jobs", 10),
        page("access", "/access", "Access", "Operate", "list_keys", 20),
        page("engine", "/engine", "Plugins and health", "Operate", "list_plugins", 30),
    ]
