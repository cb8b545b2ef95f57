"""`kb_chunkers`: a plugin's way of cutting text, which costs no more than the file it fails on."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Install

# A chunk for each line, or whatever the text orders.
BY_LINE = """
from kb_framework import api, hookimpl

@hookimpl
def kb_chunkers():
    return [api.Chunker("lines", __name__ + ":lines")]

def lines(extracted):
    import os, time
    order = extracted.text.strip()
    if order == "hang":
        time.sleep(600)
    if order == "crash":
        os._exit(1)
    if order == "raise":
        raise ValueError("secret/path/inside")
    if order == "strange":
        yield "a text that is no ChunkText"
    for line in extracted.text.splitlines():
        yield api.ChunkText(line, {"heading_path": ["By line"]})
"""


@pytest.fixture
def engine(kb_home: Path, kb_plugin: Install, monkeypatch: pytest.MonkeyPatch):
    kb_plugin("lines", BY_LINE)
    monkeypatch.setenv("KB_CHUNKER", "lines")
    with connect() as made:
        yield made


def test_files_and_notes_are_cut_by_the_chunker_that_was_chosen(engine: Engine) -> None:
    for added in (engine.add_file("a.txt", b"zebras\nlions"), engine.add_note("zebras\nlions")):
        chunks = engine.get(f"/documents/{added['document']['id']}/chunks")["data"]
        assert [chunk["content"] for chunk in chunks] == ["zebras", "lions"]
    hits = engine.search("lions", mode="lexical")["hits"]
    assert [hit["snippet"] for hit in hits] == ["lions", "lions"]
    assert hits[0]["heading_path"] == ["By line"]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("crash", "the file made its reader crash"),
        (
            "raise",
            "the text of the file could not be cut into chunks: the chunker failed (KB_CHUNKER)",
        ),
        (
            "strange",
            "the text of the file could not be cut into chunks: the chunker failed (KB_CHUNKER)",
        ),
    ],
)
def test_a_chunker_that_fails_costs_the_file_it_fails_on(
    engine: Engine, order: str, reason: str
) -> None:
    with pytest.raises(EngineError) as refused:
        engine.add_file(f"{order}.txt", order.encode())
    assert refused.value.body["message"].startswith(reason)
    assert "secret" not in str(refused.value.body)
    assert engine.add_file("a.txt", b"zebras")["document"]["chunk_count"] == 1


def test_a_chunker_that_hangs_costs_the_file_it_hangs_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EXTRACT_TIMEOUT", "2")
    with connect() as impatient, pytest.raises(EngineError) as refused:
        impatient.add_file("hang.txt", b"hang")
    assert refused.value.body["message"].startswith(
        "reading took longer than 2 s (KB_EXTRACT_TIMEOUT)"
    )
    assert engine.add_file("a.txt", b"zebras")["document"]["chunk_count"] == 1
