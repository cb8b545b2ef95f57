"""`kb reindex`: another embedder, interruptions, writers at the same time, compaction."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run, kb_line, stored_tables

from .conftest import doctor, environment, everything, fill, fragment

Sql = Callable[..., list[tuple]]


def finish(engine: Engine, **options: str) -> dict:
    while not (done := engine.reindex(**options))["finished"]:
        pass
    return done


def test_another_embedder_needs_a_reindex_and_says_so(
    kb_home: Path, letters: None, kb_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as engine:
        fill(engine)
    monkeypatch.setenv("KB_EMBEDDER", "letters")
    with connect() as engine:
        with pytest.raises(EngineError) as refused:
            engine.search("zebras", mode="vector")
        assert "kb reindex" in refused.value.body["hint"]
        hybrid = engine.search("zebras", mode="hybrid")
        assert hybrid["hits"]
        assert "kb reindex" in hybrid["hint"]
        # What is written before the reindex is searchable by words at once, and by meaning afterwards.
        engine.add_note("zzzz", title="sleep")

        assert finish(engine)["model"] == "letters-26"

        assert engine.search("zz", mode="vector")["hits"][0]["title"] == "sleep"
        assert engine.search("zebras", mode="hybrid")["hint"] is None
        assert doctor(engine)["status"] == "ok"
    assert json.loads(kb_run("reindex", "--json").stdout)["model"] == "letters-26"


def test_an_embedder_can_be_named_and_the_hint_says_what_to_set(
    kb_engine: Engine, letters: None, kb_run: Run
) -> None:
    fill(kb_engine)

    done = kb_run("reindex", "--embedder", "letters")

    assert (done.returncode, "kb config set embedder letters" in done.stderr) == (0, True)
    assert "available" in kb_run("reindex", "--embedder", "nonsense").stderr


def test_an_embedder_of_the_environment_is_kept_as_the_command_says(
    kb_engine: Engine, letters: None, kb_run: Run
) -> None:
    fill(kb_engine)

    done = kb_run("reindex", KB_EMBEDDER="letters")

    assert "kb config set embedder letters" in done.stderr
    # Without the variable a search says what to do, and answers by words.
    assert "kb config set embedder letters" in kb_run("search", "zebras").stderr
    assert kb_run("config", "set", "embedder", "letters").returncode == 0
    assert kb_run("search", "zebras").stderr == ""
    assert kb_run("reindex", KB_EMBEDDER="letters").stderr == ""


def test_a_reindex_replaces_every_vector_and_drops_the_old_index(
    kb_engine: Engine, sql: Sql
) -> None:
    fill(kb_engine)
    before = everything(kb_engine)

    done = finish(kb_engine)

    assert done["done"] == done["total"] == sql("SELECT count(*) FROM chunks")[0][0]
    assert everything(kb_engine) == before
    assert sql("SELECT index_name, active FROM embedding_spaces") == [("chunks_vec_2", 1)]
    assert not [name for name in stored_tables() if name.startswith("chunks_vec_1")]


def killed(kb_home: Path, seen: Callable[[], bool], *arguments: str, **more: str) -> None:
    """Run `kb` and kill it, without a chance to clean up, as soon as something is seen."""
    process = subprocess.Popen(
        kb_line(*arguments),
        env=environment(**more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    end = time.monotonic() + 600
    while not seen():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    # Until all who have its standard error are gone.
    process.communicate()


def test_killed_half_way_the_old_vectors_stay_and_the_next_one_goes_on(
    kb_home: Path, letters: None, kb_run: Run, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as engine:
        for part in range(8):
            engine.add_note(
                "\n\n".join(f"# Part {part}.{n}\n\n{'zebra ' * 150}" for n in range(100))
            )
        before = engine.search("zebra", mode="vector")["hits"]
    total = sql("SELECT count(*) FROM chunks")[0][0]
    assert total > 600

    def made() -> int:
        return sql("SELECT count(*) FROM chunks_vec_2")[0][0]

    def half_way() -> bool:
        return "chunks_vec_2" in stored_tables() and made() > 0

    killed(kb_home, half_way, "reindex", KB_EMBEDDER="letters", LETTERS_SECONDS="1")
    done = made()
    assert 0 < done < total

    with connect() as engine:
        assert engine.search("zebra", mode="vector")["hits"] == before
        assert doctor(engine)["status"] == "ok"
    again = kb_run("reindex", "--json", KB_EMBEDDER="letters")
    assert json.loads(again.stdout)["done"] == total
    assert sql("SELECT model, active FROM embedding_spaces") == [("letters-26", 1)]
    monkeypatch.setenv("KB_EMBEDDER", "letters")
    with connect() as engine:
        assert doctor(engine)["status"] == "ok"


def test_what_is_written_and_deleted_meanwhile_is_not_lost(
    kb_home: Path, letters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect() as engine:
        ids = fill(engine, 20)
        stop = threading.Event()
        written: list[int] = []

        def write() -> None:
            while not stop.is_set():
                written.append(
                    engine.add_note(f"written meanwhile {len(written)}")["document"]["id"]
                )
                if ids:
                    engine.delete_document(ids.pop())

        monkeypatch.setenv("LETTERS_SECONDS", "0.2")
        writer = threading.Thread(target=write)
        writer.start()
        try:
            finish(engine)
            finish(engine, embedder="letters")
        finally:
            stop.set()
            writer.join()
        assert written
    monkeypatch.setenv("KB_EMBEDDER", "letters")
    monkeypatch.setenv("LETTERS_SECONDS", "0")
    with connect() as engine:
        finish(engine)
        report = doctor(engine)
        assert report["status"] == "ok", report
        assert engine.list_documents()["meta"]["total"] == len(written) + len(ids)


@pytest.mark.sqlite_only("PostgreSQL uses room again by itself")
def test_compaction_gives_space_back_and_changes_no_result(kb_engine: Engine, sql: Sql) -> None:
    fragment(kb_engine, sql)
    before = everything(kb_engine)

    while not (done := kb_engine.compact())["finished"]:
        pass

    assert done["after"]["bytes"] < done["before"]["bytes"] / 3
    assert everything(kb_engine) == before
    assert doctor(kb_engine)["status"] == "ok"
    again = kb_engine.compact()
    assert again["after"] == again["before"]


@pytest.mark.sqlite_only("PostgreSQL uses room again by itself")
def test_compaction_waits_for_a_reindex_that_is_under_way(kb_engine: Engine, sql: Sql) -> None:
    fragment(kb_engine, sql)
    sql(
        "CREATE VIRTUAL TABLE chunks_vec_7 USING vec0(organization_id text partition key, embedding float[26])"
    )
    sql(
        "INSERT INTO embedding_spaces VALUES (7, 'letters-26', 26, 'chunks_vec_7', 0, '2026-01-01T00:00:00.000000Z')"
    )

    with pytest.raises(EngineError) as refused:
        kb_engine.compact()

    assert refused.value.http_status == 409
    assert "kb reindex" in refused.value.body["hint"]
