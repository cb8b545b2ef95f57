"""D13: views, the named selections."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kb_documents.tables import saved_views

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Move, Run

from .conftest import exported, imported

CITY = """
import sqlalchemy as sa
from kb_framework import api, hookimpl
from kb_framework.api.tables import documents

def city(value: str) -> sa.ColumnElement[bool]:
    return documents.c.title.contains(value)

@hookimpl
def kb_selection_filters():
    return [api.SelectionFilter("city", f"{__name__}:city", help="Selects documents about this city.")]
"""


def matched(engine: Engine, **filters: Any) -> int:
    return engine.bulk_preview("delete", **filters)["matched"]


@pytest.fixture
def engine(kb_engine: Engine) -> Engine:
    kb_engine.add_note("one", tags=["old", "draft"])
    kb_engine.add_note("two", tags=["old"])
    kb_engine.add_note("three")
    return kb_engine


def test_a_view_is_saved_replaced_listed_and_removed(engine: Engine) -> None:
    first = engine.save_view("to do", filters={"tags": ["old"]}, description="what is old")
    again = engine.save_view("to do", filters={"any_tags": ["draft"], "untagged": False})

    assert (first["filters"], first["description"], first["problem"]) == (
        {"tags": ["old"]},
        "what is old",
        None,
    )
    assert again["filters"] == {"any_tags": ["draft"], "untagged": False}
    assert again["created_at"] == first["created_at"]
    assert engine.get_view("to do") == again
    assert engine.list_views()["data"] == [again]
    assert matched(engine, view="to do") == 1

    engine.remove_view("to do")

    assert engine.list_views()["meta"]["total"] == 0
    for ask in (engine.get_view, engine.remove_view):
        with pytest.raises(EngineError) as refused:
            ask("to do")
        assert refused.value.http_status == 404


def test_a_view_is_combined_with_the_other_filters(engine: Engine) -> None:
    engine.save_view("old", filters={"tags": ["old"]})

    assert matched(engine, view="old") == 2
    assert matched(engine, view="old", tags=["draft"]) == 1
    assert matched(engine, view="old", untagged=True) == 0


def test_a_change_of_the_view_after_the_preview_refuses_the_plan(engine: Engine) -> None:
    engine.save_view("old", filters={"tags": ["draft"]})
    plan = engine.bulk_preview("delete", view="old")["plan"]
    engine.save_view("old", filters={"tags": ["old"]})

    with pytest.raises(EngineError) as refused:
        engine.bulk_delete(plan=plan)

    assert refused.value.code == "selection_changed"
    assert matched(engine, view="old") == 2


@pytest.mark.parametrize(
    "filters",
    [{}, {"tags": []}, {"doc_type": ""}, {"nosuch": 1}, {"view": "old"}, {"created_after": "soon"}],
    ids=str,
)
def test_a_view_without_valid_filters_is_not_saved(filters: dict[str, Any], engine: Engine) -> None:
    engine.save_view("old", filters={"tags": ["old"]})

    with pytest.raises(EngineError) as refused:
        engine.save_view("new", filters=filters)

    assert refused.value.http_status == 400
    assert [item["name"] for item in engine.list_views()["data"]] == ["old"]


@pytest.mark.parametrize("name", ["a/b", "..", "a,b", "", "x" * 129, "a\x07"])
def test_a_name_that_no_address_can_hold_is_refused(name: str, engine: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        engine.save_view(name, filters={"tags": ["old"]})

    assert refused.value.http_status in (400, 404)
    assert engine.list_views()["data"] == []


def test_a_view_whose_plugin_is_gone_is_refused_and_never_widens(
    kb_home: Path, kb_plugin: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb_plugin("cities", CITY)
    with connect() as engine:
        engine.add_note("about Oslo", tags=["trip"])
        engine.add_note("about Rome", tags=["trip"])
        engine.save_view("north", filters={"tags": ["trip"], "city": "Oslo"})
        assert matched(engine, view="north") == 1
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "cities")

    with connect() as engine:
        for ask in (
            lambda: matched(engine, view="north"),
            lambda: engine.bulk_delete(view="north", force=True),
            lambda: engine.document_facets(view="north"),
            lambda: engine.list_chunks(view="north"),
            lambda: engine.list_documents(view="north"),
            lambda: engine.document_growth(view="north"),
            lambda: engine.search("about", view="north"),
            lambda: engine.knowledge_context("about", filters={"view": "north"}),
            lambda: engine.research_search("about", filters={"view": "north"}),
        ):
            with pytest.raises(EngineError) as refused:
                ask()
            assert (refused.value.http_status, refused.value.code) == (409, "view_invalid")
            assert "no plugin offers its filter 'city'" in str(refused.value)
        assert engine.document_facets()["documents"] == 2
        (shown,) = engine.list_views()["data"]
        assert "city" in shown["problem"]


def test_a_view_that_contains_a_view_is_refused_wherever_it_came_from(engine: Engine) -> None:
    for name in ("first", "second"):
        engine.save_view(name, filters={"tags": ["old"]})
    other = {"first": "second", "second": "first"}
    for name, inner in other.items():
        with pytest.raises(EngineError) as refused:
            engine.save_view(name, filters={"view": inner})
        assert (refused.value.http_status, "view" in str(refused.value)) == (400, True)
    # As an import could bring it: both name each other.
    kb = open_kb()
    try:
        with kb.store.write() as tx:
            for name, inner in other.items():
                here = saved_views.c.name == name
                tx.execute(sa.update(saved_views).where(here).values(filters={"view": inner}))
    finally:
        kb.close()

    for ask in (engine.list_documents, engine.document_facets, engine.list_chunks):
        with pytest.raises(EngineError) as refused:
            ask(view="first")
        assert refused.value.code == "view_invalid"
        assert "a view cannot contain a view" in str(refused.value)
    with pytest.raises(EngineError):
        engine.bulk_delete(view="first", force=True)
    problems = [item["problem"] for item in engine.list_views()["data"]]
    assert len(problems) == 2
    assert all("cannot contain a view" in problem for problem in problems)


def test_views_travel_with_an_export_and_their_ids_follow(
    engine: Engine, tmp_path: Path, kb_move: Move
) -> None:
    engine.save_view("old", filters={"tags": ["old"]})
    engine.save_view("these", filters={"document_ids": [1, 3]})
    archive = exported(engine)
    kb_move(tmp_path / "other")

    with connect() as other:
        other.add_note("somebody else's first")
        imported(other, archive)
        titles = [item["title"] for item in other.bulk_preview("delete", view="these")["sample"]]
        assert sorted(titles) == ["one", "three"]
        assert matched(other, view="old") == 2


def test_views_by_command(engine: Engine, kb_run: Run) -> None:
    saved = kb_run("views", "save", "stale", "--tags", "old", "--description", "old things")
    listed = json.loads(kb_run("views", "list", "--json").stdout)["data"]
    shown = json.loads(kb_run("views", "show", "stale", "--json").stdout)
    changed = kb_run("bulk-tag", "--view", "stale", "--add", "seen", "--yes", "--json")
    removed = kb_run("views", "remove", "stale")

    assert (saved.returncode, removed.returncode) == (0, 0)
    assert listed == [shown]
    assert shown["filters"] == {"tags": ["old"]}
    assert json.loads(changed.stdout)["succeeded"] == 2
    assert kb_run("views", "show", "stale").returncode == 1
    assert kb_run("bulk-tag", "--view", "stale", "--add", "x", "--yes").returncode == 2
