"""`kb backup` and `kb restore`."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kb_maintenance.archive import ArchiveWriter

from kb_framework.client import Engine, connect
from kb_testing.fixtures import Run, RunningServer

from .conftest import doctor, everything, fill

pytestmark = pytest.mark.sqlite_only(
    "a backup is a copy of the file; PostgreSQL has tools of its own"
)

Sql = Callable[..., list[tuple]]


@pytest.fixture
def filled(kb_home: Path, tmp_path: Path, kb_run: Run) -> tuple[dict, Path]:
    """What was there when a backup was made, and the backup."""
    with connect() as engine:
        fill(engine)
        before = everything(engine)
    backup = tmp_path / "kb.backup"
    done = kb_run("backup", str(backup))
    assert done.returncode == 0, done.stderr
    return before, backup


def test_a_backup_is_restored_into_an_empty_folder(
    filled: tuple[dict, Path], tmp_path: Path, kb_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backup = filled
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "elsewhere"))

    done = kb_run("restore", str(backup), "--json")

    assert json.loads(done.stdout)["documents"] == 6
    with connect() as engine:
        assert everything(engine) == before
        assert doctor(engine)["status"] == "ok"


def test_a_destroyed_database_is_replaced_and_kept_beside(
    filled: tuple[dict, Path], kb_home: Path, kb_run: Run
) -> None:
    before, backup = filled
    (kb_home / "kb.toml").write_text("log_level = 'error'\n", encoding="utf-8")
    (kb_home / "kb.sqlite").write_bytes(b"rubbish" * 1000)

    assert "--force" in kb_run("restore", str(backup)).stderr
    done = json.loads(kb_run("restore", str(backup), "--force", "--json").stdout)

    assert (Path(done["kept"]) / "kb.sqlite").read_bytes().startswith(b"rubbish")
    assert (kb_home / "kb.toml").exists()
    with connect() as engine:
        assert everything(engine) == before


def test_a_damaged_backup_is_refused_and_nothing_is_touched(
    filled: tuple[dict, Path], kb_home: Path, kb_run: Run
) -> None:
    before, backup = filled
    whole = backup.read_bytes()
    middle = len(whole) // 3
    for damaged in (
        whole[: len(whole) // 2],
        whole[:middle] + b"\0" * 64 + whole[middle + 64 :],
        b"",
        b"PK",
    ):
        backup.write_bytes(damaged)
        done = kb_run("restore", str(backup), "--force")
        assert (done.returncode, "refused" in done.stderr) == (2, True), done.stderr

    assert not list(kb_home.glob("replaced-*")) + list(kb_home.glob(".restore-*"))
    with connect() as engine:
        assert everything(engine) == before


def test_no_backup_is_made_of_an_unsound_database_and_none_is_restored(
    filled: tuple[dict, Path], kb_home: Path, tmp_path: Path, kb_run: Run, sql: Sql
) -> None:
    sql("PRAGMA foreign_keys=OFF")
    sql("DELETE FROM documents WHERE id = 1")
    unsound = tmp_path / "unsound.backup"

    refused = kb_run("backup", str(unsound))

    assert refused.returncode == 3
    assert "the database is damaged" in refused.stderr
    assert "kb doctor --repair" in refused.stderr
    assert not unsound.exists()
    writer = ArchiveWriter("kb-backup")
    sql("PRAGMA wal_checkpoint(TRUNCATE)")
    unsound.write_bytes(
        b"".join(
            [
                *writer.member("kb.sqlite", [(kb_home / "kb.sqlite").read_bytes()]),
                *writer.finish({}),
            ]
        )
    )

    done = kb_run("restore", str(unsound), "--force")

    assert "database is damaged" in done.stderr
    assert not list(kb_home.glob("replaced-*"))


def test_restore_refuses_while_an_engine_serves_the_folder(
    kb_server: RunningServer, tmp_path: Path, kb_run: Run
) -> None:
    backup = tmp_path / "kb.backup"
    assert kb_run("backup", str(backup)).returncode == 0

    assert "stop kb serve" in kb_run("restore", str(backup), "--force").stderr


def test_restore_refuses_while_another_process_has_the_database_open(
    filled: tuple[dict, Path], kb_engine: Engine, kb_run: Run
) -> None:
    kb_engine.list_documents()

    assert "another process" in kb_run("restore", str(filled[1]), "--force").stderr


def test_a_backup_of_a_busy_knowledge_base_is_sound_and_complete(
    kb_home: Path, tmp_path: Path, kb_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    written: list[int] = []
    with connect() as engine:
        fill(engine, 10)

        def write() -> None:
            while not stop.is_set():
                written.append(
                    engine.add_note(f"note {len(written)} " + "x" * 500)["document"]["id"]
                )
                if len(written) % 3 == 0:
                    engine.delete_document(written[-1])

        writer = threading.Thread(target=write)
        writer.start()
        backups = []
        try:
            for number in range(3):
                backups.append(tmp_path / f"{number}.backup")
                backups[-1].write_bytes(engine.download_backup())
        finally:
            stop.set()
            writer.join()
    for number, backup in enumerate(backups):
        monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / f"restored-{number}"))
        assert kb_run("restore", str(backup)).returncode == 0
        with connect() as engine:
            report = doctor(engine)
            assert report["status"] == "ok", report
            assert engine.list_documents()["meta"]["total"] >= 10
    assert not list((kb_home / "files").glob(".pinned-*")) + list(kb_home.glob(".backup-*"))


def test_an_existing_file_is_not_overwritten_by_accident(
    filled: tuple[dict, Path], kb_run: Run
) -> None:
    backup = filled[1]
    before = backup.read_bytes()

    assert kb_run("backup", str(backup)).returncode == 2
    assert backup.read_bytes() == before
    assert kb_run("backup", str(backup), "--force").returncode == 0
    assert zipfile.is_zipfile(backup)


def test_an_archive_of_the_other_command_says_which_takes_it(kb_run: Run, tmp_path: Path) -> None:
    assert kb_run("note", "a text").returncode == 0
    backup, export = str(tmp_path / "a.zip"), str(tmp_path / "a.kbz")
    assert (kb_run("backup", backup).returncode, kb_run("export", export).returncode) == (0, 0)

    assert "it is a backup: kb restore takes it" in kb_run("import", backup).stderr
    assert "it is an export: kb import takes it" in kb_run("restore", export, "--force").stderr
