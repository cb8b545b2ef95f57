"""H9: what the engine says of itself."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from kb_framework.client import Engine, connect


def test_the_schema_publishes_every_wire_object(kb_engine: Engine) -> None:
    found = kb_engine.get("/schema")

    assert {"Document", "Job", "Added", "SearchOut", "BulkResult", "FlatError", "ErrorV1"} <= set(
        found["wire"]
    )
    assert found["capabilities"]["bulk"] is True
    assert "safety_threshold_exceeded" in found["error_codes"]
    components = {"components": {"schemas": found["wire"]}}
    schema = {**components, "$ref": "#/components/schemas/Added"}
    jsonschema.validate(kb_engine.add_note("a note"), schema)


def test_health_counts_what_is_there(kb_engine: Engine) -> None:
    kb_engine.add_note("one", tags=["a", "b"])
    kb_engine.add_note("two", tags=["b"])

    assert kb_engine.get("/health")["counts"] == {"documents": 2, "chunks": 2, "tags": 2}


def test_health_and_doctor_say_that_the_disk_is_full(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DISK_RESERVE_BYTES", str(10**18))
    with connect() as engine:
        health, doctor = engine.get("/health"), engine.get("/doctor")

    assert (health["status"], health["disk"]["ok"]) == ("degraded", False)
    assert "the disk is full" in health["disk"]["problem"]
    assert [check["state"] for check in doctor["checks"] if check["name"] == "disk"] == ["error"]
