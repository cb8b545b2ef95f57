"""S2, S9, H9: what is sent is what the published schemas say, over HTTP, the command line and MCP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import jsonschema
import pytest
from kb_text.api import token_count
from mcp import Client

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run, kb_mcp

Wire = Callable[[Engine], Callable[[Any], None]]

VERSIONED = {
    "error.v1",
    "search_response.v1",
    "search_request.v1",
    "bulk_search_item.v1",
    "bulk_search_request.v1",
    "bulk_search_response.v1",
    "bulk_search_summary.v1",
}
HIT = {
    "rank",
    "score",
    "score_kind",
    "chunk_id",
    "doc_id",
    "doc_path",
    "title",
    "heading_path",
    "snippet",
    "citation",
    "retrieval",
    "tags",
    "doc_type",
    "lang",
    "media",
    "trust",
    "indexed_at",
    "chunk_kind",
    "usage_policy",
}
RETRIEVAL = {
    "method",
    "fusion_score",
    "lexical_score",
    "vector_score",
    "lexical_rank",
    "vector_rank",
}


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "lexical"}, {"mode": "vector"}, {"trace": True}, {"facets": True}],
    ids=str,
)
@pytest.mark.parametrize("query", ["keys", "nosuchword", "백업"])
def test_s2_an_answer_has_all_its_keys_and_fits_its_schema(
    corpus: Engine, wire: Wire, query: str, options: dict[str, Any]
) -> None:
    found = corpus.search(query, **options)

    wire(corpus)(found)
    expected = {"schema_version", "hits", "next_cursor", "truncated", "trace", "hint"}
    assert set(found) == expected | ({"facets"} if "facets" in options else set())
    for hit in found["hits"]:
        assert set(hit) == HIT
        assert set(hit["retrieval"]) == RETRIEVAL
        assert hit["retrieval"]["method"] == options.get("mode", "hybrid")
        assert (hit["chunk_kind"], hit["usage_policy"]) == ("fact", "normal")


def test_s2_without_curation_a_hit_has_neither_kind_nor_policy(
    kb_home: Any, monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "knowledge,research")
    with connect() as engine:
        engine.add_note("keys")
        (hit,) = engine.search("keys")["hits"]
        wire(engine)(engine.search("keys"))

    assert (hit["chunk_kind"], hit["usage_policy"]) == (None, None)


@pytest.mark.above_the_store("schemas are made of models")
def test_s9_every_versioned_object_has_a_schema_of_its_own(corpus: Engine) -> None:
    names = corpus.get("/wire")["data"]

    assert set(names) >= VERSIONED
    for name in names:
        schema = corpus.get(f"/wire/{name}")
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$id"] == name
        # Nothing in it leads elsewhere.
        assert all(target.startswith("#/$defs/") for target in references(schema)), name


def references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [target for item in schema for target in references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return own + [target for item in schema.values() for target in references(item)]


def test_s9_a_schema_forbids_what_is_not_in_it(corpus: Engine) -> None:
    schema = corpus.get("/wire/search_response.v1")
    answer = corpus.search("keys")
    jsonschema.validate(answer, schema)

    assert set(schema["required"]) == {
        "schema_version",
        "hits",
        "next_cursor",
        "truncated",
        "trace",
        "hint",
    }
    for broken in (
        {**answer, "more": 1},
        {**answer, "hits": [{**answer["hits"][0], "rank": "first"}]},
        {**answer, "truncated": "no"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_s9_the_codes_of_errors_are_a_closed_list(corpus: Engine) -> None:
    schema = corpus.get("/wire/error.v1")

    codes = schema["properties"]["code"]["enum"]
    assert codes == corpus.get("/schema")["error_codes"]
    assert {
        "invalid_input",
        "invalid_cursor",
        "stale_cursor",
        "embedder_unavailable",
        "config_invalid",
    } <= set(codes)


def test_s9_a_name_that_is_not_there_is_404(corpus: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        corpus.get("/wire/nosuch.v1")
    assert refused.value.http_status == 404


def test_s9_the_requests_that_search_takes_are_published_too(corpus: Engine) -> None:
    schema = corpus.get("/wire/search_request.v1")

    jsonschema.validate({"query": "keys", "tag": ["a"], "k": 3}, schema)
    for wrong in (
        {},
        {"query": "keys", "k": 0},
        {"query": "keys", "nosuch": 1},
        {"query": "keys", "trust_min": "best"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": "x", "cursor": "x"},
        {"query": '"', "syntax": True},
        {"query": "x", "k": "1"},
    ],
    ids=str,
)
def test_s9_an_error_of_search_fits_error_v1(
    corpus: Engine, wire: Wire, body: dict[str, Any]
) -> None:
    for path, sent in (("/search", body), ("/search/bulk", {"queries": body})):
        with pytest.raises(EngineError) as refused:
            corpus.post(path, sent)
        wire(corpus)(refused.value.body)


def test_h9_the_schema_command_tells_of_bulk_search_and_of_every_wire_object(
    kb_run: Run, kb_engine: Engine
) -> None:
    done = kb_run("schema", "--json")

    found = json.loads(done.stdout)
    assert found["capabilities"]["bulk_search"] is True
    assert set(found["wire"]) >= VERSIONED


def test_s9_what_the_command_line_prints_fits_the_schemas(
    kb_run: Run, kb_engine: Engine, wire: Wire
) -> None:
    kb_engine.add_note("keys are rotated", title="Keys", tags=["a"])
    check = wire(kb_engine)

    flags = [
        "--mode",
        "lexical",
        "-k",
        "3",
        "--snippet-chars",
        "50",
        "--max-tokens",
        "900",
        "--facets",
        "--trace",
        "--tag",
        "a",
        "--tags",
        "a,b",
        "--tags-match",
        "any",
    ]
    flags += [
        "--trust-min",
        "primary",
        "--media",
        "markdown",
        "--ingested-after",
        "2020-01-01",
        "--doc-id",
        "1",
        "--type",
        "note",
    ]
    done = kb_run("search", "keys", *flags, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check(found)
    assert found["hits"][0]["title"] == "Keys"
    assert found["facets"]["documents"] == 1
    assert found["trace"]

    for wrong in (("--cursor", "x"), ("--lang", "x\0"), ("--path-glob", ""), ("--syntax",)):
        done = kb_run("search", '"keys', *[word.replace("\0", "") for word in wrong], "--json")
        # Nothing found is 1, with an answer; what is wrong is 2, with an error.
        assert done.returncode in (0, 1, 2)
        check(json.loads(done.stderr if done.returncode == 2 else done.stdout))


# MCP


@pytest.fixture
def mcp_here(kb_engine: Engine) -> Callable[[Callable[[Any], Any]], Any]:
    """Uses a client of `kb mcp`, which is a process of its own."""
    for number in range(40):
        kb_engine.add_note(
            f"keys are rotated {number} " + "with care " * 60, title=f"Keys {number}", tags=["mcp"]
        )

    def call(use: Callable[[Any], Any]) -> Any:
        async def run() -> Any:
            async with Client(kb_mcp()) as client:
                return await use(client)

        return anyio.run(run)

    return call


def test_s9_mcp_search_fits_the_schema_and_has_a_budget(
    mcp_here: Any, kb_engine: Engine, wire: Wire
) -> None:
    filters = {
        "mode": "hybrid",
        "snippet_chars": 100,
        "facets": True,
        "tag": '["mcp"]',
        "tags": ["mcp"],
        "tags_match": "all",
        "trust_min": "primary",
        "media": ["markdown"],
        "ingested_after": "2020-01-01",
        "doc_type": "note",
    }

    async def use(client: Any) -> list[Any]:
        return [
            await client.call_tool("kb_search", {"query": "keys", "k": 2}),
            await client.call_tool("kb_search", {"query": "keys", "k": 100, "snippet_chars": 2000}),
            await client.call_tool("kb_search", {"query": "keys", "k": 100, "max_tokens": 20_000}),
            await client.call_tool("kb_search", {"query": "keys", **filters}),
            await client.call_tool(
                "kb_search", {"query": "keys", "path_glob": "src/**", "lang": "en", "doc_id": 1}
            ),
            await client.call_tool("kb_search", {"query": 'rotated -"with care"', "syntax": True}),
            await client.call_tool("kb_search", {"query": "keys", "cursor": "x"}),
            await client.call_tool("kb_search", {"query": "keys", "nosuch": 1}),
        ]

    few, many, more, filtered, none, excluded, wrong, unknown = mcp_here(use)
    check = wire(kb_engine)
    for answer in (few, many, more, filtered, none, excluded):
        assert not answer.is_error, answer.content[0].text
        check(answer.structured_content)
        assert json.loads(answer.content[0].text) == answer.structured_content
    assert len(few.structured_content["hits"]) == 2
    assert not few.structured_content["truncated"]
    assert many.structured_content["truncated"]
    assert token_count(many.content[0].text) <= 3000
    assert 3000 < token_count(more.content[0].text) <= 20_000
    assert filtered.structured_content["facets"]["documents"] == 40
    assert none.structured_content["hits"] == excluded.structured_content["hits"] == []
    for answer, code in ((wrong, "invalid_cursor"), (unknown, "invalid_input")):
        assert answer.is_error
        check(answer.structured_content)
        assert answer.structured_content["code"] == code


def test_s5_mcp_bulk_search_fits_the_schema_and_has_a_budget(
    mcp_here: Any, kb_engine: Engine, wire: Wire
) -> None:
    async def use(client: Any) -> list[Any]:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return [
            tools["kb_bulk_search"],
            await client.call_tool(
                "kb_bulk_search",
                {"queries": [{"query": "keys", "k": 1}, {"query": "keys", "k": 0}]},
            ),
            await client.call_tool("kb_bulk_search", {"queries": '[{"query": "keys", "k": 1}]'}),
            await client.call_tool("kb_bulk_search", {"queries": []}),
            await client.call_tool("kb_bulk_search", {"queries": [{"query": "keys"}] * 101}),
            await client.call_tool(
                "kb_bulk_search", {"queries": [{"query": f"keys {n}", "k": 20} for n in range(20)]}
            ),
        ]

    tool, two, text, none, too_many, large = mcp_here(use)
    check = wire(kb_engine)
    assert tool.annotations.read_only_hint
    assert tool.title
    assert two.structured_content["summary"] == {"total": 2, "succeeded": 1, "failed": 1}
    assert text.structured_content["summary"]["succeeded"] == 1
    assert none.structured_content["results"] == []
    for answer in (two, text, none, large):
        assert not answer.is_error
        check(answer.structured_content)
    assert too_many.is_error
    check(too_many.structured_content)
    assert too_many.structured_content["code"] == "invalid_input"
    assert too_many.structured_content["message"] == "queries: max 100 items"
    assert token_count(large.content[0].text) <= 8000
