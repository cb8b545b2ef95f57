"""H9: what the engine says of itself."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError


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


def test_plugins_are_listed_with_what_they_contribute(kb_engine: Engine) -> None:
    found = {item["name"]: item for item in kb_engine.list_plugins()["data"]}

    assert (found["bulk"]["state"], found["bulk"]["enabled"]) == ("active", True)
    assert "bulk_preview" in found["bulk"]["contributes"]["operations"]


def test_a_plugin_that_is_switched_off_is_gone_at_the_next_start(kb_home: Path) -> None:
    with connect() as engine:
        now = engine.set_plugin(name="research", enabled=False)
        listed = {item["name"]: item for item in engine.list_plugins()["data"]}
    assert (now["state"], now["enabled"]) == ("active", False)
    assert listed["research"]["enabled"] is False

    with connect() as engine:
        listed = {item["name"]: item for item in engine.list_plugins()["data"]}
        assert (listed["research"]["state"], listed["research"]["enabled"]) == ("disabled", False)
        assert engine.set_plugin(name="research", enabled=True)["enabled"] is True
        with pytest.raises(EngineError, match=r"no plugin 'reserch'; did you mean 'research'\?"):
            engine.set_plugin(name="reserch", enabled=False)


def test_settings_say_where_they_come_from_and_hide_secrets(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "50")
    monkeypatch.setenv("KB_LOCAL_SECRETS", "required")
    monkeypatch.setenv("KB_KNOWLEDGE_GENERATOR_API_KEY", "very secret")
    with connect() as engine:
        answer = engine.list_settings()

    found = {item["variable"]: item for item in answer["data"]}
    percent = found["KB_BULK_SAFETY_PERCENT"]
    assert (percent["value"], percent["source"], percent["key"]) == (
        50,
        "environment",
        "bulk_safety_percent",
    )
    assert answer["unknown"] == ["KB_LOCAL_SECRETS"]
    assert "very secret" not in str(answer)
