"""S1: every field of a search, and what it does."""

from __future__ import annotations

from typing import Any

import pytest
from kb_documents.globs import glob_regex
from kb_text.api import token_count

from kb_framework.client import Engine
from kb_framework.errors import EngineError

MODES = ("lexical", "vector", "hybrid")
EVERYTHING = {"Keys", "Backups", "Summary", "Hearsay", "Main", "Tool", "keys.txt", "Page"}


def found(engine: Engine, query: str = "keys", **options: Any) -> set[str]:
    return {
        hit["title"]
        for hit in engine.search(query, **{"k": 100, "mode": "lexical", **options})["hits"]
    }


def test_s1_without_filters_everything_with_the_word_is_found(corpus: Engine) -> None:
    assert found(corpus) == EVERYTHING


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tag": ["ops"]}, {"Keys", "Backups"}),
        ({"tag": ["ops", "security"]}, {"Keys", "Backups", "Hearsay"}),
        ({"tags": ["ops", "security"]}, {"Keys"}),
        ({"tags": ["ops", "security"], "tags_match": "any"}, {"Keys", "Backups", "Hearsay"}),
        ({"tags": ["ops", "security"], "tags_match": "all"}, {"Keys"}),
        ({"tag": ["security"], "tags": ["ops"]}, {"Keys"}),
        ({"tag": []}, EVERYTHING),
        ({"tags": [], "tags_match": "all"}, EVERYTHING),
        ({"tag": ["OPS"]}, set()),
        ({"lang": "pt"}, {"Hearsay"}),
        ({"lang": "PT-br"}, {"Hearsay"}),
        ({"lang": "p"}, set()),
        ({"path_glob": "src/**"}, {"Main", "Tool"}),
        ({"path_glob": "src/*"}, {"Main"}),
        ({"path_glob": "src/**/*.md"}, {"Main", "Tool"}),
        ({"path_glob": "**/*.md"}, {"Main", "Tool"}),
        ({"path_glob": "*.md"}, {"Main", "Tool"}),
        ({"path_glob": "docs/keys.txt"}, {"keys.txt"}),
        ({"path_glob": "docs/202?-[0-9][0-9]-[!b].html"}, {"Page"}),
        ({"path_glob": "SRC/**"}, set()),
        ({"path_glob": "src"}, set()),
        ({"path_glob": "src/**/deep/**"}, {"Tool"}),
        ({"path_glob": "["}, set()),
        ({"trust_min": "primary"}, EVERYTHING - {"Summary", "Hearsay"}),
        ({"trust_min": "secondary"}, EVERYTHING - {"Summary"}),
        ({"trust_min": "generated"}, EVERYTHING),
        ({"media": ["html"]}, {"Page"}),
        ({"media": ["text/html"]}, {"Page"}),
        ({"media": ["htm", "text/plain"]}, {"Page", "keys.txt"}),
        ({"media": ["markdown"], "path_glob": "src/**"}, {"Main", "Tool"}),
        ({"media": ["md"], "path_glob": "src/**"}, {"Main", "Tool"}),
        ({"media": ["foo"]}, set()),
        ({"media": []}, EVERYTHING),
        ({"ingested_after": "2020-01-01"}, EVERYTHING),
        ({"ingested_after": "2020-01-01T00:00:00Z"}, EVERYTHING),
        ({"ingested_after": "9000-01-01T00:00:00+09:00"}, set()),
        ({"doc_id": 1}, {"Keys"}),
        ({"doc_id": -5}, set()),
        ({"doc_type": "summary"}, {"Summary"}),
        ({"doc_type": "nothing"}, set()),
    ],
)
def test_s1_a_filter_lets_through_what_it_says(
    corpus: Engine, filters: dict[str, Any], expected: set[str]
) -> None:
    assert found(corpus, **filters) == expected
    for mode in ("vector", "hybrid"):
        everyone = {item["title"] for item in corpus.list_documents(per_page=100)["data"]}
        inside = found(corpus, mode=mode, **filters)
        # By meaning everything that the filter lets through is found, near or far.
        assert inside >= expected
        assert inside <= everyone
        if not expected:
            assert inside == set()


