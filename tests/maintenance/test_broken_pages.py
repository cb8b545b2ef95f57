"""Pages of the database file that were overwritten."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_framework.client import connect
from kb_testing.fixtures import Move, Run

from .conftest import everything, fill

Sql = Callable[..., list[tuple]]

pytestmark = pytest.mark.sqlite_only("pages of SQLite's file")

_DERIVED = [
    "chunks_by_document",
    "documents_by_content",
    "chunks_fts_1_data",
    "chunks_fts_1_docsize",
    "chunks_vec_1_chunks",
]


def overwrite(home: Path, sql: Sql, name: str) -> None:
    """Fill the first page of a table or index with rubbish."""
    sql("PRAGMA wal_checkpoint(TRUNCATE)")
    ((page,),) = sql("SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    overwrite_page(home, sql, page)


def overwrite_page(home: Path, sql: Sql, page: int) -> None:
    ((size,),) = sql("PRAGMA page_size")
    with (home / "kb.sqlite").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x0d" + b"rubbish!" * ((size - 1) // 8))


def a_leaf(home: Path, sql: Sql, name: str) -> int:
    """A page in the middle of a table, which the first page of the table points to."""
    ((root,),) = sql("SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    ((size,),) = sql("PRAGMA page_size")
    page = (home / "kb.sqlite").read_bytes()[(root - 1) * size : root * size]
    kind, _, cells = struct.unpack(">BHH", page[:5])
    assert kind == 5, "the table has one page only"
    (place,) = struct.unpack_from(">H", page, 12 + 2 * (cells // 2))
    return struct.unpack_from(">I", page, place)[0]


@pytest.mark.parametrize("name", _DERIVED)
def test_repair_rebuilds_what_is_derived(kb_home: Path, kb_run: Run, sql: Sql, name: str) -> None:
    with connect() as engine:
        fill(engine)
        before = everything(engine)
    overwrite(kb_home, sql, name)
    assert kb_run("doctor").returncode == 3

    repaired = kb_run("doctor", "--repair", "--json")

    report = json.loads(repaired.stdout)
    assert report["status"] == "ok", report
    assert report["repairs"]
    with connect() as engine:
        assert everything(engine) == before


@pytest.mark.parametrize("name", ["chunks", "documents", "jobs"])
def test_damage_beyond_repair_says_so_and_what_to_do(
    kb_home: Path, kb_run: Run, sql: Sql, name: str
) -> None:
    with connect() as engine:
        fill(engine)
    overwrite(kb_home, sql, name)

    repaired = kb_run("doctor", "--repair")

    assert repaired.returncode == 3
    assert "nothing to repair" not in repaired.stdout
    assert "damaged" in repaired.stdout
    assert "restore a backup" in repaired.stdout
    assert "kb export" in repaired.stdout


@pytest.mark.parametrize("name", ["chunks", "documents", "jobs"])
def test_what_can_be_read_of_a_damaged_table_is_exported(
    kb_home: Path, tmp_path: Path, kb_run: Run, kb_move: Move, sql: Sql, name: str
) -> None:
    with connect() as engine:
        fill(engine, 60)
    sql("PRAGMA wal_checkpoint(TRUNCATE)")
    overwrite_page(kb_home, sql, a_leaf(kb_home, sql, name))

    saved = kb_run("export", str(tmp_path / "saved.kbz"))

    assert saved.returncode == 1, saved.stderr
    assert f"rows of {name} could not be read" in saved.stderr
    kb_move(tmp_path / "other-home")
    taken = kb_run("import", str(tmp_path / "saved.kbz"), "--yes")
    assert taken.returncode in (0, 1), taken.stderr
    with connect() as engine:
        total = engine.list_documents()["meta"]["total"]
        assert 30 <= total <= 60
        assert (total == 60) == (name != "documents")


@pytest.mark.parametrize(
    ("left", "said"),
    [(10, "does not begin as"), (5000, "cut off"), (-4096, "cut off"), (None, "does not begin as")],
)
def test_a_database_of_which_nothing_can_be_read_names_what_brings_documents_back(
    kb_home: Path, tmp_path: Path, kb_run: Run, left: int | None, said: str
) -> None:
    with connect() as engine:
        fill(engine)
    assert kb_run("backup", str(tmp_path / "backup.zip")).returncode == 0
    database = kb_home / "kb.sqlite"
    content = database.read_bytes()
    database.write_bytes(bytes(len(content)) if left is None else content[:left])
    for suffix in ("-wal", "-shm"):
        database.with_name(f"kb.sqlite{suffix}").unlink(missing_ok=True)

    for command in (
        ("list",),
        ("search", "zebras"),
        ("export", str(tmp_path / "saved.kbz")),
        ("doctor",),
        ("doctor", "--repair"),
    ):
        told = kb_run(*command)
        assert told.returncode == 3, command
        words = told.stdout + told.stderr
        assert said in words
        # What has been tried, or cannot help, is not advised.
        assert "rebuilds what can be" not in words
        assert "save what can be read" not in words
        assert "kb restore BACKUP --force" in words
        assert "move kb.sqlite away" in words

    if left == 5000:
        database.rename(tmp_path / "moved.sqlite")
        assert kb_run("doctor", "--repair").returncode == 0
        assert kb_run("list").returncode == 0
    else:
        restored = kb_run("restore", str(tmp_path / "backup.zip"), "--force")
        assert restored.returncode == 0, restored.stderr
        assert "zebras" in kb_run("search", "zebras").stdout
