"""`kb db partition N`: full text and vectors are divided by organization, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kb_framework.client import connect
from kb_testing.fixtures import stored

pytestmark = pytest.mark.postgres_only

_PARTS = (
    "SELECT inhparent::regclass::text, count(*)::int FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent "
    "WHERE relkind = 'p' GROUP BY 1 ORDER BY 1"
)
Run = Callable[..., Any]


@pytest.fixture
def there(kb_home: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KB_DATABASE_URL", database)
    return database


def _fill() -> None:
    with connect() as engine:
        for number in range(12):
            engine.add_note(
                f"zebras and stripes, number {number}", tags=["even" if number % 2 == 0 else "odd"]
            )


def _searches() -> list[Any]:
    with connect() as engine:
        asked = [
            engine.search("zebras with stripes", mode=mode, k=20)
            for mode in ("lexical", "vector", "hybrid")
        ]
        asked.append(engine.search('"number 7"', syntax=True))
        return [
            [(hit["chunk_id"], round(hit["score"], 6)) for hit in answer["hits"]]
            for answer in asked
        ]


def _partition(run: Run, number: int) -> dict[str, Any]:
    done = run("db", "partition", str(number), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_searches_find_the_same_in_any_number_of_partitions(there: str, kb_run: Run) -> None:
    _fill()
    before = _searches()
    assert [len(found) for found in before] == [12, 12, 12, 1]
    for number in (4, 8, 1):
        assert _partition(kb_run, number) == {"partitions": number, "changed": True}
        assert dict(stored(_PARTS)) == (
            {} if number == 1 else {"chunks_fts": number, "chunks_vec_1": number}
        )
        assert _searches() == before


def test_twice_is_the_same_as_once(there: str, kb_run: Run) -> None:
    _fill()
    assert _partition(kb_run, 4)["changed"] is True
    tables = stored(
        "SELECT oid::int FROM pg_class WHERE starts_with(relname, 'chunks_') ORDER BY 1"
    )
    again = kb_run("db", "partition", "4")
    assert again.stdout == "full text and vectors are in 4 partitions already\n"
    assert (
        stored("SELECT oid::int FROM pg_class WHERE starts_with(relname, 'chunks_') ORDER BY 1")
        == tables
    )


def test_everything_goes_on_in_partitions(there: str, kb_run: Run) -> None:
    _fill()
    _partition(kb_run, 4)
    with connect() as engine:
        engine.add_note("zebras that came later")
        done = engine.post("/bulk/delete", {"tags": ["odd"], "force": True})
        assert done["succeeded"] == 6
        assert len(engine.search("zebras", k=20)["hits"]) == 7
        while not engine.reindex()["finished"]:
            pass
        # A new space is in as many partitions as the former one was.
        assert dict(stored(_PARTS)) == {"chunks_fts": 4, "chunks_vec_2": 4}
        assert len(engine.search("zebras", mode="vector", k=20)["hits"]) == 7
        report = engine.get("/doctor")
        assert report["status"] == "ok", report


def test_full_text_that_was_lost_is_made_again_in_partitions(there: str, kb_run: Run) -> None:
    _fill()
    before = _searches()
    _partition(kb_run, 4)
    with psycopg.connect(there) as connection:
        connection.execute("DROP TABLE chunks_fts")
    with connect() as engine:
        assert engine.post("/doctor/repair")["status"] == "ok"
    assert dict(stored(_PARTS)) == {"chunks_fts": 4, "chunks_vec_1": 4}
    assert _searches() == before


def test_while_an_engine_is_connected_nothing_is_moved(there: str, kb_run: Run) -> None:
    _fill()
    with connect() as engine:
        engine.search("zebras")
        refused = kb_run("db", "partition", "4")
        assert refused.returncode != 0
        assert "1 other processes of kb use the database; nothing was changed" in refused.stderr
        assert "stop all engines and workers first" in refused.stderr
    assert stored(_PARTS) == []


@pytest.mark.parametrize("number", ["0", "129", "-1"])
def test_a_number_that_makes_no_sense_is_refused(there: str, kb_run: Run, number: str) -> None:
    refused = kb_run("db", "partition", number)
    assert refused.returncode == 2
    assert "1 to 128" in refused.stderr or "-1" in refused.stderr


def test_a_sqlite_file_has_no_partitions(kb_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KB_DATABASE_URL", raising=False)
    refused = kb_run("db", "partition", "4")
    assert refused.returncode == 2
    assert "a SQLite database has no partitions" in refused.stderr
