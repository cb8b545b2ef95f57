"""Whatever fusers and rerankers return, a search shows nothing that was hidden from it; a wrong type costs its part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kb_documents.models import NoteIn

from kb_framework.api import DEFAULT_ORGANIZATION, Actor
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine, connect
from kb_framework.edges.http.app import create_app
from kb_framework.errors import EngineError
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, stored

OTHER = "00000000-0000-4000-8000-0000000000aa"
START = """
import sqlalchemy as sa
from kb_framework import api, hookimpl
from kb_framework.api.retrieval import Hits
from kb_framework.api.tables import chunks

def every(tx):
    return list(tx.connection.scalars(sa.select(chunks.c.seq)))

def hits(tx):
    return [api.Hit(number, 9.0, {"lexical": 1}, {"lexical": 9.0}) for number in every(tx)]
"""
FUSES = """
@hookimpl
def kb_fuse_hits(queries, lists, tx):
    return [hits(tx) for query in queries]
"""
FUSES_COLUMNS = """
@hookimpl
def kb_fuse_hits(queries, lists, tx):
    for found in lists[0].values():
        # The lists are the fuser's own: what it writes into them is not permitted for that.
        found.chunks, found.scores = every(tx), [1.0] * len(every(tx))
    numbers = every(tx) * 2
    return [Hits(numbers, [9.0] * len(numbers), {}) for query in queries]
"""
RERANKS = """
class Everything:
    def rerank(self, query, found, tx):
        return hits(tx) + list(found)

@hookimpl
def kb_rerankers():
    return [api.Reranker("everything", f"{__name__}:Everything")]
"""
RETRIEVES = """
class Everything:
    def retrieve(self, query, tx):
        return [api.Candidate(number, 1.0) for number in every(tx)]

@hookimpl
def kb_retrievers():
    return [api.Retriever("everything", f"{__name__}:Everything")]