def test_s1_a_time_after_the_first_document_leaves_it_out(corpus: Engine) -> None:
    first = corpus.get_document(1)["indexed_at"]

    assert found(corpus, ingested_after=first) == EVERYTHING - {"Keys"}


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("src/**", ["src/a", "src/a/b.md"], ["src", "srcs/a", "a/src/b"]),
        ("**/b", ["b", "a/b", "a/a/b"], ["ab", "a/bb"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("a*b", ["ab", "axxb"], ["a/b"]),
        ("a?", ["ab"], ["a", "a/"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a]x", ["bx"], ["ax", "/x"]),
        ("[]]x", ["]x"], ["x"]),
        ("[c-a]", ["c", "-", "a"], ["b"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a[", ["a["], ["a"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
    ],
)
def test_s1_globs_mean_what_a_shell_means(pattern: str, yes: list[str], no: list[str]) -> None:
    import re

    regex = re.compile(glob_regex(pattern))
    assert [path for path in yes if not regex.fullmatch(path)] == []
    assert [path for path in no if regex.fullmatch(path)] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"trust_min": "best"}, "trust_min"),
        ({"mode": "magic"}, "mode"),
        ({"k": 0}, "k"),
        ({"k": 101}, "k"),
        ({"k": True}, "k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"snippet_chars": 0}, "snippet_chars"),
        ({"tag": "ops"}, "tag"),
        ({"tags_match": "some"}, "tags_match"),
        ({"ingested_after": "yesterday"}, "ingested_after"),
        ({"ingested_after": "0001-01-01T00:00:00+14:00"}, "ingested_after"),
        ({"doc_id": "1"}, "doc_id"),
        ({"facets": "yes"}, "facets"),
        ({"nosuch": 1}, "nosuch"),
        ({"query": " "}, "query"),
    ],
)
def test_s1_what_is_wrong_is_400_and_named(
    corpus: Engine, body: dict[str, Any], field: str
) -> None:
    with pytest.raises(EngineError) as refused:
        corpus.post("/search", {"query": "keys", **body})

    assert refused.value.http_status == 400
    assert refused.value.body["code"] == "invalid_input"
    assert refused.value.body["details"]["field"] == field
    assert field in refused.value.body["message"]


def test_s1_a_broad_filter_and_a_narrow_one_lose_no_hits(kb_engine: Engine) -> None:
    for number in range(40):
        kb_engine.add_note(
            f"alpha beta {number}",
            title=str(number),
            tags=["all", *(["few"] if number % 10 == 0 else [])],
        )

    for mode in MODES:
        assert len(found(kb_engine, "alpha", mode=mode, tag=["all"])) == 40
        assert found(kb_engine, "alpha", mode=mode, tag=["few"]) == {"0", "10", "20", "30"}


def test_facets_count_the_documents_that_match_under_the_filters(corpus: Engine) -> None:
    facets = corpus.search("keys", mode="lexical", k=1, facets=True)["facets"]

    def counts(name: str) -> dict[Any, int]:
        return {item["value"]: item["count"] for item in facets[name]}

    assert facets["documents"] == len(EVERYTHING)
    assert counts("tag") == {"ops": 2, "security": 2}
    assert counts("doc_type")["summary"] == 1
    assert sum(counts("media").values()) == len(EVERYTHING)
    assert counts("media")["html"] == 1
    assert counts("lang")["pt-BR"] == 1
    assert [item["count"] for item in facets["tag"]] == sorted(
        (item["count"] for item in facets["tag"]), reverse=True
    )
    narrowed = corpus.search("keys", mode="lexical", k=1, facets=True, tag=["ops"])["facets"]
    assert narrowed["documents"] == 2
    assert corpus.search("nosuchword", mode="lexical", facets=True)["facets"]["documents"] == 0
    assert corpus.search("keys", facets=True)["facets"]["documents"] == len(
        corpus.list_documents(per_page=100)["data"]
    )
    assert (
        corpus.search("keys -backups", syntax=True, mode="lexical", facets=True)["facets"][
            "documents"
        ]
        == len(EVERYTHING) - 1
    )
    assert "facets" not in corpus.search("keys")


def test_the_estimate_of_tokens_is_additive() -> None:
    assert token_count("word " * 8) + token_count("백업" * 4) == token_count(
        "word " * 8 + "백업" * 4
    )
