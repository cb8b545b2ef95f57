"""An answer that is empty because of a filter names the value that nothing has, and the nearest one that exists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_testing.fixtures import Run


@pytest.fixture
def engine(kb_home: Path) -> Iterator[Engine]:
    with connect() as engine:
        engine.add_note("about pods", tags=["k8s", "ops"], lang="pt-br")
        engine.add_note("about money", tags=["finance"], doc_type="report")
        engine.add_file("plan.md", b"about plans", path="work/2024/plan.md", trust="secondary")
        yield engine


@pytest.mark.parametrize(
    ("filters", "hint"),
    [
        ({"tag": ["K8S"]}, "no document has tag 'K8S'; nearest: 'k8s'"),
        ({"tags": ["k8s", "finanse"]}, "no document has tag 'finanse'; nearest: 'finance'"),
        ({"tag": ["zebra", "yak"]}, "no document has tag 'zebra'"),
        ({"doc_type": "reports"}, "no document has type 'reports'; nearest: 'report'"),
        ({"media": ["markdwn"]}, "no document has media 'markdwn'; nearest: 'markdown'"),
        ({"lang": "pl"}, "no document has language 'pl'; in use: pt-br"),
        ({"doc_id": 99}, "there is no document 99"),
        (
            {"path_glob": "wrok/2024/**"},
            "no document has a path like 'wrok/2024/**'; nearest: 'work/2024'",
        ),
        ({"path_glob": "plans.md"}, "no document has a path like 'plans.md'; nearest: 'plan.md'"),
        ({"path_glob": "zebra/*"}, "no document has a path like 'zebra/*'"),
        ({"tags": ["k8s", "finance"]}, "no document has all of the tags k8s, finance"),
        (
            {"tag": ["ops"], "doc_type": "report", "lang": "PT", "media": ["md"]},
            "no document matches all of tag, lang, media, doc_type",
        ),
    ],
    ids=str,
)
def test_a_search_says_which_filter_value_nothing_has(
    filters: dict[str, Any], hint: str, engine: Engine
) -> None:
    found = engine.search("about", **filters)
    (one,) = engine.bulk_search([{"query": "about", **filters}])["results"]

    assert (found["hits"], found["hint"]) == ([], hint)
    assert one["response"]["hint"] == hint


def test_a_search_from_a_time_on_names_the_newest_document(engine: Engine) -> None:
    hint = engine.search("about", ingested_after="2999-01-01")["hint"]

    newest = max(item["indexed_at"] for item in engine.list_documents()["data"])
    assert hint.startswith("no document was ingested after 2999-01-01")
    assert newest in hint


def test_a_filter_that_leaves_something_is_not_blamed_for_words_that_nothing_has(
    engine: Engine,
) -> None:
    for filters in ({"tag": ["k8s"]}, {"tag": ["k8s"], "lang": "pt"}, {"path_glob": "work/**"}):
        found = engine.search("zebra", mode="lexical", **filters)
        assert (found["hits"], found["hint"]) == ([], None)


def test_a_search_that_finds_something_has_no_such_hint(engine: Engine) -> None:
    assert engine.search("about", tag=["k8s", "K8S"], mode="lexical")["hint"] is None


def test_lists_and_bulk_changes_say_it_too(engine: Engine) -> None:
    expected = "no document has tag 'K8S'; nearest: 'k8s'"

    assert engine.list_documents(tags=["K8S"])["hint"] == expected
    assert engine.bulk_preview("delete", tags=["K8S"])["hint"] == expected
    assert engine.bulk_delete(tags=["K8S"])["hint"] == expected
    assert engine.list_chunks(source_type="wbe")["hint"] == "no chunk has source type 'wbe'"
    assert "hint" not in engine.list_documents(tags=["k8s"])
    assert "hint" not in engine.bulk_tags(tags=["k8s"], add=["new"])


def test_the_command_line_tells_it(engine: Engine, kb_run: Run) -> None:
    for arguments in (("list",), ("bulk-remove",), ("bulk-remove", "--yes"), ("search", "about")):
        assert "nearest: 'k8s'" in kb_run(*arguments, "--tags", "K8S").stderr
