"""H9: what the engine says of itself."""

from __future__ import annotations

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
        assert engine.get("/health")["counts"]["documents"] == 1
        assert {path for path in made(edge) if not path.startswith(("/api/v1/notes", "/api/v1/health"))} == set()

        with pytest.raises(EngineError, match="Not Found"):
            engine.get("/nothing-of-this-name")
        assert {"/api/v1/search", "/api/v1/bulk/delete", "/schema"} <= made(edge)
        assert engine.search("note")["hits"]


def made(edge: Any) -> set[str]:
    """The paths of the routes that exist by now."""
    parts = edge._parts
    apps = [parts.whole] if "whole" in vars(parts) else parts._built.values()
    return {route.path for app in apps for route in app.routes}
