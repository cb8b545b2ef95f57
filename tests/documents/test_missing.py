"""Documents whose files vanished from a synced folder: hidden, kept for a while, and back with their files."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kb_framework.api import times
from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_testing.fixtures import Install, Move, Run, stored

from .conftest import Here, documents, exported, imported

GUARD = """
from kb_framework import api, hookimpl

@hookimpl
def kb_guard_mutation(plan, tx):
    return [api.Objection("on hold", number) for (number,) in tx.execute(plan.documents)] if plan.kind in KINDS else []
"""


class Clock:
    """The time that the engine in this process reads."""

    def __init__(self) -> None:
        self.step = timedelta()
        self._now = datetime.now(UTC)

    def now(self, _: Any = None) -> datetime:
        self._now += self.step
        return self._now

    def fromisoformat(self, text: str) -> datetime:
        return datetime.fromisoformat(text)

    def advance(self, **amount: float) -> None:
        self._now += timedelta(**amount)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(times, "datetime", clock)
    return clock


@pytest.fixture
def curated(here: Here, kb_engine: Engine, notes: Path) -> dict[str, Any]:
    """A synced folder in which one document has tags and a curated chunk."""
    here.sync(notes)
    document = kb_engine.set_document_tags(
        documents(kb_engine)["notes/one.md"]["id"], ["legal", "important"]
    )
    (chunk,) = kb_engine.get_document_chunks(document["id"])["data"]
    kb_engine.set_chunk_policy(chunk["id"], "inspiration_only")
    return document


def is_as_before(engine: Engine, before: dict[str, Any]) -> bool:
    now = documents(engine).get(before["path"])
    if now is None:
        return False
    (chunk,) = engine.get_document_chunks(now["id"])["data"]
    same = [
        now[name] == before[name]
        for name in ("id", "tags", "title", "content_hash", "created_at", "missing_since")
    ]
    return all(same) and chunk["usage_policy"] == "inspiration_only"


def test_a_missing_document_is_found_by_nothing_and_counted_by_nothing(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any]
) -> None:
    number = curated["id"]
    (chunk,) = kb_engine.get_document_chunks(number)["data"]
    before = kb_engine.get("/health")["counts"]
    (notes / "one.md").unlink()
    assert here.sync(notes) == {"unchanged": 3, "missing": 1}

    for mode in ("lexical", "vector", "hybrid"):
        assert number not in {
            hit["doc_id"] for hit in kb_engine.search("the text of one", mode=mode)["hits"]
        }, mode
    assert not kb_engine.search("one", doc_id=number)["hits"]
    assert not kb_engine.search("one", mode="lexical", tags=["legal"])["hits"]
    assert "legal" not in json.dumps(kb_engine.search("text", facets=True)["facets"])
    (found,) = kb_engine.bulk_search([{"query": "text of one", "mode": "lexical"}])["results"]
    assert number not in {hit["doc_id"] for hit in found["response"]["hits"]}
    assert chunk["id"] not in json.dumps(kb_engine.knowledge_context("the text of one"))
    assert chunk["id"] not in json.dumps(kb_engine.research_search("the text of one"))
    assert kb_engine.post("/chunks/bulk", {"chunk_ids": [chunk["id"]]})["data"]["found_count"] == 0
    assert chunk["id"] not in json.dumps(kb_engine.list_chunks())

    assert number not in {item["id"] for item in documents(kb_engine).values()}
    assert "legal" not in {item["tag"] for item in kb_engine.list_tags()["data"]}
    after = kb_engine.get("/health")["counts"]
    assert (after["documents"], after["chunks"], after["tags"]) == (
        before["documents"] - 1,
        before["chunks"] - 1,
        0,
    )
    preview = kb_engine.bulk_preview("delete", from_id=1)
    assert (preview["matched"], preview["total"]) == (3, 3)
    assert kb_engine.bulk_preview("delete", tags=["legal"])["matched"] == 0
    assert kb_engine.get("/doctor")["status"] != "error"


def test_a_missing_document_is_there_when_asked_for(
    here: Here, kb_engine: Engine, kb_run: Run, notes: Path, curated: dict[str, Any]
) -> None:
    (notes / "one.md").unlink()
    here.sync(notes)

    (listed,) = kb_engine.list_documents(missing=True)["data"]
    assert (listed["id"], listed["tags"]) == (curated["id"], ["important", "legal"]) and listed[
        "missing_since"
    ]
    assert kb_engine.get_document(curated["id"]) == listed
    assert kb_engine.get_file(curated["id"]).startswith(b"# one")
    (row,) = json.loads(kb_run("list", "--missing", "--json").stdout)["data"]
    assert row["id"] == curated["id"]
    (job,) = kb_engine.list_jobs(job_type="bulk_missing")["data"]
    assert json.loads(job["filename"])["documents"] == [
        {"id": curated["id"], "title": "one", "path": "notes/one.md"}
    ]


@pytest.mark.parametrize("selection", [{"missing": True}, {"document_ids": None}], ids=str)
def test_a_missing_document_can_be_deleted_for_good(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any], selection: dict[str, Any]
) -> None:
    (notes / "one.md").unlink()
    here.sync(notes)
    chosen = {name: value or [curated["id"]] for name, value in selection.items()}

    assert kb_engine.bulk_delete(**chosen, force=True)["succeeded"] == 1
    assert not kb_engine.list_documents(missing=True)["data"]


def by_sync(here: Here, file: Path) -> None:
    here.sync(file.parent)


def by_add(here: Here, file: Path) -> None:
    here.add(file)


@pytest.mark.parametrize("again", [by_sync, by_add])
def test_the_same_file_is_the_same_document_again(
    here: Here,
    kb_engine: Engine,
    notes: Path,
    curated: dict[str, Any],
    again: Callable[[Here, Path], None],
) -> None:
    file = notes / "one.md"
    kept = file.rename(notes.parent / "kept")
    here.sync(notes)

    kept.rename(file)
    again(here, file)

    assert is_as_before(kb_engine, curated if again is by_sync else {**curated, "path": "one.md"})
    assert curated["id"] in {
        hit["doc_id"] for hit in kb_engine.search("text of one", mode="lexical")["hits"]
    }
    assert here.sync(notes) == {"unchanged": 4}


def test_the_same_content_under_another_name_is_the_same_document_again(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any]
) -> None:
    kept = (notes / "one.md").rename(notes.parent / "kept")
    here.sync(notes)

    kept.rename(notes / "uno.md")
    assert here.sync(notes) == {"unchanged": 3, "returned": 1}

    assert is_as_before(kb_engine, {**curated, "path": "notes/uno.md"})


def test_the_same_path_with_other_content_is_the_same_document_again(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any]
) -> None:
    text = (notes / "one.md").read_text(encoding="utf-8")
    (notes / "copy.md").write_text(text, encoding="utf-8")
    here.sync(notes)
    (notes / "one.md").unlink()
    (notes / "copy.md").unlink()
    here.sync(notes)

    (notes / "one.md").write_text("# one\n\nCorrected.", encoding="utf-8")
    assert here.sync(notes) == {"updated": 1, "unchanged": 3, "returned": 1}
    now = documents(kb_engine)["notes/one.md"]
    assert (now["id"], now["tags"], now["missing_since"]) == (curated["id"], curated["tags"], None)
    # The copy, with the former content, is another document now.
    (notes / "copy.md").write_text(text, encoding="utf-8")
    assert here.sync(notes) == {"added": 1, "unchanged": 4}


def test_uploading_the_content_of_a_missing_document_brings_it_back_for_good(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any]
) -> None:
    data = (notes / "one.md").read_bytes()
    (notes / "one.md").unlink()
    here.sync(notes)

    added = kb_engine.add_file("again.md", data)

    assert (added["document"]["id"], added["returned"]) == (curated["id"], True)
    assert here.sync(notes) == {"unchanged": 3}
    assert is_as_before(kb_engine, curated)


def test_a_document_with_another_source_is_not_missing(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    other = notes.parent / "other"
    other.mkdir()
    shutil.copy(notes / "one.md", other)
    here.sync(notes)
    here.sync(other)

    (notes / "one.md").unlink()

    assert here.sync(notes) == {"unchanged": 2, "moved": 1}
    assert documents(kb_engine)["other/one.md"]["missing_since"] is None


def test_after_its_days_a_missing_document_is_deleted_by_a_job_that_names_it(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any], clock: Clock
) -> None:
    (notes / "one.md").unlink()
    here.sync(notes)
    clock.advance(days=6.9)
    (notes / "two.md").unlink()
    assert here.sync(notes) == {"unchanged": 2, "missing": 1}

    clock.advance(days=0.2)
    (notes / "new.md").write_text("new", encoding="utf-8")
    (notes / "three.md").unlink()
    assert here.sync(notes) == {"added": 1, "unchanged": 1, "missing": 1, "removed": 1}

    assert [
        item["path"] for item in kb_engine.list_documents(missing=True, sort="title")["data"]
    ] == [
        "notes/three.md",
        "notes/two.md",
    ]
    (job,) = kb_engine.list_jobs(job_type="bulk_delete")["data"]
    assert json.loads(job["filename"])["documents"] == [
        {"id": curated["id"], "title": "one", "path": "notes/one.md"}
    ]
    (notes / "one.md").write_text("# one\n\nThe text of one.\n", encoding="utf-8")
    assert here.sync(notes) == {"added": 1, "unchanged": 2}
    assert documents(kb_engine)["notes/one.md"]["id"] != curated["id"]


def test_a_running_engine_deletes_what_has_been_missing_for_too_long(
    kb_home: Path, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect() as engine:
        here = Here(engine, capsys)
        here.sync(notes)
        for name in ("one", "two"):
            (notes / f"{name}.md").unlink()
        here.sync(notes)
        number = engine.list_documents(missing=True)["data"][0]["id"]
    stored(
        "UPDATE documents SET missing_since = '2020-01-01T00:00:00.000000Z' WHERE id = ?", number
    )

    kb = open_kb()
    kb.plugins.serving()
    # Closing waits for the round that has begun.
    kb.close()

    with connect() as engine:
        assert number not in {item["id"] for item in engine.list_documents(missing=True)["data"]}
        assert len(engine.list_documents(missing=True)["data"]) == 1
        assert len(documents(engine)) == 2


def test_a_sync_in_which_nothing_vanished_deletes_what_has_been_missing_for_too_long(
    here: Here, kb_engine: Engine, notes: Path, clock: Clock
) -> None:
    here.sync(notes)
    (notes / "one.md").unlink()
    here.sync(notes)
    clock.advance(days=8)

    assert here.sync(notes) == {"unchanged": 3, "removed": 1}
    assert kb_engine.list_documents(missing=True)["data"] == []


def test_with_no_days_what_vanished_is_deleted_at_once(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KB_DOCUMENTS_MISSING_DAYS", "0")
    with connect() as engine:
        here = Here(engine, capsys)
        here.sync(notes)
        (notes / "one.md").unlink()

        assert here.sync(notes) == {"unchanged": 3, "removed": 1}
        assert not engine.list_documents(missing=True)["data"]


def test_a_guard_keeps_a_document_from_becoming_missing(
    kb_home: Path, kb_plugin: Install, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kb_plugin("holds", GUARD.replace("KINDS", "('missing',)"))
    with connect() as engine:
        here = Here(engine, capsys)
        here.sync(notes)
        (notes / "one.md").unlink()

        assert here.sync(notes) == {"unchanged": 3, "failed": 1}
        assert len(documents(engine)) == 4


def test_a_guard_keeps_a_missing_document_from_being_deleted_without_a_job_at_every_sync(
    kb_home: Path, kb_plugin: Install, notes: Path, capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    kb_plugin("holds", GUARD.replace("KINDS", "('delete',)"))
    with connect() as engine:
        here = Here(engine, capsys)
        here.sync(notes)
        (notes / "one.md").unlink()
        here.sync(notes)
        clock.advance(days=8)
        for name in ("two", "three"):
            (notes / f"{name}.md").unlink()
            (notes / f"new {name}.md").write_text(name, encoding="utf-8")
            here.sync(notes)

        assert len(engine.list_documents(missing=True)["data"]) == 3
        assert len(engine.list_jobs(job_type="bulk_delete")["data"]) == 1


def test_missing_documents_stay_missing_in_an_imported_base(
    kb_home: Path, kb_move: Move, notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = notes.parent / "kept"
    with connect() as engine:
        here = Here(engine, capsys)
        here.sync(notes, tags=["mine"])
        (notes / "one.md").rename(kept)
        here.sync(notes)
        archive = exported(engine)
    kb_move(tmp_path / "other-home")
    with connect() as engine:
        here = Here(engine, capsys)
        imported(engine, archive)
        assert len(documents(engine)) == 3

        kept.rename(notes / "one.md")
        assert here.sync(notes)["returned"] == 1
        assert documents(engine)["notes/one.md"]["tags"] == ["mine"]


# The threshold of a folder


@pytest.fixture
def large(here: Here, kb_engine: Engine, tmp_path: Path) -> Path:
    """A synced folder of twenty files, nine of them in a sub-folder, in a base with many other documents."""
    for number in range(60):
        kb_engine.add_note(f"filler {number}")
    folder = tmp_path / "large"
    for number in range(20):
        place = folder / ("nas" if number < 9 else "own") / f"{number}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"# {number}\n\nText {number}.", encoding="utf-8")
    here.sync(folder)
    return folder


def half_mounted(folder: Path) -> None:
    for number in range(15):
        next(folder.rglob(f"{number}.md")).unlink()


def placeholder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "README.md").write_text("This disk is not mounted.", encoding="utf-8")


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def unmounted_sub_folder(folder: Path) -> None:
    for file in (folder / "nas").iterdir():
        file.unlink()


@pytest.mark.parametrize(
    ("vanish", "matched", "total", "where"),
    [
        (half_mounted, 15, 20, "large"),
        (placeholder, 20, 21, "large"),
        (empty, 20, 20, "large"),
        (unmounted_sub_folder, 9, 9, "nas"),
    ],
)
def test_too_much_of_a_folder_does_not_become_missing_unless_forced(
    here: Here,
    kb_engine: Engine,
    large: Path,
    vanish: Callable[[Path], None],
    matched: int,
    total: int,
    where: str,
) -> None:
    (large / "new.md").write_text("new", encoding="utf-8")
    here.sync(large)
    (large / "new.md").unlink()
    here.sync(large)
    before = documents(kb_engine)
    vanish(large)
    added = 1 if vanish is placeholder else 0

    counts = here.sync(large)

    assert here.code == 1
    assert counts.get("added", 0) == added
    refusal = here.answer["refusal"]
    assert (refusal["matched"], refusal["total"], Path(refusal["folder"]).name) == (
        matched,
        total,
        where,
    )
    assert f"kb sync {large} --force" in here.answer["refused"]
    assert before.items() <= documents(kb_engine).items()
    assert here.sync(large, force=True)["missing"] == matched
    assert here.code == 0


def test_a_small_sub_folder_may_vanish(here: Here, large: Path) -> None:
    (large / "few").mkdir()
    for number in range(4):
        (large / "few" / f"few {number}.md").write_text(f"few {number}", encoding="utf-8")
    here.sync(large)
    shutil.rmtree(large / "few")

    assert here.sync(large)["missing"] == 4


def test_a_sub_folder_that_moved_has_not_vanished(
    here: Here, kb_engine: Engine, large: Path
) -> None:
    before = {item["id"] for item in documents(kb_engine).values()}
    (large / "nas").rename(large / "archive")

    counts = here.sync(large)

    assert here.code == 0 and "missing" not in counts
    assert {item["id"] for item in documents(kb_engine).values()} == before


def test_a_branch_and_back_keeps_ids_tags_and_curation(
    here: Here, kb_engine: Engine, notes: Path, curated: dict[str, Any]
) -> None:
    away = notes.parent / "away"
    away.mkdir()
    for name in ("one.md", "two.md"):
        (notes / name).rename(away / name)
    (notes / "branch.md").write_text("only here", encoding="utf-8")
    here.sync(notes)

    (notes / "branch.md").unlink()
    for name in ("one.md", "two.md"):
        (notes / name).write_bytes((away / name).read_bytes())
    assert here.sync(notes) == {"unchanged": 2, "returned": 2, "missing": 1}

    assert is_as_before(kb_engine, curated)


# Nothing is ordered by the clock


def test_a_clock_that_steps_back_while_an_archive_is_read_hides_nothing(
    here: Here, kb_engine: Engine, notes: Path, clock: Clock
) -> None:
    with zipfile.ZipFile(notes / "all.zip", "w") as archive:
        for number in range(20):
            archive.writestr(f"{number}.md", f"# {number}\n\nInside {number}.")
    clock.step = timedelta(seconds=-30)

    assert here.sync(notes) == {"added": 5}
    assert here.sync(notes) == {"unchanged": 5}
    os.utime(notes / "all.zip", ns=(1, 1))
    assert here.sync(notes) == {"unchanged": 5}
    assert len(documents(kb_engine)) == 25


# Forgetting happens in the transaction that decides it


def test_what_was_added_again_since_the_comparison_is_not_forgotten(
    here: Here, kb_engine: Engine, notes: Path
) -> None:
    here.sync(notes)
    root = notes.resolve().as_posix()
    text = (notes / "one.md").read_text(encoding="utf-8")
    (notes / "one.md").unlink()
    (vanished,) = kb_engine.compare_sources([], root, retry=None)["vanished"][1:2]
    gone = [{"source": vanished["source"], "reading": vanished["reading"]}]
    # Another process sees the file at its old or a new place and adds it.
    for name in ("one.md", "elsewhere.md"):
        (notes / name).write_text(text, encoding="utf-8")
        here.add(notes / name)
        kb_engine.forget_sources(root, gone, force=True)
        assert len(documents(kb_engine)) == 4


def former_version(*statements: str) -> None:
    """Take a database back to where it was before a step."""
    kb = open_kb()
    try:
        with kb.store.write() as tx:
            for statement in statements:
                tx.execute(sa.text(statement))
    finally:
        kb.close()


def test_a_base_of_the_former_version_keeps_its_documents_and_sources(
    kb_home: Path, notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect() as engine:
        Here(engine, capsys).sync(notes)
        before = documents(engine)
    former_version(
        "DROP INDEX documents_missing",
        "ALTER TABLE documents DROP COLUMN missing_since",
        "ALTER TABLE document_sources DROP COLUMN reading",
        "ALTER TABLE document_sources DROP COLUMN stamp",
        "ALTER TABLE document_sources ADD COLUMN seen_at VARCHAR(27) NOT NULL DEFAULT '2026-01-01T00:00:00.000000Z'",
        "DELETE FROM kb_migrations WHERE plugin = 'documents' AND version >= 5",
    )

    with connect() as engine:
        here = Here(engine, capsys)
        assert documents(engine) == before
        assert here.sync(notes) == {"unchanged": 4}
        (notes / "one.md").unlink()
        assert here.sync(notes) == {"unchanged": 3, "missing": 1}
