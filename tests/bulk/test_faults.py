"""B6, B7: what a full or failing disk, a stubborn file or a raising plugin does to a bulk operation: nothing by halves."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from kb_framework.client import Engine
from kb_framework.errors import EngineError
from kb_testing.fixtures import stored

OPERATIONS: dict[str, Callable[[Engine], Any]] = {
    "delete": lambda engine: engine.bulk_delete(tags=["old"]),
    "tags": lambda engine: engine.bulk_tags(
        tags=["all"], add=["x" * 128, "y" * 128, "z" * 128], force=True
    ),
    "set_tags": lambda engine: engine.bulk_set_tags(
        tags=["all"], new_tags=["all", "x" * 128, "y" * 128], force=True
    ),
    "ingest": lambda engine: engine.add_file(
        "new.md", b"# Title\n\n" + b"Sentences about something. " * 8_000
    ),
}
JOB_TYPES = {
    "delete": "bulk_delete",
    "tags": "bulk_tags",
    "set_tags": "bulk_set_tags",
    "ingest": "ingest",
}


def refused(call: Callable[[], Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


def assert_tells_no_secrets(answer: Any, home: Path) -> None:
    text = json.dumps(answer)
    for secret in (
        str(home),
        "SELECT",
        "INSERT",
        "DELETE FROM",
        "Traceback",
        "sqlite",
        "OperationalError",
    ):
        assert secret not in text


# A disk without room


@pytest.fixture
def small_disk(tmp_path: Path, kb_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder on a file system of 24 MB, where this machine lets us mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    monkeypatch.setenv("KB_DATA_DIR", str(place / "home"))
    yield place
    # A test's knowledge base is closed after this; nobody else sees the place any more.
    subprocess.run(["umount", "--lazy", place], check=True)


@contextlib.contextmanager
def room(disk: Path, left: int) -> Iterator[None]:
    """Only so many bytes are free meanwhile."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    os.truncate(ballast, max(0, ballast.stat().st_size - left))
    try:
        yield
    finally:
        ballast.unlink()


@pytest.mark.sqlite_only("fills the disk of the file")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_disk_changes_nothing_and_says_so(small_disk, filled, opened, operation) -> None:
    filled(300, 5)
    here = opened()
    here.engine.list_documents()
    before = here.state()

    # From no room at all to nearly enough: the disk gets full at ever later moments.
    for left in (0, 30_000, 100_000, 150_000):
        with room(small_disk, left):
            error = refused(lambda: OPERATIONS[operation](here.engine))

        assert (error.http_status, error.code) == (507, "disk_full"), left
        assert "free some space" in (error.hint or "")
        assert_tells_no_secrets(error.body, small_disk)
        assert here.state() == before, left
        assert here.complaints() == []
    job = here.last_job()
    assert job is not None
    assert (job["job_type"], job["status"]) == (JOB_TYPES[operation], "failed")
    assert "the disk is full" in job["error"]
    assert list((small_disk / "home" / "files").glob(".staged-*")) == []

    OPERATIONS[operation](here.engine)

    assert here.last_job()["status"] == "done"
    assert here.complaints() == []


@pytest.mark.sqlite_only("fills the disk of the file")
def test_with_room_for_the_change_alone_it_is_done(small_disk, filled, opened) -> None:
    """Where exactly the disk gets full does not matter: it is either all done or all undone, and the job agrees."""
    filled(300, 5)
    here = opened()
    here.engine.list_documents()
    outcomes = []
    for left in range(200_000, 4_000_000, 400_000):
        before = here.state()
        with room(small_disk, left):
            try:
                outcomes.append(here.engine.bulk_delete(tags=["old"])["succeeded"])
            except EngineError as error:
                assert error.code == "disk_full"
                assert here.state() == before
        assert here.complaints() == []
        if outcomes:
            break

    assert outcomes == [150]
    assert len(here.state()["documents"]) == len(here.state()["files"]) == 150


def limit_pages(here: Any) -> Callable[[], None]:
    """No further page may be added to the database; call the answer to lift that."""
    engine = here.kb.store.engine.writer

    def limit(connection: Any) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "begin", limit)

    def lift() -> None:
        event.remove(engine, "begin", limit)
        with here.kb.store.write() as tx:
            tx.connection.exec_driver_sql("PRAGMA max_page_count = 1073741823")

    return lift