"""
HOSTILE = {
    "fuse_hits": FUSES,
    "columns": FUSES_COLUMNS,
    "rerank": RERANKS,
    "fuse and rerank": FUSES + RERANKS,
}
STATES = ("normal", "inactive", "never_generate")


@pytest.fixture(params=HOSTILE)
def kb(
    request: pytest.FixtureRequest,
    kb_home: Path,
    kb_plugin: Install,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[KB]:
    kb_plugin("hostile", START + HOSTILE[request.param])
    if "rerank" in request.param:
        monkeypatch.setenv("KB_SEARCH_RERANKER", "everything")
    kb = open_kb()
    yield kb
    kb.close()


@pytest.fixture
def engine(kb: KB) -> Iterator[Engine]:
    """An engine with a chunk in each state, and one that belongs to another organization."""
    with Engine(AsgiTransport(create_app(kb)), kb.plugins) as engine:
        for state in STATES:
            engine.add_note(f"harbours that are {state}", title=state)
        for chunk in engine.list_chunks()["data"]:
            if chunk["title"] == "inactive":
                engine.deactivate_chunk(chunk["id"])
            elif chunk["title"] != "normal":
                engine.set_chunk_policy(chunk["id"], chunk["title"])
        another_organization()
        foreign = NoteIn(text="harbours that are foreign", title="foreign")
        kb.services["adding"].add_note(foreign, Actor(organization_id=OTHER))
        yield engine


def another_organization() -> None:
    stored(
        "INSERT INTO organizations (id, name, revision, created_at) VALUES (?, 'other', 0, '2026-01-01T00:00:00Z')",
        OTHER,
    )


def titles(hits: list[dict[str, Any]]) -> set[str]:
    return {hit["title"] for hit in hits}


@pytest.mark.both_stores
def test_s11_no_fuser_or_reranker_puts_back_what_a_search_may_not_show(
    kb: KB, engine: Engine
) -> None:
    assert titles(engine.search("harbours")["hits"]) == {"normal", "never_generate"}
    assert titles(engine.read_by("model").search("harbours")["hits"]) == {"normal"}
    for item in engine.bulk_search([{"query": "harbours"}, {"query": "normal harbours"}])[
        "results"
    ]:
        assert titles(item["response"]["hits"]) == {"normal", "never_generate"}
    traced = engine.search("harbours", trace=True)["trace"]
    assert {len(items) for items in (*traced["lists"].values(), traced["fusion"])} <= {0, 1, 2}


@pytest.mark.both_stores
def test_s11_no_fuser_or_reranker_puts_back_what_a_model_may_not_read(
    kb: KB, engine: Engine
) -> None:
    context = engine.knowledge_context(query="harbours")
    research = engine.read_by("model").research_search("harbours")["results"]

    assert [item["title"] for item in context["facts"]] == ["normal"]
    for hidden in ("inactive", "never_generate", "foreign"):
        assert hidden not in context["prompt"]
    assert {item["snippet_text"] for item in research} == {"harbours that are normal"}


@pytest.mark.both_stores
def test_s11_filters_hold_for_what_a_fuser_returns(kb: KB, engine: Engine) -> None:
    engine.add_note("harbours in a letter", title="letter", doc_type="letter")

    assert titles(engine.search("harbours", doc_type="letter")["hits"]) == {"letter"}


@pytest.mark.both_stores
@pytest.mark.parametrize("disabled", ["", "knowledge,research"])
def test_s11_no_retriever_names_another_organizations_chunk(
    kb_home: Path, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch, disabled: str
) -> None:
    """Also where nothing narrows a search, so that it has no condition."""
    from kb_framework.api import RetrievalQuery

    kb_plugin("hostile", START + RETRIEVES)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", disabled)
    with connect() as engine:
        engine.add_note("a harbour")
    another_organization()
    stored("UPDATE documents SET organization_id = ?", OTHER)
    stored("UPDATE chunks SET organization_id = ?", OTHER)
    with connect() as engine:
        engine.add_note("a lighthouse")
    kb = open_kb()
    with kb.store.read(DEFAULT_ORGANIZATION) as tx:
        query = RetrievalQuery("harbour", Actor(), 10, ("everything",))
        found = kb.retrieval.search(query, tx)
    kb.close()

    assert len(found.hits) == len(found.lists["everything"]) == 1


WRONG = [
    "42",
    "['a text']",
    "[1, 2]",
    "{'a': 1}",
    "'text'",
    "[api.Candidate('1', 1.0)]",
    "[api.Candidate(1, 'best')]",
    "[(1,)]",
]


@pytest.mark.parametrize("answer", WRONG)
def test_a_retriever_that_returns_the_wrong_type_is_named_and_the_others_answer(
    kb_home, kb_plugin: Install, answer
) -> None:
    from kb_framework.api import RetrievalQuery
    from kb_framework.errors import PluginFailed

    kb_plugin(
        "odd",
        START
        + RETRIEVES.replace(
            "return [api.Candidate(number, 1.0) for number in every(tx)]", f"return {answer}"
        ),
    )
    with connect() as engine:
        engine.add_note("a harbour")
    kb = open_kb()
    with kb.store.read() as tx:
        query = RetrievalQuery("harbour", Actor(), 10, ("lexical", "everything"))
        both = kb.retrieval.search(query, tx)
        (alone,) = kb.retrieval.search_all([query._replace(retrievers=("everything",))], tx)
    reported = [info.errors for info in kb.plugins.infos if info.name == "odd"]
    kb.close()

    assert len(both.hits) == 1
    assert "plugin 'odd'" in both.degraded["everything"]
    assert isinstance(alone, PluginFailed) and "odd" in alone.message
    assert "WrongType" in reported[0][0]


WRONG_HITS = [
    "42",
    "['a text']",
    "[1, 2]",
    "'text'",
    "{1: 2}",
    "[api.Hit('1', 1.0, {}, {})]",
    "[api.Hit(1, None, {}, {})]",
    "[api.Hit(1, 1.0, None, {})]",
    "Hits([1], [], {})",
]


@pytest.mark.parametrize(
    "answer", ["42", "'text'", "[]", "[[], []]", *(f"[{hits}]" for hits in WRONG_HITS)]
)
def test_a_fuser_that_returns_the_wrong_type_is_named_and_the_next_one_fuses(
    kb_home, kb_plugin: Install, answer
) -> None:
    kb_plugin(
        "odd", START + f"\n@hookimpl\ndef kb_fuse_hits(queries, lists):\n    return {answer}\n"
    )
    with connect() as engine:
        engine.add_note("a harbour")
        found = engine.search("harbour")
        errors = engine.get("/health")["plugins"]["errors"]["odd"]

    assert len(found["hits"]) == 1
    assert "plugin 'odd'" in found["hint"]
    assert "WrongType" in errors[0] and "kb_fuse_hits" in errors[0]


@pytest.mark.parametrize("answer", WRONG_HITS)
def test_a_reranker_that_returns_the_wrong_type_is_named_and_changes_nothing(
    kb_home, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch, answer
) -> None:
    kb_plugin("odd", START + RERANKS.replace("return hits(tx) + list(found)", f"return {answer}"))
    monkeypatch.setenv("KB_SEARCH_RERANKER", "everything")
    with connect() as engine:
        engine.add_note("a harbour")
        found = engine.search("harbour")

    assert len(found["hits"]) == 1
    assert "plugin 'odd'" in found["hint"]


SOURCE = """
from kb_framework import api, hookimpl

