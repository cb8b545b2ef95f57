"""S5, S6, S7: many searches in one call, over HTTP and the command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kb_text.api import token_count

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.commands import shared
from kb_testing.fixtures import Run

Wire = Callable[[Engine], Callable[[Any], None]]


def test_s5_results_come_in_order_with_their_queries_as_received(
    corpus: Engine, wire: Wire
) -> None:
    queries = [
        {"query": "keys", "mode": "lexical", "k": 2},
        {"query": "백업"},
        {"k": 1, "query": "backups", "tag": None},
    ]
    found = corpus.bulk_search(queries)

    wire(corpus)(found)
    assert set(found) == {"schema_version", "results", "summary"}
    assert found["summary"] == {"total": 3, "succeeded": 3, "failed": 0}
    assert [item["query"] for item in found["results"]] == queries
    assert [list(item["query"]) for item in found["results"]] == [list(query) for query in queries]
    for query, item in zip(queries, found["results"], strict=True):
        assert set(item) == {"schema_version", "query", "response", "error"}
        assert item["error"] is None
        alone = corpus.post("/search", query)
        assert item["response"] == alone


def test_s6_a_query_that_fails_fails_alone(corpus: Engine, wire: Wire) -> None:
    wrong: list[Any] = [
        {"query": "keys", "trust_min": "best"},
        {"query": ""},
        {},
        {"query": "keys", "nosuch": 1},
        {"query": '"never closed', "syntax": True},
        {"query": "keys", "cursor": "x"},
        5,
        None,
        ["keys"],
    ]
    found = corpus.bulk_search([{"query": "keys"}, *wrong, {"query": "backups"}])

    wire(corpus)(found)
    assert found["summary"] == {"total": len(wrong) + 2, "succeeded": 2, "failed": len(wrong)}
    assert found["results"][0]["response"]["hits"]
    assert found["results"][-1]["response"]["hits"]
    for given, item in zip(wrong, found["results"][1:-1], strict=True):
        wire(corpus)(item)
        assert item["query"] == given
        assert item["response"] is None
        assert item["error"]["code"] == (
            "invalid_cursor" if isinstance(given, dict) and "cursor" in given else "invalid_input"
        )


def test_s6_an_unknown_media_is_no_error(corpus: Engine) -> None:
    (item,) = corpus.bulk_search([{"query": "keys", "media": ["foo"]}])["results"]

    assert item["error"] is None
    assert item["response"]["hits"] == []


def test_s6_a_hundred_is_the_most_and_none_is_fine(corpus: Engine, wire: Wire) -> None:
    assert corpus.bulk_search([]) == {
        "schema_version": "bulk_search_response.v1",
        "results": [],
        "summary": {"total": 0, "succeeded": 0, "failed": 0},
    }
    assert corpus.bulk_search([{"query": "keys", "k": 1}] * 100)["summary"]["succeeded"] == 100
    with pytest.raises(EngineError) as refused:
        corpus.bulk_search([{"query": "keys"}] * 101)
    wire(corpus)(refused.value.body)
    assert refused.value.http_status == 400
    assert refused.value.body["code"] == "invalid_input"
    assert refused.value.body["message"] == "queries: max 100 items"


@pytest.mark.parametrize(
    "body", [{}, {"queries": None}, {"queries": "keys"}, {"queries": {}}, {"queries": [], "k": 5}]
)
def test_s6_a_call_that_is_wrong_as_a_whole_is_400(corpus: Engine, body: dict[str, Any]) -> None:
    with pytest.raises(EngineError) as refused:
        corpus.post("/search/bulk", body)

    assert (refused.value.http_status, refused.value.code) == (400, "invalid_input")


def test_s7_many_queries_in_parallel_answer_as_each_alone(corpus: Engine) -> None:
    words = ["keys", "backups", "vault", "백업", "鍵", "source", "heading", "summary"]
    queries = [{"query": f"{words[n % 8]} {words[n // 8 % 8]}", "k": 4} for n in range(64)]
    found = corpus.bulk_search(queries)

    for query, item in list(zip(queries, found["results"], strict=True))[::9]:
        alone = corpus.post("/search", query)
        # A batch may round a vector otherwise than a text alone.
        assert [hit["chunk_id"] for hit in item["response"]["hits"]] == [
            hit["chunk_id"] for hit in alone["hits"]
        ]
        scores = [hit["score"] for hit in item["response"]["hits"]]
        assert scores == pytest.approx([hit["score"] for hit in alone["hits"]], abs=1e-3)


def test_s7_many_queries_answer_as_each_alone_where_there_is_a_side_index(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_SIDE_INDEX_MIN_CHUNKS", "20")
    words = ["zebra", "backup", "harbour", "vault", "keys", "night"]
    asked: list[dict[str, Any]] = [
        {"tags": ["even"]},
        {"path_glob": "notes/**"},
        {"trust_min": "primary"},
        {"tags": ["nowhere"]},
        {},
    ]
    asked = [
        {**filters, "mode": mode, "k": k}
        for filters in asked
        for mode in ("lexical", "vector", "hybrid")
        for k in (1, 7)
    ]
    queries = [{"query": f"{words[n % 6]} {words[n % 5]}", **one} for n, one in enumerate(asked)]
    queries += [
        {"query": "zebra", "k": 0},
        {"query": "zebra", "cursor": "x"},
        {"query": "zebra", "nosuch": 1},
    ]
    with connect() as engine:
        for number in range(40):
            text = f"{words[number % 6]} and {words[number % 4]}, number {number}"
            engine.add_note(text, title=f"note {number}", tags=["even"] if number % 2 == 0 else [])
        engine.post("/doctor/repair", {})
        found = engine.bulk_search(queries)["results"]

        for query, item in zip(queries, found, strict=True):
            try:
                alone = engine.post("/search", query)
            except EngineError as error:
                assert item["error"]["code"] == error.code
                continue
            assert [hit["chunk_id"] for hit in item["response"]["hits"]] == [
                hit["chunk_id"] for hit in alone["hits"]
            ]
            assert [hit["snippet"] for hit in item["response"]["hits"]] == [
                hit["snippet"] for hit in alone["hits"]
            ]
            scores = [hit["score"] for hit in alone["hits"]]
            assert [hit["score"] for hit in item["response"]["hits"]] == pytest.approx(
                scores, abs=1e-3
            )
            assert item["response"]["next_cursor"] == alone["next_cursor"]


def test_s7_a_budget_over_the_call_sends_a_text_once(corpus: Engine, wire: Wire) -> None:
    queries = [
        {"query": "keys", "k": 4},
        {"query": "access keys", "k": 4},
        {"query": "keys", "trust_min": "?"},
        {"query": "vault"},
    ]
    found = corpus.bulk_search(queries, max_tokens=100_000)

    wire(corpus)(found)
    sent: dict[str, int] = {}
    referred = 0
    for number, item in enumerate(found["results"]):
        for hit in item["response"]["hits"] if item["response"] else ():
            if hit["chunk_id"] in sent:
                assert hit["snippet"] is None
                assert hit["snippet_ref"] == sent[hit["chunk_id"]]
                referred += 1
            else:
                assert hit["snippet"]
                assert "snippet_ref" not in hit
                sent[hit["chunk_id"]] = number
    assert referred
    assert not any(item["response"]["truncated"] for item in found["results"] if item["response"])


@pytest.mark.parametrize("max_tokens", [1, 600, 1200, 2500, 5000])
def test_s7_the_budget_of_the_call_is_kept(corpus: Engine, wire: Wire, max_tokens: int) -> None:
    queries = [
        {"query": query, "k": 8, "snippet_chars": 200}
        for query in ("keys", "backups", "백업", "words")
    ]
    found = corpus.bulk_search(queries, max_tokens=max_tokens)

    wire(corpus)(found)
    kept = [len(item["response"]["hits"]) for item in found["results"]]
    assert sum(kept) >= 1
    assert token_count(json.dumps(found, ensure_ascii=False)) <= max_tokens or sum(kept) == 1
    # Every query keeps its best before any keeps its second.
    assert max(kept) - min(kept) <= 1 or min(kept) >= 1
    for item in found["results"]:
        if len(item["response"]["hits"]) < 8:
            assert item["response"]["truncated"] or item["response"]["next_cursor"] is None


def test_s7_what_the_budget_of_the_call_dropped_is_on_the_next_page(corpus: Engine) -> None:
    query = {"query": "keys", "k": 6, "mode": "lexical"}
    (item,) = corpus.bulk_search([query], max_tokens=700)["results"]
    shown = [hit["chunk_id"] for hit in item["response"]["hits"]]
    rest = corpus.post("/search", {**query, "k": 100, "cursor": item["response"]["next_cursor"]})

    whole = corpus.post("/search", {**query, "k": 100})
    assert shown + [hit["chunk_id"] for hit in rest["hits"]] == [
        hit["chunk_id"] for hit in whole["hits"]
    ]


# Without an embedder


def test_s8_without_an_embedder_hybrid_says_so_and_vector_fails(
    kb_home: Any, monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    from kb_framework.client import connect

    monkeypatch.setenv("KB_EMBEDDER", "none")
    with connect() as engine:
        engine.add_note("keys are rotated")
        single = engine.search("keys")
        found = engine.bulk_search(
            [
                {"query": "keys"},
                {"query": "keys", "mode": "vector"},
                {"query": "keys", "mode": "lexical"},
            ]
        )
        with pytest.raises(EngineError) as refused:
            engine.search("keys", mode="vector")
        wire(engine)(found)

    assert single["hits"]
    assert "vector was left out" in single["hint"]
    hybrid, vector, lexical = found["results"]
    assert hybrid["response"]["hits"]
    assert "vector was left out" in hybrid["response"]["hint"]
    assert vector["error"]["code"] == refused.value.code == "embedder_unavailable"
    assert lexical["response"]["hint"] is None


# The command line


def lines(*queries: Any) -> str:
    return "".join(
        query if isinstance(query, str) else json.dumps(query, ensure_ascii=False) + "\n"
        for query in queries
    )


@pytest.fixture(scope="module")
def here(corpus: Engine) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`kb` as a process of its own, over the shared corpus."""
    corpus_of = {name: value for name, value in os.environ.items() if name.startswith("KB_")}

    def run(
        *arguments: str, stdin: str = "", binary: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        if binary is None:
            return shared().run(arguments, stdin, **corpus_of)
        done = subprocess.run(
            shared().line(*arguments),
            input=binary,
            capture_output=True,
            env={**os.environ, **corpus_of},
        )
        return subprocess.CompletedProcess(
            arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run


def test_s5_bulk_json_puts_results_on_stdout_and_the_summary_on_stderr(
    here: Run, corpus: Engine, wire: Wire
) -> None:
    queries = [{"query": "keys", "k": 1}, {"query": "keys", "trust_min": "best"}, {"query": "백업"}]
    done = here("search", "--bulk", "--json", stdin=lines(*queries))

    assert done.returncode == 0
    items = [json.loads(line) for line in done.stdout.splitlines()]
    assert [item["query"] for item in items] == queries
    for item in items:
        wire(corpus)(item)
        assert (item["response"] is None) != (item["error"] is None)
    summary = json.loads(done.stderr)
    wire(corpus)(summary)
    assert summary == {
        "schema_version": "bulk_search_summary.v1",
        "total": 3,
        "succeeded": 2,
        "failed": 1,
    }


def test_s6_bulk_without_json_is_for_people(here: Run) -> None:
    done = here(
        "search",
        "--bulk",
        stdin=lines({"query": "keys", "k": 1}, "\n", {"query": "x", "k": 0}, {"query": "backups"}),
    )

    assert done.returncode == 0
    assert "Access keys are rotated" in done.stdout
    assert "\n\n" in done.stdout
    assert "# Query" not in done.stdout
    headers = [line for line in done.stderr.splitlines() if line.startswith("# Query")]
    assert headers == ["# Query 1: keys", "# Query 2: x", "# Query 3: backups"]
    assert done.stderr.splitlines()[-1] == "3 searches: 2 succeeded, 1 failed"
    assert "\033" not in done.stdout


def test_s6_the_summary_of_one_search_is_singular(here: Run) -> None:
    done = here("search", "--bulk", stdin=lines({"query": "keys"}))

    assert done.stderr.splitlines()[-1] == "1 search: 1 succeeded, 0 failed"


def test_s6_nothing_on_stdin_is_nothing_to_do(here: Run) -> None:
    done = here("search", "--bulk", "--json")

    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(done.stderr) == {
        "schema_version": "bulk_search_summary.v1",
        "total": 0,
        "succeeded": 0,
        "failed": 0,
    }


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        (b"not json\n", "line 1"),
        (b'{"query": "keys"}\n{"query": \n', "line 2"),
        (b'{"query": "keys"}\n{"query": NaN}\n', "line 2"),
        (b'{"query": "\xff"}\n', "line 1"),
        (b'{"query": "a"}\n' * 101, "queries: max 100 items"),
    ],
    ids=["words", "cut short", "NaN", "UTF-8", "101"],
)
def test_s6_bad_input_is_exit_2_with_nothing_on_stdout(
    here: Any, corpus: Engine, wire: Wire, stdin: bytes, says: str
) -> None:
    done = here("search", "--bulk", "--json", binary=stdin)

    assert (done.returncode, done.stdout) == (2, "")
    error = json.loads(done.stderr)
    wire(corpus)(error)
    assert error["code"] == "config_invalid"
    assert says in error["message"]


def test_s6_flags_of_a_single_search_are_ignored_with_a_warning(here: Run) -> None:
    flags = (
        "words",
        "--mode",
        "lexical",
        "-k",
        "1",
        "--type",
        "x",
        "--path-glob",
        "y",
        "--trace",
        "--max-tokens",
        "5",
    )
    done = here("search", *flags, "--bulk", "--json", stdin=lines({"query": "keys", "k": 3}))

    assert done.returncode == 0
    assert len(json.loads(done.stdout)["response"]["hits"]) == 3
    said = done.stderr.splitlines()
    for name in ("query", "--mode", "--k", "--type", "--path-glob", "--trace", "--max-tokens"):
        assert any(f"warning: {name} is ignored" in line for line in said), name
    assert json.loads(said[-1])["succeeded"] == 1


def test_s7_the_budget_of_the_call_on_the_command_line(here: Run) -> None:
    done = here(
        "search",
        "--bulk",
        "--json",
        "--total-tokens",
        "700",
        stdin=lines({"query": "keys"}, {"query": "backups"}),
    )

    items = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(item["response"]["truncated"] for item in items)
    assert here("search", "keys", "--total-tokens", "700").returncode == 2
