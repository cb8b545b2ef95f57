"""A search in an index that is damaged is an error that says what to do, never an empty answer."""

from __future__ import annotations

import json
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

pytestmark = pytest.mark.sqlite_only("SQLite's own tables")

BOTH = [
    ["DELETE FROM chunks_fts_1_data", "DELETE FROM chunks_vec_1_vector_chunks00"],
    ["DROP TABLE chunks_fts_1_data", "DROP TABLE chunks_vec_1_vector_chunks00"],
    ["DROP TABLE chunks_fts_1", "DROP TABLE chunks_vec_1_chunks"],
    # One index is damaged, the other finds nothing.
    ["DELETE FROM chunks_fts_1_data", "DELETE FROM chunks_vec_1"],
]


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


def test_one_damaged_index_leaves_the_other_to_answer(kb_engine: Engine, sql: Sql) -> None:
    fill(kb_engine)
    sql("DELETE FROM chunks_fts_1_data")

    found = kb_engine.search("zebras")

    assert found["hits"]
    assert "lexical was left out" in found["hint"]
    assert doctor(kb_engine)["status"] == "error"
