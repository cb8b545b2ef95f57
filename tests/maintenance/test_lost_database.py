"""A database that is gone or half switched is never taken for a new one."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kb_framework.api.data_folder import working_folder
from kb_framework.client import connect
from kb_testing.fixtures import Run

from .conftest import doctor, everything, fill

pytestmark = pytest.mark.sqlite_only("a backup is a copy of the file")

# Restores a backup and dies at the given move.
KILLED = """
import os, signal, sys
from pathlib import Path

left = int(sys.argv[1])
replace = Path.replace

def counted(self, target):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)

Path.replace = counted
from kb_framework.edges.cli.app import run
sys.exit(run(["restore", sys.argv[2], "--force"]))
"""


def no_schema(path: Path) -> None:
    path.write_bytes(b"")
    with connect_to(path) as connection:
        connection.execute("PRAGMA user_version = 1")


def connect_to(path: Path):
    return sqlite3.connect(path)


@pytest.mark.parametrize(
    "lose",
    [Path.unlink, lambda path: path.write_bytes(b""), no_schema],
    ids=["gone", "emptied", "bare"],
)
def test_a_folder_with_files_but_no_database_is_not_begun_again(
    kb_home: Path, tmp_path: Path, kb_run: Run, lose
) -> None:
    with connect() as engine:
        fill(engine)
        before = everything(engine)
    backup = tmp_path / "kb.backup"
    assert kb_run("backup", str(backup)).returncode == 0
    lose(kb_home / "kb.sqlite")

    for command in (["list"], ["note", "hello"], ["search", "zebras"], ["doctor"]):
        said = kb_run(*command)
        told = said.stderr + said.stdout
        assert said.returncode == 3, told
        assert str(kb_home) in told
        assert "6 stored files" in told
        assert "kb restore" in told
        assert "kb doctor --repair" in told
    assert kb_run("restore", str(backup), "--force").returncode == 0
    with connect() as engine:
        assert everything(engine) == before


def test_repair_begins_a_new_database_and_keeps_the_files_of_the_lost_one(
    kb_home: Path, kb_run: Run
) -> None:
    with connect() as engine:
        fill(engine)
    (kb_home / "kb.sqlite").unlink()

    done = json.loads(kb_run("doctor", "--repair", "--json").stdout)

    assert done["status"] == "ok"
    assert "moved 6 stored files" in done["repairs"][0]
    assert len(list((kb_home / "lost-files").iterdir())) == 6


@pytest.mark.parametrize("occupied", [True, False], ids=["over another", "into an empty folder"])
def test_a_restore_killed_at_any_move_is_finished_by_the_next_command(
    kb_home: Path, tmp_path: Path, kb_run: Run, monkeypatch: pytest.MonkeyPatch, occupied: bool
) -> None:
    with connect() as engine:
        fill(engine)
        before = everything(engine)
    backup = tmp_path / "kb.backup"
    assert kb_run("backup", str(backup)).returncode == 0
    killed = 0
    for move in range(20):
        home = tmp_path / f"home-{move}"
        monkeypatch.setenv("KB_DATA_DIR", str(home))
        if occupied:
            with connect() as engine:
                engine.add_note("another")
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(move), str(backup)], capture_output=True, timeout=600
        )
        with connect() as engine:
            titles = {document["title"] for document in engine.list_documents()["data"]}
            # Either nothing was switched yet, or all of it is.
            assert titles in (
                {"another"} if occupied else set(),
                {f"Topic {number}" for number in range(6)},
            )
            if ended.returncode == 0:
                assert everything(engine) == before
            assert doctor(engine)["status"] == "ok"
        assert not [*home.glob(".restore-*"), *home.glob("restore.json")]
        if ended.returncode == 0:
            break
        killed += 1
    assert killed >= (4 if occupied else 2)
    if occupied:
        assert (home / next(home.glob("replaced-*")).name / "kb.sqlite").exists()


def test_what_killed_backups_and_restores_left_is_removed_and_what_is_in_use_stays(
    kb_home: Path,
) -> None:
    with connect() as engine:
        fill(engine, 1)
    source = (
        "import os, signal, sys; from pathlib import Path; from kb_framework.api.data_folder import working_folder\n"
        "with working_folder(Path(sys.argv[1]), sys.argv[2]) as folder:\n"
        "    (folder / 'copy').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    for prefix in (".restore-", ".backup-"):
        subprocess.run([sys.executable, "-c", source, str(kb_home), prefix], timeout=600)
    assert len(list(kb_home.glob(".restore-*")) + list(kb_home.glob(".backup-*"))) == 4

    with working_folder(kb_home, ".backup-") as used, connect():
        assert used.exists()
        assert [path.name for path in kb_home.glob(".restore-*")] == []
        assert sorted(kb_home.glob(".backup-*")) == sorted(
            [used, used.with_name(used.name + ".lock")]
        )
    assert not list(kb_home.glob(".backup-*"))


def test_an_engine_finishes_a_switch_that_was_interrupted(kb_home: Path) -> None:
    with connect() as engine:
        fill(engine, 1)
    journal = {"unpacked": ".restore-x", "kept": "replaced-x", "outgoing": [], "incoming": []}
    (kb_home / "restore.json").write_text(json.dumps(journal))
    (kb_home / "replaced-x").mkdir()

    with connect() as engine:
        assert engine.list_documents()["meta"]["total"] == 1
    assert not (kb_home / "restore.json").exists()
