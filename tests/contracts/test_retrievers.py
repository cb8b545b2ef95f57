"""K5: whatever finds chunks, it finds none that are inactive, and for a model none that must never be generated from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_framework.api import Actor, RetrievalQuery
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_framework.edges.mcp.calls import run_tool
from kb_framework.edges.mcp.tools import bind_tools
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install

# One that asks the store for what is allowed, as the guide says, and one that does not care.
OUTSIDE = """
import sqlalchemy as sa
from kb_framework import api, hookimpl
from kb_framework.api.chunks import allowed_chunks
from kb_framework.api.tables import chunks

@hookimpl
def kb_retrievers():
    return [api.Retriever("polite", "kb_outside:Polite"), api.Retriever("careless", "kb_outside:Careless")]

class Polite:
    def retrieve(self, query, tx):
        return [api.Candidate(number, 1.0) for number in tx.connection.scalars(allowed_chunks(query, tx))]

class Careless:
    def retrieve(self, query, tx):
        return [api.Candidate(number, 1.0) for number in tx.connection.scalars(sa.select(chunks.c.seq))]
"""
RETRIEVERS = ["lexical", "vector", "polite", "careless"]
STATES = ("normal", "inactive", "never_generate", "inspiration_only")


@pytest.fixture
def kb(kb_home: Path, kb_plugin: Install) -> Iterator[KB]:
    kb_plugin("outside", OUTSIDE, module="kb_outside")
    kb = open_kb()
    yield kb
    kb.close()


@pytest.fixture
def engine(kb: KB) -> Iterator[Engine]:
    with Engine(AsgiTransport(create_app(kb)), kb.plugins) as engine:
        yield engine


@pytest.fixture
def found(kb: KB, engine: Engine) -> dict[str, int]:
    """A chunk in each state, by its number in the store."""
    for state in STATES:
        engine.add_note(f"harbours that are {state}", title=state)
    for chunk in engine.list_chunks()["data"]:
        if chunk["title"] == "inactive":
            engine.deactivate_chunk(chunk["id"])
        elif chunk["title"] != "normal":
            engine.set_chunk_policy(chunk["id"], chunk["title"])
    return {state: number for number, state in enumerate(STATES, 1)}


def searched(
    kb: KB, retrievers: tuple[str, ...], actor: Actor, purpose: str = "search"
) -> set[int]:
    with kb.store.read() as tx:
        query = RetrievalQuery("harbours that are normal inactive", actor, 50, retrievers, purpose)
        return {hit.chunk for hit in kb.retrieval.search(query, tx).hits}


def test_k5_every_registered_retriever_is_tested_here(kb: KB) -> None:
    assert {item.name for item in kb.plugins.retrievers} - set(RETRIEVERS) == set()


@pytest.mark.parametrize("name", [*RETRIEVERS, "lexical vector"])
def test_k5_no_retriever_finds_an_inactive_chunk(kb: KB, found: dict[str, int], name: str) -> None:
    retrievers = tuple(name.split())

    assert searched(kb, retrievers, Actor()) == set(found.values()) - {found["inactive"]}


@pytest.mark.parametrize("name", [*RETRIEVERS, "lexical vector"])
@pytest.mark.parametrize(
    ("actor", "purpose"),
    [(Actor(reader="model"), "search"), (Actor(), "model")],
    ids=["reader", "purpose"],
)
def test_k5_no_retriever_finds_never_generate_for_a_model(
    kb: KB, found: dict[str, int], name: str, actor: Actor, purpose: str
) -> None:
    assert searched(kb, tuple(name.split()), actor, purpose) == {
        found["normal"],
        found["inspiration_only"],
    }


def test_k5_an_activated_chunk_is_found_again(
    kb: KB, engine: Engine, found: dict[str, int]
) -> None:
    (chunk,) = engine.list_chunks(status="inactive")["data"]
    engine.activate_chunk(chunk["id"])

    assert searched(kb, ("lexical",), Actor()) == set(found.values())


def test_k5_where_nothing_is_curated_a_search_is_not_narrowed(kb: KB, engine: Engine) -> None:
    engine.add_note("harbours")

    with kb.store.read() as tx:
        query = RetrievalQuery("harbours", Actor(reader="model"), 5, ("lexical",))
        conditions = kb.plugins.narrow_retrieval(query, query.actor, query.purpose, tx)

    assert [str(condition) for condition in conditions if "legal_holds" not in str(condition)] == []


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
def test_k5_search_over_http_and_over_mcp(
    kb: KB, engine: Engine, found: dict[str, int], mode: str
) -> None:
    titles = {hit["title"] for hit in engine.search("harbours", mode=mode)["hits"]}
    tool = bind_tools(kb.plugins, "read")["kb_search"]
    answer = run_tool(tool, lambda: engine, {"query": "harbours", "mode": mode})

    assert titles == {"normal", "never_generate", "inspiration_only"}
    assert {hit["title"] for hit in json.loads(answer.content[0].text)["hits"]} == {
        "normal",
        "inspiration_only",
    }


def test_k5_a_model_does_not_get_around_it_by_asking_for_documents_or_ids(
    kb: KB, engine: Engine, found: dict[str, int]
) -> None:
    chunks = {chunk["title"]: chunk for chunk in engine.list_chunks(status="all")["data"]}
    tools = bind_tools(kb.plugins, "read")
    for state in ("inactive", "never_generate"):
        number = chunks[state]["document_id"]
        document = run_tool(
            tools["kb_get_document"], lambda: engine, {"document_id": number, "content": True}
        )
        assert json.loads(document.content[0].text)["chunks"] == []
        assert len(engine.get_document_chunks(number)["data"]) == 1
        if "kb_get_chunks" in tools:
            by_id = run_tool(
                tools["kb_get_chunks"], lambda: engine, {"chunk_ids": [chunks[state]["id"]]}
            )
            assert "harbours" not in by_id.content[0].text


def test_k5_a_context_has_neither(kb: KB, engine: Engine, found: dict[str, int]) -> None:
    context = engine.knowledge_context("harbours")

    used = {
        item["title"]
        for name in ("facts", "angles", "examples", "quotes")
        for item in context[name]
    }
    assert used == {"normal", "inspiration_only"}
    assert "inactive\n" not in context["prompt"].split("# Question")[0]
