"""The hook `kb_rerankers`: the chosen one orders the best hits anew, and one that fails changes nothing."""

from __future__ import annotations

import pytest

from kb_framework.client import connect
from kb_testing.fixtures import Install

PLUGIN = """
from kb_framework import api, hookimpl

class Backwards:
    def rerank(self, query, hits, tx):
        return hits[::-1]

class Forgetful:
    def rerank(self, query, hits, tx):
        return [api.Hit(-1, 9.0, {}, {}), hits[-1]]

class Broken:
    def rerank(self, query, hits, tx):
        raise RuntimeError("secret detail")

@hookimpl
def kb_rerankers():
    here = __name__
    return [api.Reranker(name.lower(), f"{here}:{name}") for name in ("Backwards", "Forgetful", "Broken")]
"""
TEXTS = ("apple pie", "apple", "apple and pear and plum")


def titles(
    reranker: str, monkeypatch: pytest.MonkeyPatch, mode: str = "hybrid"
) -> tuple[list[str], str | None]:
    monkeypatch.setenv("KB_SEARCH_RERANKER", reranker)
    with connect() as engine:
        if not engine.get("/documents")["data"]:
            for text in TEXTS:
                engine.add_note(text, title=text)
        found = engine.search("apple", mode=mode)
        return [hit["title"] for hit in found["hits"]], found["hint"]


def test_the_chosen_reranker_orders_the_hits(kb_home, kb_plugin: Install, monkeypatch) -> None:
    kb_plugin("orders", PLUGIN)
    before, _ = titles("none", monkeypatch)

    assert len(before) == 3
    assert titles("backwards", monkeypatch) == (before[::-1], None)


def test_what_a_reranker_leaves_out_follows_and_what_it_adds_is_ignored(
    kb_home, kb_plugin: Install, monkeypatch
) -> None:
    kb_plugin("orders", PLUGIN)
    before, _ = titles("none", monkeypatch)

    assert titles("forgetful", monkeypatch)[0] == [before[2], before[0], before[1]]


@pytest.mark.parametrize("name", ["broken", "nosuch"])
def test_a_reranker_that_fails_is_reported_and_changes_nothing(
    kb_home, kb_plugin: Install, monkeypatch, name: str
) -> None:
    kb_plugin("orders", PLUGIN)
    before, _ = titles("none", monkeypatch)

    after, hint = titles(name, monkeypatch)

    assert after == before
    assert hint and name in hint and "secret" not in hint


def test_search_by_one_retriever_is_not_reranked(kb_home, kb_plugin: Install, monkeypatch) -> None:
    kb_plugin("orders", PLUGIN)
    before, _ = titles("none", monkeypatch, "lexical")

    assert titles("backwards", monkeypatch, "lexical")[0] == before


def test_the_built_in_reranker_finds_the_sentence_that_answers(kb_home, monkeypatch) -> None:
    """One sentence about a physician among many about ships: its vector is about ships, its words are not."""
    ships = (
        "The ship left the harbour at dawn. The crew hoisted the sails and the captain read the map. "
        * 3
    )
    monkeypatch.setenv("KB_SEARCH_RERANKER", "late")
    with connect() as engine:
        engine.add_note(ships + "A physician examined the sailor.", title="with")
        engine.add_note(ships + "A whale followed the sailor.", title="without")
        found = engine.search("doctor ship", trace=True)

    assert [hit["title"] for hit in found["hits"]] == ["with", "without"]
    assert found["hint"] is None