@pytest.mark.sqlite_only("limits the pages of the file")
@pytest.mark.parametrize("operation", ["tags", "set_tags", "ingest"])
def test_a_database_that_may_not_grow_changes_nothing_and_says_so(
    filled, opened, kb_home, operation
) -> None:
    filled(300)
    here = opened()
    here.engine.list_documents()
    before = here.state()
    lift = limit_pages(here)

    error = refused(lambda: OPERATIONS[operation](here.engine))

    assert (error.http_status, error.code) == (507, "disk_full")
    assert_tells_no_secrets(error.body, kb_home)
    lift()
    assert here.state() == before
    assert (here.last_job()["job_type"], here.last_job()["status"]) == (
        JOB_TYPES[operation],
        "failed",
    )
    assert here.complaints() == []
    OPERATIONS[operation](here.engine)
    assert here.last_job()["status"] == "done"


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may be written beyond this size: the write fails, as on a disk that is failing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)


@pytest.mark.sqlite_only("limits the pages of the file")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_write_that_fails_half_way_changes_nothing_and_says_so(
    filled, opened, kb_home, operation
) -> None:
    filled(300, 5)
    here = opened()
    here.engine.list_documents()
    before = here.state()

    for size in (5_000, 20_000, 60_000):
        with file_size_limit(size):
            error = refused(lambda: OPERATIONS[operation](here.engine))

        assert (error.http_status, error.code) == (503, "store_unusable"), size
        assert "kb doctor" in (error.hint or "")
        assert_tells_no_secrets(error.body, kb_home)
        assert here.state() == before, size
        assert here.complaints() == []

    OPERATIONS[operation](here.engine)
    assert here.last_job()["status"] == "done"
    assert here.complaints() == []


# A database that may only be read


