"""H9: what the engine says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kb_framework.app import open_kb
from kb_framework.client import AsgiTransport, Engine
from kb_framework.errors import EngineError
from kb_framework.web import create_app


def test_the_schema_publishes_every_wire_object(kb_engine: Engine) -> None:
    found = kb_engine.get("/schema")

    assert {"Document", "Job", "Added", "SearchOut", "BulkResult", "FlatError", "ErrorV1"} <= set(found["wire"])
    assert found["capabilities"]["bulk"] is True
    assert "safety_threshold_exceeded" in found["error_codes"]
    components = {"components": {"schemas": found["wire"]}}
    schema = {**components, "$ref": "#/components/schemas/Added"}
    jsonschema.validate(kb_engine.add_note("a note"), schema)


def test_health_counts_what_is_there(kb_engine: Engine) -> None:
    kb_engine.add_note("one", tags=["a", "b"])
    kb_engine.add_note("two", tags=["b"])

    assert kb_engine.get("/health")["counts"] == {"documents": 2, "chunks": 2, "tags": 2}


def test_a_command_makes_only_the_routes_that_it_asks_until_somebody_needs_all(kb_home: Path) -> None:
    kb = open_kb()
    edge = create_app(kb)
    with Engine(AsgiTransport(edge, kb.close), kb.plugins) as engine:
        engine.add_note("a note")
        assert engine.get("/tags")["data"] == []
        assert {path for path in made(edge) if not path.startswith(("/api/v1/notes", "/api/v1/tags"))} == set()

        with pytest.raises(EngineError, match="Not Found"):
            engine.get("/nothing-of-this-name")
        assert {"/api/v1/search", "/api/v1/bulk/delete", "/schema"} <= made(edge)
        assert engine.search("note")["hits"]


def test_a_command_imports_only_the_routes_that_it_asks(kb_home: Path) -> None:
    code = (
        "import sys\n"
        "from kb_framework.client import connect\n"
        "with connect() as engine:\n"
        "    engine.add_note('a note')\n"
        "print(*sorted(name for name in sys.modules if name.endswith('routes') and name.startswith('kb_')))"
    )
    environment = {**os.environ, "KB_DISABLED_PLUGINS": "legalhold"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout.split() == ["kb_documents.routes"]


ELSEWHERE = """
from litestar import get
from kb_framework import api, hookimpl

@get("/tide", sync_to_thread=False, opt={"permission": "engine.view"})
def tide() -> str:
    return "low"

@hookimpl
def kb_routes():
    return [api.Routes("tide", f"{__name__}:tide", under=("weather",))]
"""


def test_routes_that_are_not_where_their_plugin_says_fail_that_plugin(kb_home: Path, plugin: Callable[..., Any]) -> None:
    plugin("elsewhere", ELSEWHERE)
    kb = open_kb()
    with Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins) as engine:
        failed = engine.get("/health")["plugins"]["failed"]
    assert [*failed] == ["elsewhere"]
    assert "said to be under weather, not 'tide'" in failed["elsewhere"]


def made(edge: Any) -> set[str]:
    """The paths of the routes that exist by now."""
    parts = edge._parts
    apps = [parts.whole] if "whole" in vars(parts) else parts._built.values()
    return {route.path for app in apps for route in app.routes}
