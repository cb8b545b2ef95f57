"""`kb doctor --repair`, each time after damage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from kb_maintenance.repair import Repair

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_framework.in_process import BorrowedTransport
from kb_testing.fixtures import Run

from .conftest import doctor, everything, fill, fragment

Sql = Callable[..., list[tuple]]


def repaired(engine: Engine) -> str:
    report = engine.post("/doctor/repair")
    assert report["status"] == "ok", report
    return "\n".join(report["repairs"])


def test_a_healthy_knowledge_base_needs_no_repair(kb_engine: Engine) -> None:
    fill(kb_engine)

    before = everything(kb_engine)

    assert repaired(kb_engine) == ""
    assert everything(kb_engine) == before


def _of_sqlite(*statements: str) -> list:
    return [
        pytest.param(statement, marks=pytest.mark.sqlite_only("SQLite's own tables"))
        for statement in statements
    ]


def _of_postgres(*statements: str) -> list:
    return [pytest.param(statement, marks=pytest.mark.postgres_only) for statement in statements]


@pytest.mark.parametrize(
    "damage",
    [
        *_of_sqlite(
            "DELETE FROM chunks_fts_1 WHERE rowid < 4",
            "DELETE FROM chunks_fts_1",
            "INSERT INTO chunks_fts_1(rowid, title, headings, body) VALUES (999, 'zebras', '', 'zebras')",
            "DELETE FROM chunks_fts_1_data",
            "DROP TABLE chunks_fts_1_data",
            "DROP TABLE chunks_fts_1_docsize",
            "DROP TABLE chunks_fts_1",
        ),
        *_of_postgres(
            "DELETE FROM chunks_fts WHERE seq < 4",
            "INSERT INTO chunks_fts SELECT 999, organization_id, length, words FROM chunks_fts LIMIT 1",
            "DROP TABLE chunks_fts",
        ),
    ],
)
def test_full_text_is_made_again_from_the_chunks(
    kb_engine: Engine, kb_home: Path, sql: Sql, damage: str
) -> None:
    fill(kb_engine)
    before = everything(kb_engine)
    sql(damage)

    assert doctor(kb_engine)["status"] == "error"
    assert "full" in repaired(kb_engine)
    assert everything(kb_engine) == before


@pytest.mark.parametrize(
    "damage",
    [
        *_of_sqlite("DELETE FROM chunks_vec_1 WHERE rowid < 4"),
        *_of_postgres("DELETE FROM chunks_vec_1 WHERE seq < 4", "DROP TABLE chunks_vec_1 CASCADE"),
        *_of_sqlite(
            "INSERT INTO chunks_vec_1(rowid, organization_id, embedding) SELECT 999, organization_id, embedding FROM chunks_vec_1"
            " LIMIT 1",
            "DELETE FROM chunks_vec_1_vector_chunks00",
            "DROP TABLE chunks_vec_1_chunks",
            "DROP TABLE chunks_vec_1_rowids",
            "DROP TABLE chunks_vec_1_vector_chunks00",
            "DROP TABLE chunks_vec_1",
        ),
    ],
)
def test_vectors_are_made_again_from_the_chunks(kb_engine: Engine, sql: Sql, damage: str) -> None:
    fill(kb_engine)
    before = everything(kb_engine)
    sql(damage)

    assert doctor(kb_engine)["status"] != "ok"
    assert "vector" in repaired(kb_engine)
    assert everything(kb_engine) == before


def test_wrong_counts_are_corrected(kb_engine: Engine, sql: Sql) -> None:
    first = fill(kb_engine)[0]
    sql("UPDATE documents SET chunk_count = 77 WHERE id = ?", first)

    assert f"document {first} has" in repaired(kb_engine)
    assert kb_engine.get_document(first)["chunk_count"] == len(
        kb_engine.get_document_chunks(first)["data"]
    )


@pytest.mark.sqlite_only("PostgreSQL always checks foreign keys")
def test_rows_of_documents_that_do_not_exist_are_removed(kb_engine: Engine, sql: Sql) -> None:
    ids = fill(kb_engine)
    sql("PRAGMA foreign_keys=OFF")
    sql("DELETE FROM documents WHERE id = ?", ids[0])

    assert doctor(kb_engine)["status"] == "error"
    assert "do not exist" in repaired(kb_engine)
    assert kb_engine.search("zebras", mode="lexical")["hits"]


def test_a_document_whose_file_is_gone_keeps_its_text_and_gets_the_file_back(
    kb_engine: Engine, kb_home: Path
) -> None:
    first = fill(kb_engine)[0]
    before = everything(kb_engine)
    stored = next(
        path for path in (kb_home / "files").glob("??/*") if b"number 0" in path.read_bytes()
    )
    hidden = stored.rename(kb_home / "hidden")

    assert f"are gone, their text is still there: {first} (" in repaired(kb_engine)
    assert kb_engine.search("zebras number 0", mode="lexical")["hits"]

    hidden.rename(stored)
    assert "have their stored file again" in repaired(kb_engine)
    assert everything(kb_engine) == before


def test_files_that_belong_to_no_document_are_set_aside_not_deleted(
    kb_engine: Engine, kb_home: Path
) -> None:
    fill(kb_engine)
    orphan = kb_home / "files" / "ab" / ("ab" + "0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"precious")

    assert "belong to no document" in repaired(kb_engine)
    assert (kb_home / "lost-files" / orphan.name).read_bytes() == b"precious"


def test_the_doctor_says_what_it_repaired(kb_engine: Engine, kb_run: Run, sql: Sql) -> None:
    fill(kb_engine)
    sql("DELETE FROM chunks_fts" if "KB_DATABASE_URL" in os.environ else "DELETE FROM chunks_fts_1")

    assert kb_run("doctor").returncode == 3
    done = kb_run("doctor", "--repair", "--json")

    assert done.returncode == 0
    # PostgreSQL first says that its totals were not those of its rows.
    assert json.loads(done.stdout)["repairs"][-1] == "indexed 6 chunks for full text"
    assert "nothing to repair" in kb_run("doctor", "--repair").stdout


@pytest.mark.sqlite_only("PostgreSQL uses room again by itself")
def test_a_fragmented_vector_index_is_compacted(kb_engine: Engine, sql: Sql) -> None:
    fragment(kb_engine, sql)
    before = everything(kb_engine)
    assert any("--compact" in problem for problem in doctor(kb_engine)["problems"])

    assert "compacted the vector index from" in repaired(kb_engine)
    assert everything(kb_engine) == before


@pytest.mark.parametrize(
    "damage",
    [
        *_of_sqlite(
            "DROP TABLE chunks_fts_1_data",
            "DELETE FROM chunks_vec_1 WHERE rowid < 4",
            "DROP TABLE chunks_vec_1_rowids",
        ),
        *_of_postgres("DROP TABLE chunks_fts", "DROP TABLE chunks_vec_1 CASCADE"),
    ],
)
def test_a_repair_that_is_given_up_at_any_moment_is_finished_by_the_next(
    kb_engine: Engine, sql: Sql, damage: str
) -> None:
    fill(kb_engine)
    before = everything(kb_engine)
    sql(damage)
    kb = open_kb()
    try:
        moments = 0
        while True:
            # Each time it gets one event further than the last time, unless nothing is left to do.
            events = list(
                islice(Repair(kb.store, kb.services["embedding"], batch=2).steps(), moments + 1)
            )
            if len(events) <= moments:
                break
            moments += 1
    finally:
        kb.close()

    assert moments
    assert repaired(kb_engine) == ""
    assert everything(kb_engine) == before


def test_a_repair_that_takes_long_answers_meanwhile(kb_engine: Engine, sql: Sql) -> None:
    fill(kb_engine)
    before = everything(kb_engine)
    sql("DELETE FROM chunks_fts" if "KB_DATABASE_URL" in os.environ else "DELETE FROM chunks_fts_1")
    kb = open_kb()
    try:
        kb.services["doctor"].step_seconds = 0.0
        engine = Engine(BorrowedTransport(kb), kb.plugins)
        answers = [engine.repair()]
        while not answers[-1]["finished"]:
            answers.append(engine.repair())
    finally:
        kb.close()

    assert [answer["done"] for answer in answers[:-1] if answer["what"] == "full text"][-1] == 6
    assert answers[-1]["status"] == "ok"
    assert "indexed 6 chunks for full text" in answers[-1]["repairs"]
    assert everything(kb_engine) == before


@pytest.mark.sqlite_only("PostgreSQL has no side index")
def test_a_side_index_that_interrupted_commands_left_is_built_by_the_next_one(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_SIDE_INDEX_MIN_CHUNKS", "1000000")
    with connect() as engine:
        fill(engine, 30)
    # From here on thirty chunks are many, and nothing that was written before is in a side index.
    monkeypatch.setenv("KB_SIDE_INDEX_MIN_CHUNKS", "20")
    with connect() as engine:
        assert "without one" in "\n".join(doctor(engine)["problems"])

    with connect() as engine:
        engine.add_note("one more")

    with connect() as engine:
        assert doctor(engine)["status"] == "ok"
