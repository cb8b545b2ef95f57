"""A knowledge base whose files are in a bucket: everything works as with a folder, and a bucket that is away loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from kb_files.plugin import kb_file_stores

from kb_framework.api.files import open_files
from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Move, Run

AWAY = "s3://bucket?endpoint=http://127.0.0.1:9"


@pytest.fixture
def engine(kb_home: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KB_FILES_URL", s3_url)
    with connect() as engine:
        yield engine


def add(engine: Engine, number: int = 0) -> dict:
    return engine.add_file(f"f{number}.md", f"# Zebras {number}\n\nstripes".encode())["document"]


def test_a_document_keeps_its_file_in_the_bucket_until_it_is_deleted(
    engine: Engine, kb_home: Path, s3_url: str
) -> None:
    files = open_files(kb_file_stores(), s3_url, kb_home)
    document = add(engine)
    digest = document["content_hash"]

    assert files.keys() == {f"{digest[:2]}/{digest}"}
    assert engine.get_file(document["id"]) == b"# Zebras 0\n\nstripes"
    assert not (kb_home / "files").exists()

    engine.delete_document(document["id"])
    assert files.keys() == set()


def test_an_upload_in_parts_goes_through_the_bucket(engine: Engine, kb_home: Path) -> None:
    started = engine.start_upload("long.md")["upload_id"]
    engine.append_upload(started, 0, b"# Long\n\n")
    with pytest.raises(EngineError, match="8 bytes have arrived"):
        engine.append_upload(started, 3, b"words")
    engine.append_upload(started, 8, b"words")

    document = engine.finish_upload(started)["document"]

    assert engine.get_file(document["id"]) == b"# Long\n\nwords"
    assert not (kb_home / "uploads").exists()


def test_export_import_and_doctor_use_the_bucket(
    engine: Engine,
    kb_move: Move,
    kb_run: Run,
    s3_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = [add(engine, number)["id"] for number in range(3)]
    assert kb_run("export", str(tmp_path / "a.kbz")).returncode == 0
    assert {
        check["state"] for check in engine.get("/doctor")["checks"] if check["name"] == "files"
    } == {"ok"}

    kb_move(tmp_path / "imported")
    monkeypatch.setenv("KB_FILES_URL", s3_url.replace("some/prefix", "imported"))
    assert kb_run("import", str(tmp_path / "a.kbz"), "--yes").returncode == 0

    with connect() as other:
        assert [other.get_file(number) for number in numbers] == [
            engine.get_file(number) for number in numbers
        ]
    assert not (tmp_path / "imported" / "files").exists()


@pytest.mark.sqlite_only("a backup is a copy of the file; PostgreSQL has tools of its own")
def test_a_backup_has_the_files_of_the_bucket_and_restores_them_to_another(
    engine: Engine, kb_run: Run, s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [add(engine, number)["id"] for number in range(3)]
    assert kb_run("backup", str(tmp_path / "b.kbb")).returncode == 0

    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "restored"))
    monkeypatch.setenv("KB_FILES_URL", s3_url.replace("some/prefix", "restored"))
    assert kb_run("restore", str(tmp_path / "b.kbb")).returncode == 0

    with connect() as other:
        assert [other.get_file(number) for number in numbers] == [
            engine.get_file(number) for number in numbers
        ]
    assert not (tmp_path / "restored" / "files").exists()


def test_a_bucket_that_is_away_is_a_503_that_says_what_to_do_and_nothing_is_lost(
    engine: Engine, kb_home: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = add(engine)
    monkeypatch.setenv("KB_FILES_URL", AWAY)
    with connect() as cut_off:
        for attempt in (lambda: add(cut_off, 1), lambda: cut_off.get_file(kept["id"])):
            with pytest.raises(EngineError) as refused:
                attempt()
            assert refused.value.http_status == 503
            assert refused.value.code == "files_unreachable"
            assert "check the endpoint in KB_FILES_URL" in str(refused.value.hint)
        assert [job["status"] for job in cut_off.list_jobs()["data"]] == ["failed", "done"]
        # A document goes although its file cannot; the file follows when the bucket is back.
        cut_off.delete_document(kept["id"])
        checks = {check["name"]: check["state"] for check in cut_off.get("/doctor")["checks"]}
        assert checks["files"] == "error"
        assert cut_off.list_documents()["meta"]["total"] == 0

    monkeypatch.setenv("KB_FILES_URL", s3_url)
    with connect() as again:
        assert again.list_documents()["meta"]["total"] == 0
        again.delete_document(add(again, 2)["id"])
    assert open_files(kb_file_stores(), s3_url, kb_home).keys() == set()


def test_the_extra_is_asked_for_by_name_where_it_is_missing(kb_run: Run, tmp_path: Path) -> None:
    (tmp_path / "without" / "obstore").mkdir(parents=True)
    (tmp_path / "without" / "obstore" / "__init__.py").write_text(
        "raise ImportError('not here')\n", encoding="utf-8"
    )

    answer = kb_run("list", KB_FILES_URL="s3://bucket", PYTHONPATH=str(tmp_path / "without"))

    assert answer.returncode == 2
    assert "pip install" in answer.stderr
    assert "[s3]" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_credentials_in_the_address_are_refused_and_not_repeated(kb_run: Run) -> None:
    answer = kb_run("config", KB_FILES_URL="s3://me:hush@bucket")

    assert answer.returncode == 2
    assert "holds credentials" in answer.stderr
    assert "hush" not in answer.stderr + answer.stdout