class Odd:
    model = "odd"
    dimensions = 4

    def search(self, query):
        return ANSWER

    def encode(self, texts):
        return ANSWER

    def generate(self, prompt):
        return ANSWER

def extract(data, name):
    return ANSWER

@hookimpl
def kb_research_sources():
    return [api.ResearchSource("odd_source", f"{__name__}:Odd")]

@hookimpl
def kb_embedders():
    return [api.Embedder("odd", f"{__name__}:Odd")]

@hookimpl
def kb_generators():
    return [api.Generator("odd", f"{__name__}:Odd")]

@hookimpl
def kb_extractors():
    return [api.Extractor("odd", f"{__name__}:extract", media="odd", suffixes=(".odd",))]
"""
RESULT = "api.ResearchResult('text', 1.0, 'web')"


@pytest.mark.parametrize(
    "answer",
    [
        "['a string']",
        "'text'",
        "None",
        "42",
        RESULT,
        "[api.ResearchResult(1, 1.0, 'web')]",
        f"[{RESULT}._replace(score='x')]",
    ],
)
def test_a_research_source_of_the_wrong_type_is_named_and_the_others_answer(
    kb_home, kb_plugin: Install, answer: str
) -> None:
    kb_plugin("odd", SOURCE.replace("ANSWER", answer))
    with connect() as engine:
        engine.add_note("a harbour")
        found = engine.research_search("harbour")

    assert [item["snippet_text"] for item in found["results"]] == ["a harbour"]
    assert "plugin 'odd' failed in the research source 'odd_source': " in found["hint"]


@pytest.mark.parametrize(
    "answer",
    [
        "[[0.1, 0.2, 0.3, 0.4]] * len(texts)",
        "None",
        "b'x'",
        "[b'x'] * len(texts)",
        "[]",
        "['x'] * len(texts)",
    ],
)
def test_an_embedder_of_the_wrong_type_is_named_and_nothing_is_stored(
    kb_home, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    kb_plugin("odd", SOURCE.replace("ANSWER", answer))
    with connect() as engine:
        engine.add_note("a harbour")
    monkeypatch.setenv("KB_EMBEDDER", "odd")
    with connect() as engine:
        for call in (lambda: engine.add_note("a lighthouse"), lambda: engine.post("/reindex", {})):
            with pytest.raises(EngineError) as failed:
                call()
            assert failed.value.http_status == 503
            assert "plugin 'odd' failed in the embedder 'odd': expected" in failed.value.message
        assert engine.list_documents()["meta"]["total"] == 1
        assert len(engine.search("harbour", mode="lexical")["hits"]) == 1


@pytest.mark.parametrize("answer", ["[1, 2]", "None", "42", "b'bytes'", "[b'bytes']"])
def test_a_generator_of_the_wrong_type_is_named(
    kb_home, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    kb_plugin("odd", SOURCE.replace("ANSWER", answer))
    monkeypatch.setenv("KB_KNOWLEDGE_GENERATOR", "odd")
    with connect() as engine:
        engine.add_note("a harbour")
        with pytest.raises(EngineError) as failed:
            engine.post("/knowledge/ask", {"query": "harbour"})

    assert failed.value.http_status == 503
    assert (
        "plugin 'odd' failed in the generator 'odd': expected pieces of text"
        in failed.value.message
    )


def test_an_extractor_of_the_wrong_type_is_named_and_costs_that_file(
    kb_home, kb_plugin: Install
) -> None:
    kb_plugin("odd", SOURCE.replace("ANSWER", "'a text'"))
    with connect() as engine:
        failed, added = engine.add_files([("a.odd", b"harbour", {}), ("b.md", b"lighthouse", {})])[
            "results"
        ]

    assert added["error"] is None
    message = "plugin 'odd' failed in the extractor 'odd': returned str instead of Extracted"
    assert message in failed["error"]["message"]
