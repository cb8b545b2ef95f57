"""A1: every route, tool and operation names a permission that somebody declares; a command has no way around the routes."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from kb_framework.api import ANY_KEY, PUBLIC
from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.edges.http.app import create_app
from kb_framework.plugins import Plugins
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, missing_permissions

PLUGINS = sorted(item.name for item in importlib.metadata.entry_points(group="kb_framework"))

# What everyone may ask: that the engine is there, and what is said of every engine of this version.
OPEN_TO_ALL = {
    "/api/v1/health/live",
    "/",
    "/docs",
    "/schema",
    "/schema/openapi.json",
    "/schema/swagger",
    "/schema/oauth2-redirect.html",
    "/schema/{path:str}",
    "/assets/swagger/{file_path:path}",
    # Signing in and out of the console, and what its pages load.
    "/console/sign-in",
    "/console/signed-out",
    "/console/open",
    "/console/session/link",
    "/console/session/end",
    "/console/assets/{digest:str}/{name:str}",
}

# What every key opens, whatever it allows: who is asking, and their own sessions. And `/mcp`, whose tools ask the routes.
OPEN_TO_ANY_KEY = {
    "/api/v1/whoami",
    "/api/v1/sessions",
    "/api/v1/sessions/link",
    "/api/v1/sessions/{session_id:uuid}",
}

# They work on the data folder's files, which only its owner can, or are an engine themselves: no route is involved.
LOCAL_COMMANDS = {
    "kb_framework.edges.cli.config_commands",
    "kb_framework.edges.cli.host_commands",
    "kb_maintenance.commands",
    "kb_models.commands",
    "kb_documents.worker_commands",
    "kb_postgres.commands",
}


def names_of_permissions_missing() -> list[str]:
    plugins = Plugins(read_bootstrap())
    kb = open_kb(read_bootstrap(), plugins)
    try:
        return missing_permissions(kb)
    finally:
        kb.close()


def test_every_route_tool_and_operation_names_a_declared_permission(kb_home) -> None:
    assert names_of_permissions_missing() == []


@pytest.mark.parametrize("name", PLUGINS)
def test_that_is_so_without_any_one_plugin(kb_home, monkeypatch, name) -> None:
    if name == ("postgres" if "KB_DATABASE_URL" in os.environ else "sqlite"):
        pytest.skip("without its store nothing can be opened")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)

    assert names_of_permissions_missing() == []


@pytest.mark.parametrize(
    ("permission", "expected"), [(PUBLIC, OPEN_TO_ALL), (ANY_KEY, OPEN_TO_ANY_KEY)]
)
def test_what_is_open_to_all_is_a_short_list(kb_home, permission: str, expected: set[str]) -> None:
    kb = open_kb()
    try:
        app = create_app(kb).app  # type: ignore[attr-defined]
        found = {
            route.path
            for route in app.routes
            for handler in getattr(route, "route_handlers", None) or [route.route_handler]
            if handler.opt.get("permission") == permission
        }
    finally:
        kb.close()
    if permission == ANY_KEY:
        # Pages show what operations answer to whom looks, and each operation requires its permission.
        found = {path for path in found if not path.startswith("/console")}

    assert found == expected


CARELESS = """
from litestar import get
from kb_framework import api, hookimpl

@get("/careless", sync_to_thread=True)
def careless() -> dict:
    return {"open": True}

@get("/misspelt", sync_to_thread=True, opt={"permission": "documents.raed"})
def misspelt() -> dict:
    return {"open": True}

handlers = [careless, misspelt]

def tool(engine) -> dict:
    "A tool."
    return {}

@hookimpl
def kb_routes():
    return [api.Routes("careless", "careless_plugin:handlers")]

@hookimpl
def kb_tools():
    return [api.Tool("kb_careless", "careless_plugin:tool", "Careless", "read")]

@hookimpl
def kb_mutation_kinds():
    return [api.MutationKind("shred", "kb_documents.mutations:Delete", "shred", "Shred.", permission="")]
"""


def test_a_plugin_that_forgets_it_is_found_out(kb_home, kb_plugin: Install) -> None:
    kb_plugin("careless", CARELESS, module="careless_plugin")

    found = names_of_permissions_missing()

    assert [line for line in found if "careless" in line and "names no permission" in line]
    assert any("documents.raed" in line for line in found)
    assert any("kb_careless" in line for line in found)
    assert any("shred" in line for line in found)


def test_a_route_that_names_none_is_closed_to_keys_and_open_to_the_owner(
    kb_home, kb_plugin: Install
) -> None:
    kb_plugin("careless", CARELESS, module="careless_plugin")
    kb = open_kb()
    app = create_app(kb)
    owner, network = AsgiTransport(app), AsgiTransport(app, actor=None)
    try:
        assert network.send("GET", "/api/v1/careless", {}, b"").status == 200

        body = b'{"user": "a", "role": "admin"}'
        key = json.loads(
            owner.send("POST", "/api/v1/keys", {"Content-Type": "application/json"}, body).body
        )["key"]
        shown = {"Authorization": f"Bearer {key}"}

        assert owner.send("GET", "/api/v1/careless", {}, b"").status == 200
        assert network.send("GET", "/api/v1/careless", {}, b"").status == 401
        assert network.send("GET", "/api/v1/careless", shown, b"").status == 403
        assert network.send("GET", "/api/v1/misspelt", shown, b"").status == 403
    finally:
        owner.close()
        network.close()
        kb.close()


def test_no_command_or_tool_reaches_past_the_routes() -> None:
    """They are clients of HTTP, so what a route refuses they cannot do."""
    reaching: list[str] = []
    plugins = Plugins(read_bootstrap())
    items = [item for found in (plugins.commands, plugins.tools) for item in found]
    # What is made of an operation has no function of its own; a command may print with one.
    targets = {
        target for item in items for target in (item.target, getattr(item, "render", "")) if target
    }
    modules = {target.split(":")[0] for target in targets}
    assert {"kb_bulk.tools", "kb_search.open_commands", "kb_access.commands"} <= modules
    for module in sorted(modules - LOCAL_COMMANDS):
        reaching += past_the_routes(module)

    assert reaching == []


def past_the_routes(module: str) -> list[str]:
    spec = find_spec(module)
    assert spec and spec.origin
    forbidden = ("kb_framework.storage", "kb_framework.app", f"{module.split('.')[0]}.service")
    names: list[str] = []
    for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))):
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [item.name for item in node.names] if isinstance(node, ast.Import) else []
    return [f"{module} imports {name}" for name in names if name.startswith(forbidden)]


def test_a_module_that_reaches_past_the_routes_is_found_out() -> None:
    assert past_the_routes("kb_access.roles") != []