READ_ONLY = {
    "sqlite": ("PRAGMA query_only=ON", "permissions"),
    "postgresql": ("SET TRANSACTION READ ONLY", "standby"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_database_that_became_read_only_can_still_be_read(
    filled, opened, kb_home, operation
) -> None:
    filled(10)
    here = opened()
    before = here.state()
    statement, hint = READ_ONLY[here.kb.store.engine.name]
    event.listen(
        here.kb.store.engine.writer,
        "begin",
        lambda connection: connection.exec_driver_sql(statement),
    )

    error = refused(lambda: OPERATIONS[operation](here.engine))

    assert (error.http_status, error.code) == (503, "store_unusable")
    assert hint in (error.hint or "")
    assert_tells_no_secrets(error.body, kb_home)
    assert here.state() == before
    assert here.engine.list_documents()["meta"]["total"] == 10


@pytest.mark.sqlite_only("the disk of the file is read-only")
@pytest.mark.parametrize(
    "command",
    [["bulk-remove", "--tags", "old", "--yes"], ["note", "more"], ["serve", "--port", "0"]],
)
def test_a_read_only_disk_is_a_clean_error_for_commands(
    small_disk, filled, kb_run, command
) -> None:
    filled(10)
    before = (small_disk / "home" / "kb.sqlite").read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    answer = kb_run(*command)

    assert answer.returncode == 3, answer
    assert "mounted read-only" in answer.stderr, answer
    assert "Traceback" not in answer.stderr
    assert (small_disk / "home" / "kb.sqlite").read_bytes() == before


@pytest.mark.sqlite_only("the disk of the file is read-only")
def test_what_is_on_a_read_only_disk_can_be_read(small_disk, filled, kb_run) -> None:
    filled(10)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)

    assert kb_run("list").returncode == 0
    assert kb_run("search", "document").returncode == 0


def test_files_that_wait_to_be_removed_keep_nobody_from_reading(
    filled, opened, kb_home, monkeypatch
) -> None:
    filled(10)
    with opened().kb.store.write() as tx:
        tx.connection.exec_driver_sql(
            "INSERT INTO file_removals SELECT 'ab/' || content_hash, 'now' FROM documents"
        )
    monkeypatch.setenv("KB_BUSY_TIMEOUT", "0.1")
    here, writer = opened(), opened()

    with writer.kb.store.write():
        assert here.engine.list_documents()["meta"]["total"] == 10


# Stored files


def file_of(here: Any, document_id: int) -> Path:
    [(key,)] = stored("SELECT file FROM documents WHERE id = ?", document_id)
    return here.kb.files.root / key


def test_a_file_that_cannot_be_removed_fails_no_document_and_is_tried_again_with_the_next_addition(
    filled, opened, kb_home, caplog
) -> None:
    filled(10)
    here = opened()
    path = file_of(here, 2)
    # A folder cannot be unlinked, not even by root.
    path.unlink()
    path.mkdir()
    (path / "in the way").touch()

    with caplog.at_level(logging.WARNING, "kb.documents"):
        result = here.engine.bulk_delete(tags=["old"])

    assert (result["status"], result["succeeded"], result["failed"], result["errors"]) == (
        "done",
        5,
        0,
        [],
    )
    assert "could not be removed and will be tried again" in caplog.text
    assert here.complaints() == ["1 files of deleted documents wait to be removed"]
    assert len(here.state()["files"]) == 5 + 1
    (path / "in the way").unlink()
    path.rmdir()
    path.touch()
    again = opened()
    again.engine.list_documents()
    assert path.exists(), "reading removes nothing"
    again.engine.add_note("the next addition")
    assert not path.exists()
    assert again.state()["waiting"] == []
    assert again.complaints() == []


def test_a_file_that_is_missing_is_no_trouble(filled, opened, caplog) -> None:
    filled(10)
    here = opened()
    file_of(here, 2).unlink()

    result = here.engine.bulk_delete(tags=["old"])

    assert (result["status"], result["succeeded"]) == ("done", 5)
    assert here.state()["waiting"] == []
    assert here.complaints() == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_of_a_link_out_of_the_storage_only_the_link_goes(filled, opened, tmp_path) -> None:
    filled(10)
    here = opened()
    outside = tmp_path / "outside.txt"
    outside.write_text("precious", encoding="utf-8")
    path = file_of(here, 2)
    path.unlink()
    path.symlink_to(outside)

    result = here.engine.bulk_delete(tags=["old"])

    assert (result["status"], result["succeeded"]) == ("done", 5)
    assert not path.is_symlink()
    assert outside.read_text(encoding="utf-8") == "precious"
    assert here.complaints() == []


def test_nothing_is_removed_through_a_folder_that_leads_out_of_the_storage(
    filled, opened, tmp_path, caplog
) -> None:
    filled(10)
    here = opened()
    path = file_of(here, 2)
    elsewhere = tmp_path / "elsewhere"
    path.parent.rename(elsewhere)
    path.parent.symlink_to(elsewhere, target_is_directory=True)

    with caplog.at_level(logging.WARNING, "kb.documents"):
        result = here.engine.bulk_delete(tags=["old"])

    assert (result["status"], result["succeeded"]) == ("done", 5)
    assert (elsewhere / path.name).exists()
    assert "leads out of the storage root" in caplog.text
    assert (path.parent.name + "/" + path.name,) in here.state()["waiting"]


def test_a_file_that_another_document_shares_stays_until_the_last_of_them_goes(
    kb_home, opened
) -> None:
    here = opened()
    ids = [here.engine.add_note("the same words")["document"]["id"] for _ in range(2)]
    here.engine.add_note("other words")
    path = file_of(here, ids[0])

    here.engine.bulk_delete(document_ids=ids[:1])
    assert path.exists()
    here.engine.bulk_delete(document_ids=ids[1:])
    assert not path.exists()


@pytest.mark.sqlite_only("reads the bytes of the file")
def test_what_was_deleted_cannot_be_read_from_the_files_any_more(kb_home, opened) -> None:
    """B7: neither text nor vectors; what is left of the full text are single words, until its segments are merged."""
    here = opened()
    texts = [
        f"Sentence {number} that nobody else wrote in these words. " * 8 for number in range(60)
    ]
    ids = [here.engine.add_note(text)["document"]["id"] for text in texts]
    with here.kb.store.read() as tx:
        vectors = (
            tx.connection.exec_driver_sql("SELECT embedding FROM chunks_vec_1").scalars().all()
        )

    here.engine.bulk_delete(document_ids=ids, force=True)
    here.close()

    left = b"".join(path.read_bytes() for path in kb_home.rglob("*") if path.is_file())
    assert [text for text in texts if text[:40].encode() in left] == []
    assert [vector for vector in vectors if vector[:64] in left] == []


# Plugins that raise

GUARD = """
from kb_framework import hookimpl


@hookimpl
def kb_guard_mutation(plan, tx):
    raise RuntimeError("/a/path: SELECT secret FROM sqlite_schema")
"""
OBSERVER = GUARD.replace("kb_guard_mutation(plan, tx)", "kb_documents_changed(changes, tx)")
AFTERWARDS = GUARD.replace("kb_guard_mutation(plan, tx)", "kb_mutation_applied(result)")
FULL = """
from kb_framework import hookimpl


@hookimpl
def kb_documents_changed(changes, tx):
    if tx.engine.name == "postgresql":
        tx.connection.exec_driver_sql("DO $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$")
    pages = tx.connection.exec_driver_sql("PRAGMA page_count").scalar()
    tx.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    tx.connection.exec_driver_sql("CREATE TABLE more AS SELECT zeroblob(1000000) AS data")
"""
BULK = [name for name in OPERATIONS if name != "ingest"]


@pytest.mark.parametrize("operation", BULK)
def test_a_guard_that_raises_refuses_the_operation(
    filled, opened, kb_plugin, kb_home, operation
) -> None:
    filled(10)
    kb_plugin("nervous", GUARD)
    here = opened()
    before = here.state()

    error = refused(lambda: OPERATIONS[operation](here.engine))

    assert (error.http_status, error.code) == (409, "mutation_refused")
    assert "'nervous'" in error.message
    assert "kb plugins disable nervous" in (error.hint or "")
    assert_tells_no_secrets(error.body, kb_home)
    assert "/a/path" not in json.dumps(error.body)
    assert here.state() == before
    assert here.last_job() is None
    assert "/a/path" in here.engine.get("/health")["plugins"]["errors"]["nervous"][0]


@pytest.mark.parametrize("operation", BULK)
def test_an_observer_that_raises_undoes_the_operation_and_leaves_a_failed_job(
    filled, opened, kb_plugin, kb_home, operation
) -> None:
    filled(10)
    kb_plugin("nervous", OBSERVER)
    here = opened()
    before = here.state()

    error = refused(lambda: OPERATIONS[operation](here.engine))

    assert (error.http_status, error.code) == (503, "plugin_failed")
    assert "'nervous'" in error.message
    assert "kb plugins disable nervous" in (error.hint or "")
    assert_tells_no_secrets(error.body, kb_home)
    assert here.state() == before
    job = here.last_job()
    assert job is not None
    assert (job["job_type"], job["status"], job["succeeded"]) == (JOB_TYPES[operation], "failed", 0)
    assert "'nervous'" in json.loads(job["error"])[0]["error"]
    assert "/a/path" not in job["error"]


def test_a_full_disk_that_an_observer_meets_is_not_blamed_on_the_plugin(
    filled, opened, kb_plugin, kb_home
) -> None:
    filled(10)
    kb_plugin("writer", FULL)
    here = opened()
    before = here.state()

    error = refused(lambda: OPERATIONS["delete"](here.engine))

    assert (error.http_status, error.code) == (507, "disk_full")
    assert here.state() == before


@pytest.mark.parametrize("operation", BULK)
def test_an_observer_that_raises_after_the_commit_changes_neither_answer_nor_job(
    filled, opened, kb_plugin, operation
) -> None:
    filled(10)
    kb_plugin("nervous", AFTERWARDS)
    here = opened()

    result = OPERATIONS[operation](here.engine)

    assert (result["status"], result["failed"], result["errors"]) == ("done", 0, [])
    assert here.last_job()["status"] == "done"
    assert "nervous" in here.engine.get("/health")["plugins"]["errors"]
    # The built-in observer, which removes files, is asked whatever another one does.
    assert here.complaints()[1:] == []


COMMIT = """
from kb_framework import hookimpl


@hookimpl
def kb_documents_changed(changes, tx):
    run = tx.connection.exec_driver_sql
    if tx.engine.name == "sqlite":
        run("PRAGMA defer_foreign_keys = ON")
        run("INSERT INTO document_tags VALUES ('x', 424242, 'orphan')")
        return
    run("CREATE TABLE late (id INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    run("INSERT INTO late VALUES (1), (1)")
"""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_commit_that_fails_changes_nothing(filled, opened, kb_plugin, kb_home, operation) -> None:
    filled(10)
    kb_plugin("saboteur", COMMIT)
    here = opened()
    before = here.state()

    error = refused(lambda: OPERATIONS[operation](here.engine))

    assert error.http_status == 500
    assert error.details["id"] in error.message
    assert_tells_no_secrets(error.body, kb_home)
    assert here.state() == before
    assert here.complaints() == []
    if operation in BULK:
        assert (here.last_job()["job_type"], here.last_job()["status"]) == (
            JOB_TYPES[operation],
            "failed",
        )
