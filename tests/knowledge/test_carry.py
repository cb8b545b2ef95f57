"""K2, K5: curation follows the text through new content, removal and export, and what it could not follow is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_testing.fixtures import Move, Run

PARTS = {
    name: f"# {name}\n\n" + f"words about {name} that go on. " * 60
    for name in ("alpha", "beta", "gamma")
}


def text_of(*names: str) -> bytes:
    return "\n\n".join(PARTS.get(name, name) for name in names).encode()


def put(engine: Engine, data: bytes, path: str = "a.md") -> dict[str, Any]:
    return engine.add_file(path, data, source=f"/somewhere/{path}")


def by_part(engine: Engine, document: int) -> dict[str, dict[str, Any]]:
    found = {}
    for chunk in engine.get_document_chunks(document)["data"]:
        found.update({name: chunk for name in PARTS if f"about {name}" in chunk["content"]})
    return found


def test_k5_curation_survives_new_content_around_it(kb_engine: Engine) -> None:
    document = put(kb_engine, text_of("alpha", "beta"))["document"]["id"]
    chunk = by_part(kb_engine, document)["beta"]["id"]
    kb_engine.deactivate_chunk(chunk)
    kb_engine.reclassify_chunk(chunk, "example")

    put(kb_engine, text_of("gamma", "beta"))

    after = by_part(kb_engine, document)["beta"]
    assert (after["id"], after["is_active"], after["chunk_kind"]) == (chunk, False, "example")
    assert kb_engine.list_left_over()["meta"]["total"] == 0


def test_k2_a_chunk_that_new_content_leaves_out_gets_an_event(kb_engine: Engine) -> None:
    document = put(kb_engine, text_of("alpha", "beta"))["document"]["id"]
    gone = by_part(kb_engine, document)["alpha"]["id"]

    put(kb_engine, text_of("beta"))

    assert [event["event_type"] for event in kb_engine.chunk_history(gone)["data"]] == [
        "deleted_hard"
    ]
    stays = by_part(kb_engine, document)["beta"]["id"]
    assert kb_engine.chunk_history(stays)["data"] == []


def test_k5_curation_whose_text_is_gone_is_reported_and_comes_back_with_the_text(
    kb_engine: Engine,
) -> None:
    document = put(kb_engine, text_of("alpha", "beta"))["document"]["id"]
    former = by_part(kb_engine, document)["alpha"]["id"]
    kb_engine.deactivate_chunk(former)
    kb_engine.set_chunk_policy(former, "never_generate")

    put(kb_engine, text_of("beta"))
    (waiting,) = kb_engine.list_left_over()["data"]
    put(kb_engine, text_of("alpha", "beta", "gamma"))

    assert (waiting["chunk_id"], waiting["is_active"], waiting["usage_policy"]) == (
        former,
        False,
        "never_generate",
    )
    assert waiting["document_path"] == "a.md"
    again = by_part(kb_engine, document)["alpha"]
    assert (again["is_active"], again["usage_policy"]) == (False, "never_generate")
    assert kb_engine.list_left_over()["data"] == []
    log = kb_engine.chunk_history(again["id"])["data"]
    assert {event["event_type"] for event in log} == {"deactivated", "policy_changed"}
    assert all(former in event["reason"] for event in log)


def test_k5_removing_and_adding_a_document_does_not_undo_its_pruning(kb_engine: Engine) -> None:
    document = put(kb_engine, text_of("alpha"))["document"]["id"]
    kb_engine.bulk_deactivate(document_ids=[document], force=True)
    kb_engine.delete_document(document)

    again = put(kb_engine, text_of("alpha"), "b.md")["document"]["id"]

    assert {chunk["is_active"] for chunk in kb_engine.get_document_chunks(again)["data"]} == {False}
    assert kb_engine.search("words about alpha", mode="lexical")["hits"] == []


def test_k5_each_curation_is_given_to_one_chunk_only(kb_engine: Engine) -> None:
    document = put(kb_engine, text_of("alpha"))["document"]["id"]
    kb_engine.reclassify_chunk(by_part(kb_engine, document)["alpha"]["id"], "quote")
    kb_engine.delete_document(document)

    one = kb_engine.add_note(PARTS["alpha"])["document"]["id"]
    two = kb_engine.add_note(PARTS["alpha"])["document"]["id"]

    assert [by_part(kb_engine, number)["alpha"]["chunk_kind"] for number in (one, two)] == [
        "quote",
        "fact",
    ]


def test_k5_chunks_that_nobody_curated_leave_nothing_over(kb_engine: Engine) -> None:
    document = put(kb_engine, text_of("alpha"))["document"]["id"]
    kb_engine.delete_document(document)

    assert kb_engine.list_left_over()["data"] == []


def test_k2_tagging_writes_no_events(kb_engine: Engine) -> None:
    kb_engine.add_note("one", tags=["x"])
    kb_engine.add_note("two")

    kb_engine.bulk_tags(tags=["x"], add=["y"])

    assert kb_engine.list_events()["meta"]["total"] == 0


def test_k5_curation_and_events_survive_export_and_import(
    kb_home: Path, here: Run, tmp_path: Path, monkeypatch, kb_move: Move
) -> None:
    with connect() as engine:
        document = put(engine, text_of("alpha", "beta"))["document"]["id"]
        chunk = by_part(engine, document)["beta"]["id"]
        engine.deactivate_chunk(chunk, reason="stale")
        engine.reclassify_chunk(chunk, "quote")
        engine.knowledge_context("words about alpha")
        before = list(reversed(engine.list_events()["data"]))
    archive = tmp_path / "all.kbz"
    assert here("export", str(archive)).returncode == 0

    kb_move(tmp_path / "elsewhere")
    done = here("import", str(archive), "--yes")
    assert done.returncode == 0, done.stderr

    with connect() as engine:
        found = engine.get_chunk(chunk)
        assert (found["is_active"], found["chunk_kind"]) == (False, "quote")
        assert list(reversed(engine.list_events()["data"])) == before
        assert engine.list_snapshots()["meta"]["total"] == 1


def test_k5_an_import_where_the_plugin_is_off_says_what_it_leaves_out(
    kb_home: Path, here: Run, tmp_path: Path, monkeypatch, kb_move: Move
) -> None:
    with connect() as engine:
        document = put(engine, text_of("alpha"))["document"]["id"]
        engine.deactivate_chunk(by_part(engine, document)["alpha"]["id"])
    archive = tmp_path / "all.kbz"
    assert here("export", str(archive)).returncode == 0

    kb_move(tmp_path / "elsewhere")
    done = here("import", str(archive), "--yes", "--json", KB_DISABLED_PLUGINS="knowledge,research")

    assert done.returncode == 0, done.stderr
    assert (
        "chunks.is_active" in done.stdout + done.stderr
        or "knowledge_events" in done.stdout + done.stderr
    )


@pytest.mark.sqlite_only("a backup is a copy of the file; PostgreSQL has tools of its own")
@pytest.mark.parametrize("table", ["knowledge_chunk_events", "knowledge_snapshots"])
def test_k5_a_backup_holds_it_too(kb_home: Path, here: Run, tmp_path: Path, table: str) -> None:
    with connect() as engine:
        document = put(engine, text_of("alpha"))["document"]["id"]
        engine.deactivate_chunk(by_part(engine, document)["alpha"]["id"])
        engine.knowledge_context("words")

    assert here("backup", str(tmp_path / "all.kbb")).returncode == 0
    assert json.loads(here("chunks", "events", "--json").stdout)["meta"]["total"] == 1
