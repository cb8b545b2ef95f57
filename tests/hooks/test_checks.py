"""The hook `kb_checks`: the doctor checks, repairs and rebuilds what plugins declare, and outlives those that raise."""

from __future__ import annotations

from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_testing.fixtures import Install

PLUGIN = """
from pathlib import Path

from kb_framework import api, hookimpl
from kb_framework.api.parts import HostSettings

class Readings:
    def __init__(self, host_settings: HostSettings) -> None:
        self.place = host_settings.data_dir / "readings"

    def check(self):
        if not self.place.exists():
            yield api.Finding("error", "readings", "there are none", "kb doctor --repair")
        else:
            yield api.Finding("ok", "readings", self.place.read_text())

    def check_all(self):
        yield api.Progress("readings", 1, 2)
        yield api.Finding("warning", "readings", "one is odd")

    def repair(self):
        yield api.Progress("readings", 0, 1)
        self.place.write_text("repaired")
        yield "made the readings again"

    def rebuild(self):
        yield api.Progress("readings", 1, 1)
        self.place.write_text("rebuilt")

@hookimpl
def kb_checks():
    return [api.Check("readings", f"{__name__}:Readings")]
"""

RAISING = """
from kb_framework import api, hookimpl

class Broken:
    def check(self):
        yield api.Finding("warning", "broken", "this was found")
        raise RuntimeError("secret detail")

    def repair(self):
        raise RuntimeError("secret detail")

    def check_all(self):
        raise RuntimeError("secret detail")

    def rebuild(self):
        raise RuntimeError("secret detail")

class Odd:
    def check(self):
        return ["a text is no finding"]

class Unmade:
    def __init__(self):
        raise RuntimeError("secret detail")

@hookimpl
def kb_checks():
    return [api.Check(name.lower(), f"{__name__}:{name}", rank=1) for name in ("Broken", "Odd", "Unmade")]
"""


def finished(engine: Engine, path: str) -> dict[str, Any]:
    while not (answer := engine.post(path, {}))["finished"]:
        pass
    return answer


def about(report: dict[str, Any], name: str) -> list[tuple[str, str]]:
    return [(item["state"], item["message"]) for item in report["checks"] if item["name"] == name]


def test_the_doctor_reports_repairs_and_rebuilds_what_a_plugin_declares(
    kb_home, kb_plugin: Install
) -> None:
    kb_plugin("weather", PLUGIN)

    with connect() as engine:
        first = engine.get("/doctor")
        repaired = finished(engine, "/doctor/repair")
        deep = finished(engine, "/doctor/deep")
        engine.add_note("apple pie")
        finished(engine, "/reindex")
        last = engine.get("/doctor")

    assert (first["status"], about(first, "readings")) == (
        "error",
        [("error", "there are none: kb doctor --repair")],
    )
    assert first["checks"][-1]["name"] == "readings"
    assert repaired["repairs"] == ["made the readings again"]
    assert about(repaired, "readings") == [("ok", "repaired")]
    assert about(deep, "readings") == [("warning", "one is odd")]
    assert about(last, "readings") == [("ok", "rebuilt")]


def test_a_check_that_raises_costs_itself_alone_and_names_its_plugin(
    kb_home, kb_plugin: Install
) -> None:
    kb_plugin("careless", RAISING)
    kb_plugin("weather", PLUGIN)

    with connect() as engine:
        report = engine.get("/doctor")
        repaired = finished(engine, "/doctor/repair")
        deep = finished(engine, "/doctor/deep")
        finished(engine, "/reindex")

    assert report["status"] == "error"
    assert about(report, "broken")[0] == ("warning", "this was found")
    for name in ("broken", "odd", "unmade"):
        state, words = about(report, name)[-1]
        assert state == "error"
        assert "'careless'" in words
        assert "secret" not in words
    assert {"settings", "database", "files", "readings"} <= {
        item["name"] for item in report["checks"]
    }
    assert repaired["repairs"][-1] == "made the readings again"
    assert about(repaired, "readings") == [("ok", "repaired")]
    assert "'careless'" in about(deep, "broken")[0][1]


@pytest.mark.parametrize("name", ["files", "documents", "access"])
def test_the_checks_of_a_plugin_go_with_it(kb_home, monkeypatch, name: str) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", name)

    with connect() as engine:
        report = engine.get("/doctor")

    assert report["status"] == "ok", report
    assert ("files" in {item["name"] for item in report["checks"]}) == (name != "files")
