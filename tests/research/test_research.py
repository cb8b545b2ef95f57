"""R1–R4: search here and elsewhere, add on purpose, and not too often."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run

TIDES = "# Tides\n\nTides rise and fall twice a day because of the moon.\n"
LINES = [
    {
        "text": "I think tides are overrated.",
        "url": "https://example.org/1",
        "title": "A blog",
        "source_type": "web",
    },
    {
        "text": "“Time and tide wait for no man.” — Chaucer",
        "created_at": "2020-05-01",
        "tags": ["old", "sea"],
    },
    {"title": "nothing to find"},
]


def refused(call: Any) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "tides.md").write_text(TIDES, encoding="utf-8")
    (folder / "found.ndjson").write_text(
        "\n".join(json.dumps(line) for line in LINES), encoding="utf-8"
    )
    (folder / "picture.png").write_bytes(b"\x89PNG tides")
    return folder


@pytest.fixture
def engine(kb_home: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("KB_RESEARCH_PATHS", str(outside))
    with connect() as engine:
        yield engine


def texts(found: dict[str, Any]) -> list[str]:
    return [result["snippet_text"] for result in found["results"]]


# R1


def test_r1_links_are_not_followed_and_a_deep_line_costs_its_file(
    engine: Engine, outside: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("the tides of the secret", encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.md").write_text("the tides of another secret", encoding="utf-8")
    (outside / "link.md").symlink_to(tmp_path / "secret.md")
    (outside / "folder").symlink_to(tmp_path / "other")
    (outside / "deep.ndjson").write_text("[" * 100_000, encoding="utf-8")

    assert set(texts(engine.research_search("tides"))) == {
        TIDES.strip(),
        LINES[0]["text"],
        LINES[1]["text"],
    }


def test_r1_the_store_and_files_that_were_not_added_are_searched(engine: Engine) -> None:
    engine.add_note("Tides are caused by the moon.", title="Moon")

    found = engine.research_search("tides")

    by_text = {result["snippet_text"]: result for result in found["results"]}
    assert set(by_text) == {
        "Tides are caused by the moon.",
        TIDES.strip(),
        LINES[0]["text"],
        LINES[1]["text"],
    }
    here = by_text["Tides are caused by the moon."]
    assert (here["source"], here["source_type"], here["source_title"]) == (
        "store",
        "manual",
        "Moon",
    )
    assert here["chunk_id"] and here["document_id"]
    there = by_text[LINES[0]["text"]]
    assert (there["source_type"], there["source_ref"], there["source_title"]) == (
        "web",
        "https://example.org/1",
        "A blog",
    )
    assert (there["suggested_kind"], there["suggested_policy"]) == ("angle", "inspiration_only")
    assert by_text[LINES[1]["text"]]["suggested_kind"] == "quote"
    assert there["chunk_id"] is None
    assert all(0 <= result["score"] <= 1 for result in found["results"])


def test_r1_snippets_are_whole(engine: Engine) -> None:
    text = ("Tides. " + "A very long sentence about the sea. " * 12).strip()
    engine.add_note(text)

    assert text in texts(engine.research_search("very long sentence sea"))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"source_types": ["web"]}, {LINES[0]["text"]}),
        ({"source_types": ["manual"]}, {"Tides of the note."}),
        ({"source_types": ["doc"]}, {"Tides of the file."}),
        ({"tags": ["old", "sea"]}, {LINES[1]["text"]}),
        ({"tags": ["noted"]}, {"Tides of the note."}),
        ({"created_before": "2021-01-01"}, {LINES[1]["text"]}),
        ({"created_after": "2100-01-01T00:00:00Z"}, set()),
        ({"path_prefix": "papers/"}, {"Tides of the file."}),
    ],
    ids=str,
)
def test_r1_filters_narrow_every_source(
    engine: Engine, filters: dict[str, Any], expected: set[str]
) -> None:
    engine.add_note("Tides of the note.", tags=["noted"])
    engine.add_file("a.md", b"Tides of the file.", path="papers/a.md")

    assert set(texts(engine.research_search("tides", filters=filters))) == expected


def test_r1_the_limit_is_kept_and_the_best_come_first(engine: Engine) -> None:
    for number in range(5):
        engine.add_note(f"Tides {'tides ' * number}of note {number}")

    found = engine.research_search("tides", limit=3)["results"]

    assert len(found) == 3
    assert [result["score"] for result in found] == sorted(
        (result["score"] for result in found), reverse=True
    )


def test_r1_what_is_here_is_not_offered_by_another_source_and_least_of_all_what_was_pruned(
    engine: Engine,
) -> None:
    text = LINES[0]["text"]
    chunk = engine.research_add(text, "angle")["chunk_id"]

    (result,) = [
        item
        for item in engine.research_search("tides overrated")["results"]
        if item["snippet_text"] == text
    ]
    engine.deactivate_chunk(chunk)

    assert (result["source"], result["chunk_id"]) == ("store", chunk)
    assert text not in texts(engine.research_search("tides overrated"))


def test_r1_what_somebody_decided_is_suggested_again(engine: Engine) -> None:
    number = engine.add_note("Tides are a fact of life.")["document"]["id"]
    chunk = engine.get_document_chunks(number)["data"][0]["id"]
    engine.reclassify_chunk(chunk, "example")

    found = {
        item["chunk_id"]: item for item in engine.research_search("tides fact of life")["results"]
    }

    assert found[chunk]["suggested_kind"] == "example"


def test_r1_a_model_is_not_given_what_it_must_never_generate_from(engine: Engine) -> None:
    chunk = engine.research_add("Secret tides of the bay.", "fact", usage_policy="never_generate")[
        "chunk_id"
    ]

    assert chunk in {item["chunk_id"] for item in engine.research_search("secret tides")["results"]}
    assert chunk not in {
        item["chunk_id"]
        for item in engine.read_by("model").research_search("secret tides")["results"]
    }


def test_r1_a_changed_file_is_read_again(engine: Engine, outside: Path) -> None:
    engine.research_search("tides")
    (outside / "deep" / "tides.md").write_text(
        "# Moles\n\nMoles dig in the dark.\n", encoding="utf-8"
    )

    assert "Moles dig in the dark." in texts(engine.research_search("moles"))[0]


def test_r1_a_file_that_cannot_be_read_costs_itself_only(engine: Engine, outside: Path) -> None:
    (outside / "broken.ndjson").write_text("{not json", encoding="utf-8")

    assert LINES[0]["text"] in texts(engine.research_search("tides"))


def test_r1_a_source_of_a_plugin_is_asked_and_one_that_fails_is_said(
    kb_home: Path, kb_plugin: Install
) -> None:
    source = """
