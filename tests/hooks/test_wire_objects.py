"""kb_wire_objects: what a plugin sends under a name and a version is published."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from kb_framework.client import connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Install

PLUGIN = """
from pydantic import BaseModel

from kb_framework import api, hookimpl


class Report(BaseModel):
    city: str
    degrees: float


@hookimpl
def kb_wire_objects():
    return [api.WireObject("weather_report.v1", "weather_wire:Report")]
"""


def test_a_plugins_wire_object_has_its_schema_published(kb_home: Path, kb_plugin: Install) -> None:
    kb_plugin("weather", PLUGIN, module="weather_wire")

    with connect() as engine:
        schema = engine.get("/wire/weather_report.v1")
        assert "weather_report.v1" in engine.get("/wire")["data"]
        assert engine.get("/schema")["wire"]["weather_report.v1"] == schema
    jsonschema.validate({"city": "Oslo", "degrees": -3.5}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"city": "Oslo"}, schema)


def test_a_wire_object_that_two_plugins_name_costs_the_later_one(
    kb_home: Path, kb_plugin: Install
) -> None:
    clash = PLUGIN.replace("weather_report.v1", "search_response.v1").replace(
        "weather_wire", "clash_wire"
    )
    kb_plugin("clash", clash, module="clash_wire")

    with connect() as engine:
        assert "clash" in engine.get("/health")["plugins"]["failed"]
        assert engine.get("/wire/search_response.v1")["properties"]["hits"]
        with pytest.raises(EngineError):
            engine.get("/wire/weather_report.v1")
