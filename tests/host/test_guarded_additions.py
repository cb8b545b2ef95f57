"""Additions are plans too: guards see the new rows, refuse single documents in their own words, and previews ask them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run, stored

SENTENCE = "nothing about whales on Mondays"
# Objects to documents whose chunks, in the transaction, speak of whales; remembers what it was asked.
GUARD = f"""
import sqlalchemy as sa
from kb_framework import api, hookimpl
from kb_framework.api.tables import chunks, documents

asked = []

@hookimpl
def kb_guard_mutation(plan, tx):
    ids = list(tx.connection.scalars(plan.documents))
    assert len(ids) == plan.matched
    titles = list(tx.connection.scalars(sa.select(documents.c.title).where(documents.c.id.in_(plan.documents))))
    asked.append((plan.kind, titles))
    if plan.kind not in ("add", "tags"):
        return None
    bad = sa.select(chunks.c.document_id).where(chunks.c.document_id.in_(plan.documents), chunks.c.content.contains("whale"))
    return [api.Objection({SENTENCE!r}, number) for number in tx.connection.scalars(bad.distinct())]
"""
ALWAYS = f"""
from kb_framework import api, hookimpl

@hookimpl
def kb_guard_mutation(plan):
    return api.Objection({SENTENCE!r})
"""


@pytest.fixture
def opened(plugin: Callable[..., str]) -> Iterator[Callable[[str], Engine]]:
    """Opens an engine with a guard."""
    engines: list[Engine] = []

    def open_engine(source: str = GUARD) -> Engine:
        plugin("guard", source)
        engines.append(connect())
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


def refused(call: Callable[[], Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


def titles(engine: Engine) -> list[str]:
    return sorted(item["title"] for item in engine.list_documents(per_page=100)["data"])


def nothing_is_left(engine: Engine) -> None:
    """No row, no index entry and no file of what was refused."""
    assert engine.search("whale", mode="lexical")["hits"] == []
    assert (
        stored("SELECT count(*) FROM documents")[0][0]
        == stored("SELECT count(DISTINCT document_id) FROM chunks")[0][0]
    )
    checks = [
        check
        for check in engine.get("/doctor")["checks"]
        if check["state"] == "error" or check["name"] == "files"
    ]
    assert [check["state"] for check in checks] == ["ok"]


def test_g1_a_note_that_a_guard_objects_to_is_refused_in_its_words(opened) -> None:
    engine = opened()

    error = refused(lambda: engine.add_note("a whale"))

    assert (error.http_status, error.code, error.message) == (409, "mutation_refused", SENTENCE)
    assert engine.add_note("a harbour")["status"] == "added"
    assert titles(engine) == ["a harbour"]
    (job,) = engine.list_jobs(status="failed")["data"]
    assert job["error"] == SENTENCE
    nothing_is_left(engine)


def test_g1_of_several_files_only_those_that_a_guard_objects_to_are_refused(
    opened, tmp_path: Path, kb_here
) -> None:
    engine = opened()
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.md").write_text(
            "a whale" if number % 3 == 1 else f"harbour {number}", encoding="utf-8"
        )

    added = kb_here("add", str(folder), "--json")
    synced = kb_here("sync", str(folder))

    assert added.returncode == synced.returncode == 1
    assert (
        added.stdout.count(SENTENCE)
        == 2
        == synced.stderr.count(SENTENCE) + synced.stdout.count(SENTENCE)
    )
    assert len(titles(engine)) == 4
    nothing_is_left(engine)


def test_g1_a_file_that_is_uploaded_or_queued_asks_the_guards(opened) -> None:
    engine = opened()
    error = refused(lambda: engine.add_file("a.md", b"a whale"))
    assert (error.http_status, error.message) == (409, SENTENCE)

    queued = engine.add_file("b.md", b"a whale", queue=True)["job"]
    from kb_framework.edges.cli.app import run

    assert run(["worker", "--once"]) in (0, 1)
    job = engine.get_job(queued["id"])
    assert (job["status"], job["error"]) == ("failed", SENTENCE)
    nothing_is_left(engine)


def test_g1_what_research_adds_asks_the_guards(opened) -> None:
    engine = opened()
    error = refused(lambda: engine.research_add("a whale", "fact", source_type="web"))

    assert (error.http_status, error.message) == (409, SENTENCE)
    assert titles(engine) == []
    nothing_is_left(engine)


def test_g1_an_import_leaves_out_what_a_guard_objects_to_and_adds_the_rest(
    plugin, kb_here, tmp_path, monkeypatch
) -> None:
    with connect() as engine:
        for text in ("a harbour", "a whale", "a lighthouse"):
            engine.add_note(text)
    archive = tmp_path / "all.zip"
    assert kb_here("export", str(archive)).returncode == 0
    with connect() as engine:
        engine.bulk_delete(from_id=1, force=True)
    plugin("guard", GUARD)

    done = kb_here("import", str(archive), "--yes", "--json")

    assert done.returncode == 1
    imported = json.loads(done.stdout)["imported"]
    assert [(item["title"], item["error"]) for item in imported["refused"]] == [
        ("a whale", SENTENCE)
    ]
    with connect() as engine:
        assert titles(engine) == ["a harbour", "a lighthouse"]
        nothing_is_left(engine)
    assert SENTENCE in kb_here("import", str(archive), "--yes").stderr


def test_g1_guards_are_asked_with_the_new_rows_and_observers_hear_of_what_was_let_in(
    plugin,
) -> None:
    import sys

    module = plugin("guard", GUARD)
    observer = plugin(
        "observer",
        "from kb_framework import hookimpl\nseen = []\n\n@hookimpl\ndef kb_documents_changed(changes, tx):\n"
        "    seen.append((changes.action, changes.count, len(list(tx.connection.scalars(changes.documents)))))\n",
    )
    with connect() as engine:
        answer = engine.add_files(
            [(f"{text}.md", text.encode(), {}) for text in ("harbour", "whale", "lighthouse")]
        )["results"]
        added = [item["error"] is None for item in answer]

    assert added == [True, False, True]
    assert sys.modules[module].asked == [
        ("add", ["harbour.md"]),
        ("add", ["whale.md"]),
        ("add", ["lighthouse.md"]),
    ]
    assert sys.modules[observer].seen == [("added", 2, 2)]


def test_g1_an_objection_to_everything_refuses_every_addition(opened, kb_here, tmp_path) -> None:
    engine = opened(ALWAYS)
    (tmp_path / "a.md").write_text("a harbour", encoding="utf-8")

    assert refused(lambda: engine.add_note("a harbour")).message == SENTENCE
    assert SENTENCE in kb_here("note", "a harbour").stderr
    done = kb_here("add", str(tmp_path / "a.md"))
    assert done.returncode == 1 and SENTENCE in done.stdout + done.stderr
    assert titles(engine) == []


@pytest.mark.parametrize("answer", ["raise RuntimeError('secret')", "return ''", "return [1]"])
def test_g1_a_guard_that_fails_refuses_the_addition(opened, answer) -> None:
    engine = opened(
        f"from kb_framework import hookimpl\n\n@hookimpl\ndef kb_guard_mutation(plan):\n    {answer}\n"
    )

    error = refused(lambda: engine.add_note("a harbour"))

    assert error.http_status == 409
    assert (
        "plugin 'guard' failed in kb_guard_mutation" in error.message
        and "secret" not in error.message
    )
    assert titles(engine) == []


def test_g1_nothing_is_added_while_a_plugin_has_failed(plugin, kb_here, tmp_path) -> None:
    plugin("broken", "raise RuntimeError('no license')")
    (tmp_path / "a.md").write_text("a harbour", encoding="utf-8")
    words = "documents cannot be changed while a plugin has failed to load: broken"

    with connect() as engine:
        calls: list[Callable[[], Any]] = [
            lambda: engine.add_note("text"),
            lambda: engine.add_file("a.md", b"text"),
            lambda: engine.add_file("a.md", b"text", queue=True)["job"],
            lambda: engine.research_add("text", "fact", source_type="web"),
        ]
        for call in calls:
            error = refused(call)
            assert (error.http_status, error.code) == (503, "plugin_failed")
            assert words in error.message
        assert engine.list_documents()["meta"]["total"] == 0
    done = kb_here("add", str(tmp_path / "a.md"))
    assert done.returncode != 0 and words in done.stderr


# Previews


def test_g1_a_preview_tells_what_guards_will_refuse_and_executing_it_does_so(
    plugin, kb_home
) -> None:
    with connect() as engine:
        ids = [
            engine.add_note(text)["document"]["id"]
            for text in ("a harbour", "a whale", "a lighthouse")
        ]
    plugin("guard", GUARD)
    with connect() as engine:
        preview = engine.bulk_preview("tags", document_ids=ids, add=["x"])
        done = engine.bulk_tags(plan=preview["plan"], force=True)
        chunks = [chunk["id"] for chunk in engine.list_chunks()["data"]]
        none = engine.bulk_preview("delete", document_ids=ids)

    assert (preview["matched"], preview["refused"]) == (3, 1)
    assert preview["objections"] == [{"document_id": ids[1], "chunk_id": None, "error": SENTENCE}]
    assert (done["succeeded"], done["failed"]) == (2, preview["refused"])
    assert done["errors"] == [{"document_id": ids[1], "error": SENTENCE}]
    assert (none["refused"], none["objections"]) == (0, [])
    assert len(chunks) == 3


def test_g1_a_preview_over_chunks_asks_the_guards(plugin, kb_home) -> None:
    with connect() as engine:
        numbers = [engine.add_note(text)["document"]["id"] for text in ("a harbour", "a whale")]
    plugin("guard", GUARD.replace('plan.kind not in ("add", "tags")', "plan.chunks is None"))
    with connect() as engine:
        preview = engine.bulk_preview(
            "set_policy", document_ids=numbers, usage_policy="never_generate"
        )

    assert preview["refused"] == 1
    assert preview["objections"][0]["error"] == SENTENCE
    assert preview["objections"][0]["chunk_id"]


def test_g1_a_preview_tells_that_everything_will_be_refused(plugin, kb_here) -> None:
    with connect() as engine:
        ids = [engine.add_note(text)["document"]["id"] for text in ("one", "two")]
    plugin("guard", ALWAYS)
    with connect() as engine:
        preview = engine.bulk_preview("delete", document_ids=ids[:1])
        error = refused(lambda: engine.bulk_delete(plan=preview["plan"]))

    assert preview["refused"] == 1
    assert preview["objections"] == [{"document_id": None, "chunk_id": None, "error": SENTENCE}]
    assert error.message == SENTENCE
    asked = kb_here("bulk-remove", "--ids", str(ids[0]))
    assert asked.returncode == 1
    assert SENTENCE in asked.stderr and "Proceed?" not in asked.stderr


def test_g1_a_preview_tells_that_a_plugin_has_failed(plugin, kb_home) -> None:
    with connect() as engine:
        number = engine.add_note("one")["document"]["id"]
    plugin("broken", "raise RuntimeError('no license')")
    with connect() as engine:
        preview = engine.bulk_preview("delete", document_ids=[number])

    assert preview["refused"] == 1
    assert "while a plugin has failed to load: broken" in preview["objections"][0]["error"]


def test_g1_the_prompt_lists_what_will_be_refused(plugin, kb_run: Run, kb_home) -> None:
    with connect() as engine:
        ids = [engine.add_note(text)["document"]["id"] for text in ("one", "a whale", "three")]
    plugin("guard", GUARD)

    asked = kb_run("bulk-tag", "--ids", f"{ids[0]},{ids[1]}", "--add", "x", stdin="n\n")

    assert asked.returncode == 1
    assert f"1 of them will be refused:\n  document {ids[1]}: {SENTENCE}" in asked.stderr
