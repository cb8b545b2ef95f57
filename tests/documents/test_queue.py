"""Files that wait for a worker: each becomes a document exactly once, whoever dies when."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kb_files.api import LocalFiles

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run, kb_line

# An embedder that, where it is told to, begins and never ends.
HANGING = """
import os, pathlib, threading
from kb_framework import api, hookimpl

@hookimpl
def kb_embedders():
    return [api.Embedder("hanging", __name__ + ":Hanging")]

class Hanging:
    model = "hanging"
    dimensions = 1

    def encode(self, texts):
        if marker := os.environ.get("HANG"):
            pathlib.Path(marker).touch()
            threading.Event().wait()
        return [b"\\0\\0\\x80?" for _ in texts]
"""


def send(engine: Engine, count: int) -> list[int]:
    return [
        engine.add_file(f"f{number}.md", f"# Zebras {number}\n\nstripes".encode(), queue=True)[
            "job"
        ]["id"]
        for number in range(count)
    ]


def worker(**environment: str) -> subprocess.Popen[str]:
    """`kb worker`, once it says that it works."""
    process = subprocess.Popen(
        kb_line("worker"), env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    assert process.stderr.readline() == "kb: working\n"
    return process


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    # Until all who have its standard error are gone.
    process.communicate()
    return process.returncode


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "this never came true"
        time.sleep(0.05)


def test_a_queued_file_waits_and_a_worker_makes_a_document_of_it(
    kb_engine: Engine, kb_http: AsgiTransport, kb_home: Path, kb_run: Run
) -> None:
    reply = kb_http.ask(
        "POST",
        "/documents",
        params={"queue": "true"},
        fields={"tags": "a,b"},
        files=[("file", "f.md", b"# Zebras")],
    )
    assert reply.status == 202
    (job,) = kb_engine.list_jobs()["data"]
    assert (job["status"], job["filename"], job["finished_at"]) == ("queued", "f.md", None)
    assert kb_engine.list_documents()["meta"]["total"] == 0

    done = kb_run("worker", "--once")

    assert done.returncode == 0, done.stderr
    job = kb_engine.get_job(job["id"])
    assert (job["status"], job["succeeded"], job["error"]) == ("done", 1, None)
    document = kb_engine.get_document(job["document_id"])
    assert document["tags"] == ["a", "b"]
    assert kb_engine.get_file(document["id"]) == b"# Zebras"
    assert [chunk["job_id"] for chunk in kb_engine.get_document_chunks(document["id"])["data"]] == [
        job["uuid"]
    ]
    assert kb_engine.search("zebras")["hits"]
    assert LocalFiles(kb_home / "files").uploaded(job["uuid"]) == []


def test_what_cannot_be_read_fails_with_a_reason_and_what_is_there_already_is_told(
    kb_engine: Engine, kb_run: Run
) -> None:
    known = kb_engine.add_file("known.md", b"# Known")["document"]["id"]
    broken = kb_engine.add_file("broken.pdf", b"%PDF-1.7 and no more", queue=True)["job"]["id"]
    again = kb_engine.add_file("again.md", b"# Known", queue=True)["job"]["id"]

    assert kb_run("worker", "--once").returncode == 1

    failed, duplicate = kb_engine.get_job(broken), kb_engine.get_job(again)
    assert failed["status"] == "failed"
    assert failed["error"]
    assert (duplicate["status"], duplicate["document_id"]) == ("duplicate", known)
    assert kb_engine.list_documents()["meta"]["total"] == 1


def test_a_file_that_is_too_large_is_refused_at_once(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_MAX_FILE_BYTES", "10")
    with connect() as engine:
        with pytest.raises(Exception, match="KB_MAX_FILE_BYTES"):
            engine.add_file("f.md", b"# More than ten bytes", queue=True)
        assert engine.list_jobs()["data"] == []


def test_two_workers_share_the_work_and_nothing_is_done_twice(kb_engine: Engine) -> None:
    numbers = send(kb_engine, 20)
    workers = [worker(), worker()]
    try:
        until(lambda: all(kb_engine.get_job(number)["status"] == "done" for number in numbers))
    finally:
        codes = [stop(process) for process in workers]

    assert codes == [0, 0]
    made = [kb_engine.get_job(number)["document_id"] for number in numbers]
    assert sorted(made) == sorted(
        document["id"] for document in kb_engine.list_documents(per_page=100)["data"]
    )
    assert len(set(made)) == 20


def test_the_file_of_a_killed_worker_is_taken_over(
    kb_home: Path, kb_plugin: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb_plugin("hanging", HANGING, module="hanging_embedder")
    monkeypatch.setenv("KB_EMBEDDER", "hanging")
    monkeypatch.setenv("KB_WORKER_LEASE", "2")
    with connect() as engine:
        (number,) = send(engine, 1)
        first = worker(HANG=str(tmp_path / "hanging"))
        until((tmp_path / "hanging").exists)
        assert engine.get_job(number)["status"] == "running"
        stop(first, signal.SIGKILL)

        second = worker()
        try:
            until(lambda: engine.get_job(number)["status"] == "done")
        finally:
            stop(second)

        assert engine.list_documents()["meta"]["total"] == 1


def test_whoever_lost_the_lease_writes_nothing(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_WORKER_LEASE", "0.001")
    with connect() as engine:
        (number,) = send(engine, 1)
    kb = open_kb()
    try:
        queue = kb.services["ingest_queue"]
        late, quick = queue._take(), None
        while quick is None:
            quick = queue._take()

        added = queue._do(quick)
        assert added.status == "added"
        assert queue._do(late) is None
        # Even with the content at hand, and nothing there that it would be a duplicate of.
        kb.files.put_part(late.queued.uuid, 0, b"# Zebras 0\n\nstripes")
        with connect() as engine:
            engine.delete_document(added.document_id)
            assert queue._do(late) is None
            assert engine.list_documents()["meta"]["total"] == 0
            assert engine.get_job(number)["status"] == "done"
    finally:
        kb.close()


def test_a_storage_that_is_away_fails_no_job_for_good(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_WORKER_LEASE", "0.001")
    with connect() as engine:
        (number,) = send(engine, 1)
        away = (kb_home / "files").rename(kb_home / "away")
        kb = open_kb()
        try:
            queue = kb.services["ingest_queue"]
            assert queue._do(queue._take()).http_status == 503
            waiting = engine.get_job(number)
            assert (waiting["status"], waiting["error"]) == ("queued", "0 of 19 bytes are there")

            away.rename(kb_home / "files")
            assert queue._do(queue._take()).status == "added"
        finally:
            kb.close()
        done = engine.get_job(number)
        assert (done["status"], done["error"]) == ("done", None)


def test_what_waits_is_never_taken_for_abandoned(
    kb_engine: Engine, kb_home: Path, kb_run: Run
) -> None:
    (number,) = send(kb_engine, 1)
    folder = kb_home / "files" / ".uploads" / kb_engine.get_job(number)["uuid"]
    old = time.time() - 3 * 24 * 3600
    os.utime(folder, (old, old))

    assert kb_run("list").returncode == 0
    assert kb_run("worker", "--once").returncode == 0

    assert kb_engine.get_job(number)["status"] == "done"
