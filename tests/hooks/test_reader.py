"""Whoever says that a model reads the answer is given less, never more."""

from __future__ import annotations

import json

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import InvalidInput
from kb_testing.fixtures import Install

SHY = """
from kb_framework import hookimpl
from kb_framework.api.tables import documents

@hookimpl
def kb_narrow_retrieval(actor):
    return documents.c.title != "private" if actor.reader == "model" else None
"""


@pytest.fixture
def engine(kb_home, kb_plugin: Install):
    kb_plugin("shy", SHY, module="kb_shy")
    with connect() as engine:
        engine.add_note("of harbours", title="private")
        engine.add_note("of harbours", title="public")
        yield engine


def titles(engine: Engine, **options) -> list[str]:
    return sorted(hit["title"] for hit in engine.search("harbours", **options)["hits"])


def test_a_search_for_a_model_leaves_out_what_a_plugin_keeps_from_models(engine: Engine) -> None:
    for mode in ("lexical", "vector", "hybrid"):
        assert titles(engine, mode=mode) == ["private", "public"]
        assert titles(engine.read_by("model"), mode=mode) == ["public"]


def test_every_mcp_tool_reads_for_a_model(engine: Engine) -> None:
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.edges.mcp.calls import run_tool
    from kb_framework.edges.mcp.tools import bind_tools
    from kb_framework.plugins import Plugins

    tools = bind_tools(Plugins(read_bootstrap()), "admin")

    found = run_tool(tools["kb_search"], lambda: engine, {"query": "harbours"})
    content = run_tool(
        tools["kb_get_document"], lambda: engine, {"document_id": 1, "content": True}
    )

    assert not found.is_error
    assert [hit["title"] for hit in json.loads(found.content[0].text)["hits"]] == ["public"]
    assert json.loads(content.content[0].text)["chunks"] == []


def test_a_reader_that_is_neither_person_nor_model_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidInput) as refused:
        engine.read_by("robot").search("harbours")  # type: ignore[arg-type]

    assert refused.value.http_status == 400
    assert "KB-Reader" in refused.value.message
