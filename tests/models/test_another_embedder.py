"""Choosing another embedder for a knowledge base that has vectors: nothing is lost, and what to do is said."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kb_framework.client import connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Install, Run

VOWELS = """
import math
import struct
from kb_framework import api, hookimpl

@hookimpl
def kb_embedders():
    return [api.Embedder("vowels", __name__ + ":Vowels"), api.Embedder("asleep", __name__ + ":Asleep")]

class Vowels:
    "Counts vowels: another space than the default's."
    model = "vowels-5"
    dimensions = 5

    def encode(self, texts):
        counts = [[1.0 + text.count(vowel) for vowel in "aeiou"] for text in texts]
        return [struct.pack("<5f", *(count / math.hypot(*row) for count in row)) for row in counts]

class Asleep(Vowels):
    problem = "the model sleeps: wake it"
"""


@pytest.fixture
def changed(kb_home: Path, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A knowledge base with the default's vectors, and another embedder chosen since."""
    kb_plugin("vowels", VOWELS, module="vowels_embedder")
    with connect() as engine:
        engine.add_note("a zebra on a hill")
        engine.add_note("an apple in a tree")
    monkeypatch.setenv("KB_EMBEDDER", "vowels")


def test_a_vector_search_is_an_error_whose_hint_is_to_reindex(changed: None) -> None:
    with connect() as engine, pytest.raises(EngineError) as caught:
        engine.search("zebra", mode="vector")

    assert (caught.value.http_status, caught.value.code) == (400, "embedder_unavailable")
    assert "wordllama/l2_supercat_256, but the embedder is vowels-5" in caught.value.message
    assert "kb reindex" in str(caught.value.hint)


def test_a_hybrid_search_goes_by_words_and_says_so(changed: None) -> None:
    with connect() as engine:
        found = engine.search("zebra")

    assert [hit["title"] for hit in found["hits"]] == ["a zebra on a hill"]
    assert found["hits"][0]["retrieval"]["vector_rank"] is None
    assert "kb reindex" in found["hint"]


def test_what_is_added_is_found_by_words_at_once_and_the_log_says_so_once(
    changed: None, caplog: pytest.LogCaptureFixture
) -> None:
    with connect() as engine, caplog.at_level(logging.WARNING):
        engine.add_note("a zebra in the rain")
        engine.add_file("late.md", b"# Late\n\nThe zebra came late.")

        assert len(engine.search("zebra", mode="lexical")["hits"]) == 3
    said = [
        record.getMessage() for record in caplog.records if "without vectors" in record.getMessage()
    ]
    assert len(said) == 1
    assert "kb reindex" in said[0]


def test_the_command_line_says_so_too(changed: None, kb_run: Run) -> None:
    done = kb_run("note", "a zebra in the rain")

    assert done.returncode == 0
    assert "kb reindex" in done.stderr


def test_the_doctor_warns_even_if_nothing_was_added_since(changed: None) -> None:
    with connect() as engine:
        report = engine.get("/doctor")

    assert report["status"] == "warning"
    (found,) = [check for check in report["checks"] if check["state"] != "ok"]
    assert (
        found["name"],
        "made by wordllama" in found["message"],
        "kb reindex" in found["message"],
    ) == ("embedder", True, True)


def test_going_back_finds_everything_that_was_there(
    changed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as engine:
        engine.add_note("a zebra in the rain")
    monkeypatch.delenv("KB_EMBEDDER")

    with connect() as engine:
        assert {hit["title"] for hit in engine.search("zebra", mode="vector")["hits"]} == {
            "a zebra on a hill",
            "an apple in a tree",
        }
        # What came in between has no vector yet, and the doctor counts it.
        assert "1 of 3 chunks have no vector: kb reindex" in str(engine.get("/doctor")["checks"])


def test_a_reindex_makes_all_of_it_searchable_by_meaning_again(changed: None) -> None:
    with connect() as engine:
        engine.add_note("a zebra in the rain")
        while not engine.reindex()["finished"]:
            pass

        assert len(engine.search("zebra", mode="vector")["hits"]) == 3
        assert engine.search("zebra")["hint"] is None
        assert engine.get("/doctor")["status"] == "ok"


def test_an_embedder_that_is_not_ready_says_why_everywhere(
    changed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "asleep")
    with connect() as engine:
        engine.add_note("a zebra in the rain")

        assert "wake it" in engine.search("zebra")["hint"]
        assert engine.get("/health")["embedder"] == {
            "ok": False,
            "problem": "the model sleeps: wake it",
        }
        assert "wake it" in str(engine.get("/doctor")["checks"])
        with pytest.raises(EngineError, match="wake it"):
            engine.search("zebra", mode="vector")
        with pytest.raises(EngineError, match="wake it"):
            engine.reindex()
