"""Where a text is from is said with it, however it came in: in hits, chunks, citations and archives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine
from kb_testing.fixtures import Run

SOURCE = {"source_ref": "https://wiki.example/backups", "source_title": "Backups"}
TEXT = "Backups of the harbour office are kept for ninety days."


def by_note(engine: Engine) -> int:
    return engine.add_note(TEXT, **SOURCE)["document"]["id"]


def by_file(engine: Engine) -> int:
    return engine.add_file("backups.md", TEXT.encode(), **SOURCE)["document"]["id"]


def by_research(engine: Engine) -> int:
    return engine.research_add(TEXT, "fact", **SOURCE)["document_id"]


def named(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in SOURCE}


@pytest.mark.parametrize("add", [by_note, by_file, by_research])
def test_a_source_is_in_every_hit_chunk_and_citation(kb_engine: Engine, add: Any) -> None:
    number = add(kb_engine)

    (hit,) = kb_engine.search("harbour backups", mode="lexical")["hits"]
    (chunk,) = kb_engine.get_document_chunks(number)["data"]
    (one,) = kb_engine.get_chunks([chunk["id"]])["data"]["chunks"]

    (listed,) = kb_engine.get("/knowledge/chunks")["data"]
    detail = kb_engine.get(f"/knowledge/chunks/{chunk['id']}")

    assert named(hit) == named(chunk) == named(one) == named(listed) == named(detail) == SOURCE
    assert f"({SOURCE['source_ref']})" in hit["citation"]
    assert named(kb_engine.get_document(number)["metadata"]) == SOURCE
    (fact,) = kb_engine.post("/knowledge/context", {"query": "harbour backups"})["facts"]
    assert named(fact) == SOURCE
    assert SOURCE["source_ref"] in fact["citation"]
    (result,) = kb_engine.research_search("harbour backups")["results"]
    assert named(result) == SOURCE


def test_a_source_travels_with_an_archive(kb_engine: Engine, kb_run: Run, tmp_path: Path) -> None:
    by_note(kb_engine)
    assert kb_run("export", str(tmp_path / "a.kbz")).returncode == 0
    kb_engine.delete_document(1)
    assert kb_run("import", str(tmp_path / "a.kbz"), "--yes").returncode == 0

    assert named(kb_engine.search("harbour", mode="lexical")["hits"][0]) == SOURCE


def test_the_command_takes_a_source(kb_engine: Engine, kb_run: Run) -> None:
    assert kb_run("note", TEXT, "--source-ref", SOURCE["source_ref"]).returncode == 0

    assert (
        json.loads(kb_run("search", "harbour", "--json").stdout)["hits"][0]["source_ref"]
        == SOURCE["source_ref"]
    )


def test_a_text_without_a_source_has_none(kb_engine: Engine) -> None:
    kb_engine.add_note(TEXT)

    (hit,) = kb_engine.search("harbour", mode="lexical")["hits"]

    assert SOURCE.keys().isdisjoint(hit)
    assert "(" not in hit["citation"]
