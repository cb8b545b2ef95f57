"""D12: one vocabulary of filters; each filter selects the same documents on every surface."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.edges.cli.app import run
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError, InvalidInput
from kb_framework.operations import input_model
from kb_framework.pipelines.selection import Selector
from kb_framework.plugins import Plugins

# A value of each filter, and the documents of `collection` that it selects. A time is that of the third document.
SELECTED: dict[str, tuple[Any, set[int]]] = {
    "document_ids": ([1, 4, 99], {1, 4}),
    "tags": (["boats", "old"], {1}),
    "any_tags": (["boats", "old"], {1, 2, 4}),
    "not_tags": (["old", "nosuch"], {2, 3}),
    "untagged": (True, {3}),
    "doc_type": ("memo", {3}),
    "lang": ("PT", {3}),
    "media": (["md"], {1, 2, 3, 4}),
    "trust_min": ("secondary", {1, 2, 4}),
    "path_glob": ("**/sub/*.md", {2}),
    "named": ("SUB/b", {2}),
    "source_ref": ("https://example.org/1", {1}),
    "query": ("harbours rope", {2}),
    "from_id": (3, {3, 4}),
    "to_id": (2, {1, 2}),
    "created_after": ("TIME", {4}),
    "created_before": ("TIME", {1, 2}),
    "updated_after": ("TIME", {4}),
    "updated_before": ("TIME", {1, 2}),
    "ingested_after": ("TIME", {4}),
    "ingested_before": ("TIME", {1, 2}),
    "view": ("olden", {1, 4}),
    "missing": (False, {1, 2, 3, 4}),
    "on_hold": (True, {4}),
}
EVERY = {1, 2, 3, 4}
ASKING = ("list_documents", "list_chunks", "document_facets", "document_growth", "search")
Surface = Callable[[Engine, dict[str, Any]], set[int] | int]


@dataclass
class Collection:
    engine: Engine
    time: str

    def value(self, name: str) -> Any:
        value = SELECTED[name][0]
        return self.time if value == "TIME" else value


@pytest.fixture
def collection(kb_engine: Engine) -> Collection:
    kb_engine.add_note(
        "the first harbour", tags=["boats", "old"], source_ref="https://example.org/1"
    )
    upload = kb_engine.start_upload("b.md", path="docs/sub/b.md", tags=["boats"])["upload_id"]
    kb_engine.append_upload(upload, 0, b"the second harbour has ropes")
    kb_engine.finish_upload(upload)
    third = kb_engine.add_note(
        "the third harbour", doc_type="memo", lang="pt-br", trust="generated"
    )
    kb_engine.add_note("the fourth harbour", tags=["old"], trust="secondary")
    kb_engine.place_hold(document_ids=[4], reason="a case")
    kb_engine.save_view("olden", filters={"tags": ["old"]})
    return Collection(kb_engine, third["document"]["created_at"])


def changed(engine: Engine, filters: dict[str, Any]) -> set[int]:
    return {item["id"] for item in engine.bulk_preview("delete", **filters)["sample"]}


def curated(engine: Engine, filters: dict[str, Any]) -> set[int]:
    sample = engine.bulk_preview("deactivate", **filters)["sample"]
    return {item["document_id"] for item in sample}


def chunks(engine: Engine, filters: dict[str, Any]) -> set[int]:
    return {item["document_id"] for item in engine.list_chunks(**filters)["data"]}


def context(engine: Engine, filters: dict[str, Any]) -> set[int]:
    found = engine.knowledge_context("harbour", filters=filters)
    return {item["document_id"] for item in found["facts"]}


def searched(engine: Engine, filters: dict[str, Any]) -> set[int]:
    if "query" in filters:
        # In a search this is the name of the question; a view takes it there as a filter.
        engine.save_view("words", filters=filters)
        filters = {"view": "words"}
    return {hit["doc_id"] for hit in engine.search("harbour", **filters)["hits"]}


def searched_with_others(engine: Engine, filters: dict[str, Any]) -> set[int]:
    if "query" in filters:
        engine.save_view("words", filters=filters)
        filters = {"view": "words"}
    queries = [{"query": "harbour"}, {"query": "harbour", "mode": "lexical", **filters}]
    response = engine.bulk_search(queries)["results"][1]["response"]
    return {hit["doc_id"] for hit in response["hits"]}


def researched(engine: Engine, filters: dict[str, Any]) -> set[int]:
    found = engine.research_search("harbour", filters=filters)["results"]
    return {item["document_id"] for item in found}


def listed(engine: Engine, filters: dict[str, Any]) -> set[int]:
    return {item["id"] for item in engine.list_documents(**filters)["data"]}


def listed_by_query(engine: Engine, filters: dict[str, Any]) -> set[int]:
    return {item["id"] for item in engine.get("/documents", **filters)["data"]}


def listed_by_a_tool(engine: Engine, filters: dict[str, Any]) -> set[int]:
    tool = bind_tools(engine.plugins, "read")["kb_list_documents"]
    found = tool.function(engine, **tool.arguments({"filters": filters}))
    return {item["id"] for item in found["data"]}


def counted(engine: Engine, filters: dict[str, Any]) -> int:
    return engine.document_facets(by=["lang"], **filters)["documents"]


def growth(engine: Engine, filters: dict[str, Any]) -> int:
    return engine.document_growth(**filters)["added"]


def asked_by_query(engine: Engine, filters: dict[str, Any]) -> int:
    return engine.get("/documents/facets", by="lang", **filters)["documents"]


def viewed(engine: Engine, filters: dict[str, Any]) -> set[int]:
    if "view" in filters:
        # A view in a view is refused; see below.
        return changed(engine, filters)
    engine.save_view("this one", filters=filters)
    return changed(engine, {"view": "this one"})


SURFACES: list[Surface] = [
    changed,
    curated,
    chunks,
    context,
    searched,
    searched_with_others,
    researched,
    listed,
    listed_by_query,
    listed_by_a_tool,
    counted,
    growth,
    asked_by_query,
    viewed,
]


def test_every_filter_of_documents_is_examined_here(kb_home: Path) -> None:
    offered = Selector(Plugins(read_bootstrap())).offered("documents")

    assert {item.name for item in offered} == set(SELECTED)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
def test_each_filter_selects_the_same_documents(surface: Surface, collection: Collection) -> None:
    found, expected = {}, {}
    for name, (_, documents) in SELECTED.items():
        answer = surface(collection.engine, {name: collection.value(name)})
        found[name] = answer
        expected[name] = documents if isinstance(answer, set) else len(documents)

    assert found == expected


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
def test_several_filters_are_combined_with_and(surface: Surface, collection: Collection) -> None:
    answer = surface(
        collection.engine, {"any_tags": ["boats", "old"], "on_hold": False, "to_id": 1}
    )

    assert answer in ({1}, 1)


@pytest.mark.parametrize("command", ["list", "facets", "bulk-remove", "chunks list"])
def test_each_filter_is_a_flag_that_selects_the_same(
    command: str, collection: Collection, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {item.name: item.flag for item in Plugins(read_bootstrap()).filters}
    found = {}
    for name in SELECTED:
        value = collection.value(name)
        words = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        flag = flags[name] or f"--{name.replace('_', '-')}"
        given = f"{flag}={words.lower() if isinstance(value, bool) else words}"
        more = ["--dry-run"] if command == "bulk-remove" else []
        capsys.readouterr()
        assert run([*command.split(), "--json", given, *more]) == 0, name
        answer = json.loads(capsys.readouterr().out)
        found[name] = (
            answer["meta"]["total"]
            if "meta" in answer
            else answer.get("documents", answer.get("matched"))
        )

    assert found == {name: len(documents) for name, (_, documents) in SELECTED.items()}


def test_each_filter_is_a_parameter_of_every_request_and_tool_that_selects(kb_home: Path) -> None:
    plugins = Plugins(read_bootstrap())
    operations = [
        *(item for item in plugins.operations if item.name.startswith("bulk_") and item.subject),
        *(plugins.operations.get(name) for name in ASKING),
    ]
    tools = bind_tools(plugins, "admin")

    for operation in operations:
        assert operation is not None
        assert set(SELECTED) <= set(input_model(plugins, operation).model_fields), operation.name
        if operation.tool:
            offered = described(tools[operation.tool.name].description.input_schema)
            assert set(SELECTED) <= offered, operation.name


def described(schema: dict[str, Any]) -> set[str]:
    """Return the parameters of a tool with those that its parameter `filters` lists."""
    listed = schema["properties"]["filters"]["description"].partition(": ")[2].rstrip(".")
    return {*schema["properties"], *re.split(r"[\[\]=,]\S*\s*", listed)}


def test_a_tool_takes_filters_beside_its_other_parameters_and_inside_of_filters(
    collection: Collection,
) -> None:
    tool = bind_tools(Plugins(read_bootstrap()), "admin")["kb_chunks_list"]
    found = []
    for given in (
        {"any_tags": ["old"], "on_hold": False},
        {"filters": {"any_tags": ["old"]}, "on_hold": False},
        {"filters": '{"any_tags": ["old"], "on_hold": false}'},
    ):
        answer = tool.function(collection.engine, **tool.arguments(given))
        found.append([item["document_id"] for item in answer["data"]])

    assert found == [[1], [1], [1]]
    for given in ({"filters": {"nosuch": 1}}, {"filters": 3}, {"filters": {"page": 1}, "page": 1}):
        with pytest.raises((InvalidInput, ValidationError)):
            tool.arguments(given)


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"created_after": "yesterday"}, "created_after"),
        ({"created_after": "0001-01-01T00:00:00+23:59"}, "created_after"),
        ({"updated_before": "9" * 60}, "updated_before"),
        ({"ingested_before": "2026-13-01"}, "ingested_before"),
        ({"trust_min": "best"}, "trust_min"),
        ({"untagged": "yes"}, "untagged"),
        ({"tags": ["a,b"]}, "tags.0"),
        ({"document_ids": [2**63]}, "document_ids.0"),
        ({"view": "nosuch"}, "view"),
        ({"path_glob": "x" * 1001}, "path_glob"),
        ({"query": "\x00"}, "query"),
    ],
    ids=str,
)
def test_bad_values_are_refused_by_name(
    filters: dict[str, Any], field: str, kb_engine: Engine
) -> None:
    for ask in (
        lambda: kb_engine.bulk_preview("delete", **filters),
        lambda: kb_engine.document_facets(**filters),
    ):
        with pytest.raises(EngineError) as refused:
            ask()
        assert refused.value.http_status == 400
        assert refused.value.details["field"] == field


def test_hostile_values_are_answered(collection: Collection) -> None:
    engine = collection.engine
    many = [f"tag{number}" for number in range(10_000)]

    assert counted(engine, {"path_glob": "**/" * 300 + "x"}) == 0
    assert counted(engine, {"path_glob": "*a" * 400}) == 0
    assert counted(engine, {"path_glob": "[" * 500}) == 0
    assert changed(engine, {"tags": [*many, "old"]}) == set()
    assert changed(engine, {"any_tags": [*many, "old"]}) == {1, 4}
    assert changed(engine, {"not_tags": [*many, "old"]}) == {2, 3}
    assert changed(engine, {"document_ids": list(range(2, 100_000))}) == {2, 3, 4}
    assert changed(engine, {"query": '"* AND NEAR( -'}) == set()
    assert changed(engine, {"query": "harbour " * 100}) == EVERY


def test_an_empty_text_is_refused_in_a_change_and_ignored_in_a_list(collection: Collection) -> None:
    engine = collection.engine
    for name in ("doc_type", "query", "view", "lang", "path_glob", "created_after", "source_ref"):
        with pytest.raises(EngineError) as refused:
            engine.bulk_preview("delete", document_ids=[1], **{name: ""})
        assert refused.value.http_status == 400, name
        assert counted(engine, {name: ""}) == 4, name
        assert asked_by_query(engine, {name: ""}) == 4, name
    with pytest.raises(EngineError):
        engine.bulk_preview("delete", tags=[])
    assert counted(engine, {"tags": []}) == 4


@pytest.mark.parametrize(
    ("filters", "hint"),
    [
        ({"any_tags": ["bots"]}, "no document has tag 'bots'; nearest: 'boats'"),
        ({"doc_type": "memos"}, "no document has type 'memos'; nearest: 'memo'"),
        ({"path_glob": "src/**"}, "no document has a path like 'src/**'"),
        ({"query": "submarine", "doc_type": "memo"}, 'no document matches query "submarine"'),
        ({"untagged": True, "doc_type": "note"}, "no document matches all of doc_type, untagged"),
        ({"tags": ["boats"], "on_hold": True}, "no document matches all of on_hold, tags"),
    ],
    ids=str,
)
def test_an_empty_answer_names_the_filter_that_nothing_matches(
    filters: dict[str, Any], hint: str, collection: Collection
) -> None:
    assert collection.engine.document_facets(**filters)["hint"] == hint
    assert collection.engine.bulk_preview("delete", **filters)["hint"] == hint


def test_a_filter_of_another_organization_selects_nothing_there(collection: Collection) -> None:
    from kb_framework.api import Actor
    from kb_framework.app import open_kb
    from kb_framework.in_process import BorrowedTransport

    kb = open_kb()
    try:
        other = Actor(organization_id="11111111-1111-4111-8111-111111111111")
        engine = Engine(BorrowedTransport(kb, actor=other), kb.plugins)
        for name in set(SELECTED) - {"view"}:
            assert counted(engine, {name: collection.value(name)}) == 0, name
        with pytest.raises(EngineError):
            counted(engine, {"view": "olden"})
    finally:
        kb.close()
