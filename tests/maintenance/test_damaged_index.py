"""A search in an index that is damaged is an error that says what to do, never an empty answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, connect
from kb_framework.edges.mcp.calls import run_tool
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.plugins import Plugins
from kb_testing.fixtures import Run

from .conftest import doctor, fill

Sql = Callable[..., list[tuple]]

sqlite_tables = pytest.mark.sqlite_only("SQLite's own tables")

BOTH = [
    ["DELETE FROM chunks_fts_1_data", "DELETE FROM chunks_vec_1_vector_chunks00"],
    ["DROP TABLE chunks_fts_1_data", "DROP TABLE chunks_vec_1_vector_chunks00"],
    ["DROP TABLE chunks_fts_1", "DROP TABLE chunks_vec_1_chunks"],
    # One index is damaged, the other finds nothing.
    ["DELETE FROM chunks_fts_1_data", "DELETE FROM chunks_vec_1"],
]


@sqlite_tables
@pytest.mark.parametrize("damage", BOTH, ids=lambda damage: "; ".join(damage))
def test_a_search_with_damaged_indexes_is_an_error_on_every_surface(
    kb_home: Path, kb_run: Run, sql: Sql, damage: list[str]
) -> None:
    with connect() as engine:
        fill(engine)
    for statement in damage:
        sql(statement)
    with connect() as engine:
        for ask in (
            lambda: engine.search("zebras"),
            lambda: engine.search("zebras", mode="lexical"),
            lambda: engine.post("/knowledge/context", {"query": "zebras"}),
            lambda: engine.research_search("zebras"),
        ):
            with pytest.raises(EngineError, match="damaged") as refused:
                ask()
            assert (refused.value.http_status, refused.value.code) == (503, "store_unusable")
            assert "kb doctor --repair" in (refused.value.hint or "")
        (item,) = engine.bulk_search([{"query": "zebras"}])["results"]
        assert (item["response"], item["error"]["code"]) == (None, "store_unusable")
        assert "kb doctor --repair" in item["error"]["hint"]
        tool = bind_tools(Plugins(read_bootstrap()), "read")["kb_search"]
        assert run_tool(tool, lambda: engine, {"query": "zebras"}).is_error

    said = kb_run("search", "zebras")
    assert (said.returncode, said.stdout) == (3, "")
    assert "kb doctor --repair" in said.stderr
    added = kb_run("note", "more zebras")
    assert added.returncode in (0, 3)
    assert added.returncode == 0 or "kb doctor --repair" in added.stderr
    repaired = json.loads(kb_run("doctor", "--repair", "--json").stdout)
    assert repaired["status"] == "ok", repaired
    assert json.loads(kb_run("search", "zebras", "--json").stdout)["hits"]


@sqlite_tables
def test_one_damaged_index_leaves_the_other_to_answer(kb_engine: Engine, sql: Sql) -> None:
    fill(kb_engine)
    sql("DELETE FROM chunks_fts_1_data")

    found = kb_engine.search("zebras")

    assert found["hits"]
    assert "lexical was left out" in found["hint"]
    assert "kb doctor --repair" in found["hint"]
    assert doctor(kb_engine)["status"] == "error"


def emptied(mode: str) -> str:
    """The statement that empties the index of a mode of search."""
    text = "chunks_fts" if "KB_DATABASE_URL" in os.environ else "chunks_fts_1"
    return f"DELETE FROM {text if mode == 'lexical' else 'chunks_vec_1'}"


@pytest.mark.parametrize("mode", ["lexical", "vector"])
def test_a_search_in_an_index_that_was_emptied_is_an_error_with_or_without_a_filter(
    kb_engine: Engine, sql: Sql, mode: str
) -> None:
    fill(kb_engine)
    sql(emptied(mode))

    for asked in ({}, {"tags": ["marked"]}, {"path_glob": "nowhere/**"}):
        with pytest.raises(EngineError, match="holds none of the chunks") as refused:
            kb_engine.search("zebras", mode=mode, **asked)
        assert (refused.value.http_status, refused.value.code) == (503, "store_unusable")
        assert "kb doctor --repair" in (refused.value.hint or "")
    # The other index still answers.
    found = kb_engine.search("zebras")
    assert found["hits"]
    assert f"{mode} was left out" in found["hint"]
    assert kb_engine.post("/doctor/repair")["status"] == "ok"
    assert kb_engine.search("zebras", mode=mode)["hits"]


def test_an_empty_knowledge_base_finds_nothing_without_an_error(kb_engine: Engine) -> None:
    for mode in ("lexical", "vector", "hybrid"):
        assert kb_engine.search("zebras", mode=mode)["hits"] == []


def test_a_search_by_meaning_where_nothing_was_embedded_says_so(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "none")
    with connect() as engine:
        fill(engine)
    monkeypatch.delenv("KB_EMBEDDER")
    with connect() as engine:
        with pytest.raises(EngineError, match="no chunk has a vector") as refused:
            engine.search("zebras", mode="vector")
        assert "kb reindex" in (refused.value.hint or "")
        assert "no chunk has a vector: kb reindex" in engine.search("zebras")["hint"]