from kb_framework import api, hookimpl

@hookimpl
def kb_research_sources():
    return [api.ResearchSource("almanac", "kb_almanac:Almanac"), api.ResearchSource("broken", "kb_almanac:Broken")]

class Almanac:
    def search(self, query):
        return [api.ResearchResult(f"The almanac knows {query.text}.", 3.0, "web", "almanac:1", "Almanac")]

class Broken:
    def search(self, query):
        raise RuntimeError("out of order")
"""
    kb_plugin("almanac", source, module="kb_almanac")
    with connect() as engine:
        found = engine.research_search("tides")

    assert texts(found) == ["The almanac knows tides."]
    assert (
        found["hint"]
        == "broken was left out: plugin 'almanac' failed in the research source 'broken': RuntimeError"
    )


def test_r1_searches_are_kept_with_their_results(engine: Engine) -> None:
    first = engine.research_search("tides")
    second = engine.research_search("moon")

    recent = engine.research_recent()

    assert [item["id"] for item in recent["data"]] == [second["saved_id"], first["saved_id"]]
    assert recent["data"][1]["query"] == "tides"
    assert recent["data"][1]["results"] == first["results"]
    assert recent["meta"]["total"] == 2
    assert engine.get_research(first["saved_id"]) == recent["data"][1]


def test_r1_a_kept_search_is_shown_to_its_caller_alone(kb_home: Path) -> None:
    from kb_research.models import ResearchIn, SavedIn

    from kb_framework.api import Actor
    from kb_framework.app import open_kb
    from kb_framework.errors import NotFound

    kb = open_kb()
    research = kb.services["research"]
    kept = SavedIn(saved_id=research.search(ResearchIn(query="tides"), Actor()).saved_id)

    assert research.saved(kept, Actor()).query == "tides"
    with pytest.raises(NotFound, match="there is no search"):
        research.saved(kept, Actor(user_id="6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
    kb.close()


def test_r1_old_searches_go_as_the_setting_says(kb_home: Path, monkeypatch) -> None:
    import sqlalchemy as sa

    from kb_framework.app import open_kb

    with connect() as engine:
        engine.research_search("tides")
    kb = open_kb()
    with kb.store.write() as tx:
        tx.execute(
            sa.text("UPDATE saved_research_items SET created_at = '2020-01-01T00:00:00.000000Z'")
        )
    kb.close()
    monkeypatch.setenv("KB_RESEARCH_KEEP_DAYS", "30")

    with connect() as engine:
        assert engine.research_recent()["data"] == []
        engine.research_search("moon")
        assert engine.research_recent()["meta"]["total"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"query": "x" * 5001}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": 101}, "limit"),
        ({"query": "x", "filters": {"created_after": "yesterday"}}, "filters.created_after"),
        ({"query": "x", "filters": {"folder": "a"}}, "filters.folder"),
        ({"query": "x", "filters": {"tags": "x"}}, "filters.tags"),
    ],
)
def test_r1_bad_input_is_400_and_names_the_field(
    kb_engine: Engine, body: dict[str, Any], field: str
) -> None:
    error = refused(lambda: kb_engine.post("/research/search", body))

    assert (error.http_status, error.body["field"]) == (400, field)


# R2


def test_r2_an_added_snippet_is_a_chunk_of_the_kind_that_was_said_and_found_at_once(
    kb_engine: Engine, kb_http: AsgiTransport
) -> None:
    added = kb_http.ask(
        "POST",
        "/research/add-to-knowledge",
        body={
            "snippet_text": "Spring tides follow the full moon.",
            "chunk_kind": "quote",
            "usage_policy": "inspiration_only",
            "source_type": "web",
            "source_ref": "https://example.org/tides",
            "source_title": "On tides",
            "reason": "for the brochure",
        },
    )
    body = json.loads(added.body)

    assert (added.status, body["status"]) == (201, "created")
    chunk = kb_engine.get_chunk(body["chunk_id"])
    assert chunk["document_id"] == body["document_id"]
    assert (chunk["content"], chunk["chunk_kind"], chunk["usage_policy"], chunk["is_active"]) == (
        "Spring tides follow the full moon.",
        "quote",
        "inspiration_only",
        True,
    )
    assert (chunk["source_type"], chunk["source_ref"], chunk["source_title"]) == (
        "web",
        "https://example.org/tides",
        "On tides",
    )
    (event,) = chunk["events"]
    assert (event["event_type"], event["reason"]) == ("added_from_research", "for the brochure")
    assert event["after"]["chunk_kind"] == "quote"
    for mode in ("lexical", "vector", "hybrid"):
        assert body["chunk_id"] in {
            hit["chunk_id"] for hit in kb_engine.search("spring tides", mode=mode)["hits"]
        }


def test_r2_without_a_kind_nothing_is_added(kb_engine: Engine) -> None:
    error = refused(
        lambda: kb_engine.post("/research/add-to-knowledge", {"snippet_text": "Spring tides."})
    )

    assert (error.http_status, error.body["field"]) == (400, "chunk_kind")
    assert kb_engine.list_chunks(status="all")["meta"]["total"] == 0


def test_r2_a_long_snippet_stays_one_chunk(kb_engine: Engine) -> None:
    text = ("A sentence about the sea. " * 384).strip()
    added = kb_engine.research_add(text, "fact")

    assert kb_engine.get_chunk(added["chunk_id"])["content"] == text
    assert len(kb_engine.get_document_chunks(added["document_id"])["data"]) == 1


def test_r2_the_same_text_again_exists(kb_engine: Engine, kb_http: AsgiTransport) -> None:
    first = kb_engine.research_add("Neap tides are small.", "fact")
    reply = kb_http.ask(
        "POST",
        "/research/add-to-knowledge",
        body={"snippet_text": "  Neap tides are small.\n", "chunk_kind": "angle"},
    )

    assert (reply.status, json.loads(reply.body)) == (200, {**first, "status": "exists"})
    assert kb_engine.get_chunk(first["chunk_id"])["chunk_kind"] == "fact"


def test_r2_a_text_that_a_document_has_exists_too(kb_engine: Engine) -> None:
    number = kb_engine.add_note("Neap tides are small.")["document"]["id"]

    assert kb_engine.research_add("Neap tides are small.", "fact") == {
        "chunk_id": kb_engine.get_document_chunks(number)["data"][0]["id"],
        "document_id": number,
        "status": "exists",
    }


def test_r2_re_adding_does_not_undo_pruning(kb_engine: Engine) -> None:
    added = kb_engine.research_add("Neap tides are small.", "fact")
    kb_engine.deactivate_chunk(added["chunk_id"])

    error = refused(lambda: kb_engine.research_add("Neap tides are small.", "fact"))

    assert (error.http_status, error.body["chunk_id"]) == (409, added["chunk_id"])
    assert f"kb chunks activate {added['chunk_id']}" in str(error.hint)
    kb_engine.delete_document(added["document_id"])
    assert (
        refused(lambda: kb_engine.research_add("Neap tides are small.", "fact")).http_status == 409
    )


def test_r2_what_is_said_now_counts_more_than_what_was_said_of_a_text_that_is_gone(
    kb_engine: Engine,
) -> None:
    added = kb_engine.research_add("Neap tides are small.", "angle")
    kb_engine.delete_document(added["document_id"])

    again = kb_engine.research_add("Neap tides are small.", "fact")

    assert kb_engine.get_chunk(again["chunk_id"])["chunk_kind"] == "fact"
    assert kb_engine.list_left_over()["data"] == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"snippet_text": ""}, "snippet_text"),
        ({"snippet_text": "x" * 10_001}, "snippet_text"),
        ({"chunk_kind": "rumour"}, "chunk_kind"),
        ({"usage_policy": "often"}, "usage_policy"),
        ({"source_ref": "x" * 2049}, "source_ref"),
        ({"source_title": "x" * 256}, "source_title"),
        ({"reason": "x" * 256}, "reason"),
        ({"is_active": False}, "is_active"),
    ],
)
def test_r2_bad_input_is_400_and_names_the_field(
    kb_engine: Engine, fields: dict[str, Any], field: str
) -> None:
    body = {"snippet_text": "Tides.", "chunk_kind": "fact", **fields}

    error = refused(lambda: kb_engine.post("/research/add-to-knowledge", body))

    assert (error.http_status, error.body["field"]) == (400, field)


# R3


def test_r3_searches_and_additions_are_limited_each_for_itself(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("KB_RESEARCH_SEARCH_PER_MINUTE", "2")
    monkeypatch.setenv("KB_RESEARCH_ADD_PER_MINUTE", "1")
    with connect() as engine:
        for _ in range(2):
            engine.research_search("tides")
        # Opened after the limits were set.
        kb_http: AsgiTransport = request.getfixturevalue("kb_http")
        reply = kb_http.ask("POST", "/research/search", body={"query": "tides"})
        assert reply.status == 429
        assert 1 <= int(reply.headers["retry-after"]) <= 60
        assert json.loads(reply.body)["error"] == "rate_limited"
        assert engine.research_recent()["meta"]["total"] == 2

        engine.research_add("Tides.", "fact")
        assert refused(lambda: engine.research_add("More tides.", "fact")).http_status == 429
        assert engine.search("tides")["hits"]


def test_r3_additions_are_limited_by_the_day_too(kb_home: Path, monkeypatch) -> None:
    monkeypatch.setenv("KB_RESEARCH_ADD_PER_DAY", "1")
    with connect() as engine:
        engine.research_add("Tides.", "fact")
        error = refused(lambda: engine.research_add("More tides.", "fact"))

    assert error.http_status == 429
    assert error.body["retry_after"] > 3600
    assert "in a day" in error.message


def test_r3_the_limits_are_those_of_the_contract_by_default() -> None:
    from kb_research.settings import ResearchSettings

    settings = ResearchSettings()

    assert (settings.search_per_minute, settings.add_per_minute, settings.add_per_day) == (
        30,
        20,
        500,
    )


# R4


def test_r4_by_command(kb_home: Path, here: Run, outside: Path) -> None:
    found = here("research", "search", "tides", KB_RESEARCH_PATHS=str(outside))
    assert found.returncode == 0, found.stderr
    assert "overrated" in found.stdout

    added = here(
        "research", "add", "Tides rise.", "--kind", "fact", "--source-type", "web", "--json"
    )
    assert json.loads(added.stdout)["status"] == "created"
    piped = here("research", "add", "--kind", "angle", stdin="Tides fall.")
    assert piped.stdout.startswith("added chunk ")
    assert here("research", "add", "Tides rise.").returncode == 2
    assert "tides" in here("research", "recent").stdout
    (latest,) = json.loads(here("research", "recent", "--json").stdout)["data"]
    assert "overrated" in here("research", "show", latest["id"]).stdout
    assert json.loads(here("research", "search", "tides", "--json").stdout)["results"]


def test_r4_by_tool(kb_engine: Engine) -> None:
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.edges.mcp.calls import run_tool
    from kb_framework.edges.mcp.tools import bind_tools
    from kb_framework.plugins import Plugins

    tools = bind_tools(Plugins(read_bootstrap()), "write")
    added = run_tool(
        tools["kb_research_add"],
        lambda: kb_engine,
        {"snippet_text": "Tides rise.", "chunk_kind": "fact"},
    )
    missing = run_tool(tools["kb_research_add"], lambda: kb_engine, {"snippet_text": "Tides fall."})
    found = run_tool(tools["kb_research_search"], lambda: kb_engine, {"query": "tides", "limit": 5})

    assert not added.is_error
    assert missing.is_error
    assert [item["snippet_text"] for item in json.loads(found.content[0].text)["results"]] == [
        "Tides rise."
    ]


def test_r4_without_the_knowledge_plugin_nothing_is_offered(kb_home: Path, monkeypatch) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "knowledge")
    with connect() as engine:
        plugins = engine.get("/health")["plugins"]
        loaded = plugins.pop("loaded")
        assert plugins == {"failed": {}, "errors": {}}
        assert [name for name, words in loaded.items() if not words.startswith("active ")] == [
            "knowledge"
        ]
        assert (
            refused(lambda: engine.post("/research/search", {"query": "tides"})).http_status == 404
        )
