"""H10 and the storage promises: migrations, snapshots, several processes, a busy writer, a killed one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kb_text.plugin import ANALYSIS
from pysqlite3 import dbapi2

from kb_framework.api.tables import documents
from kb_framework.app import open_kb
from kb_framework.client import connect
from kb_framework.edges.http.app import create_app
from kb_framework.errors import Busy, EngineError, KBError, StoreUnusable
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import start_server, stop_server, stored, stored_tables

# Opens each of the places it is told of on standard input.
OPENER = """
import json, os, sys
from kb_framework.api.opening import open_kb

print("ready", flush=True)
for line in sys.stdin:
    os.environ.update(json.loads(line))
    open_kb().close()
    print("opened", flush=True)
"""

# Adds notes as fast as it can and says which ones were acknowledged, once told to; ends after a count, if one is given.
WRITER = """
import sys
from kb_framework.api.client import connect

name, count = sys.argv[1], int(sys.argv[2])
with connect() as engine:
    print("ready", flush=True)
    sys.stdin.readline()
    number = 0
    while number != count:
        number += 1
        print(engine.add_note(f"{name} writes note {number}")["document"]["id"], flush=True)
"""

# Lists and searches until standard input ends.
READER = """
import sys, threading
from kb_framework.api.client import connect

ended = threading.Event()
with connect() as engine:
    print("ready", flush=True)
    sys.stdin.readline()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
    while True:
        engine.list_documents()
        engine.search("note", mode="lexical")
        if ended.is_set():
            break
print("read", flush=True)
"""


@contextmanager
def child(source: str, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", source, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        pytest.fail(process.stderr.read())
    return line.strip()


def tell(process: subprocess.Popen[str], text: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def database(home: Path) -> Any:
    return closing(dbapi2.connect(str(home / "kb.sqlite"), timeout=600))


def on_postgres() -> bool:
    return "KB_DATABASE_URL" in os.environ


def rows(home: Path, query: str) -> list[tuple[Any, ...]]:
    if on_postgres():
        return stored(query)
    with database(home) as connection:
        return connection.execute(query).fetchall()


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def indexed(home: Path) -> tuple[set[int], set[int], set[int]]:
    """The chunks that exist, those in the full-text index, and those in the vector index."""

    def numbers(query: str) -> set[int]:
        return {row[0] for row in rows(home, query)}

    here = on_postgres()
    return (
        numbers("SELECT seq FROM chunks"),
        numbers("SELECT seq FROM chunks_fts" if here else "SELECT id FROM chunks_fts_1_docsize"),
        numbers(
            "SELECT seq FROM chunks_vec_1" if here else "SELECT rowid FROM chunks_vec_1_rowids"
        ),
    )


@contextmanager
def another_writer() -> Iterator[None]:
    """Somebody else who writes, and is not done yet."""
    other = open_kb()
    try:
        with other.store.write() as tx:
            tx.execute(sa.update(documents).values(title="changed"))
            yield
    finally:
        other.close()


@contextmanager
def raw_engine() -> Iterator[AsgiTransport]:
    """An engine in this process whose whole answers, headers included, can be seen."""
    kb = open_kb()
    transport = AsgiTransport(create_app(kb), kb.close)
    try:
        yield transport
    finally:
        transport.close()


def post_note(transport: AsgiTransport) -> Any:
    body = json.dumps({"text": "text"}).encode()
    return transport.send("POST", "/api/v1/notes", {"Content-Type": "application/json"}, body)


# Migrations


@pytest.mark.new_database
@pytest.mark.sqlite_only("about the file")
def test_whoever_writes_to_a_new_database_is_waited_for(kb_home: Path) -> None:
    """Its mode is changed where it is opened first, for which SQLite itself does not wait."""
    kb_home.mkdir()
    with database(kb_home) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as threads:
            opening = threads.submit(open_kb)
            time.sleep(0.3)
            assert not opening.done()
            other.execute("ROLLBACK")
            opening.result(timeout=600).close()


def test_four_processes_that_open_a_fresh_folder_at_once_migrate_it_once(
    kb_home, kb_store_of, tmp_path, monkeypatch
) -> None:
    homes = [
        {"KB_DATA_DIR": str(tmp_path / f"home-{number}"), **kb_store_of(migrated=False)}
        for number in range(8)
    ]
    with child(OPENER) as a, child(OPENER) as b, child(OPENER) as c, child(OPENER) as d:
        processes = (a, b, c, d)
        for process in processes:
            assert line_of(process) == "ready"
        for home in homes:
            for process in processes:
                tell(process, json.dumps(home))
            for process in processes:
                assert line_of(process) == "opened"

    for environment in homes:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        home = Path(environment["KB_DATA_DIR"])
        applied = rows(home, "SELECT plugin, version FROM kb_migrations ORDER BY 1, 2")
        assert [step for step in applied if step[0] != "legalhold"] == [
            ("access", 1),
            ("access", 2),
            ("access", 3),
            ("bulk", 1),
            ("bulk", 2),
            ("documents", 1),
            ("documents", 2),
            ("documents", 3),
            ("documents", 4),
            ("documents", 5),
            ("documents", 6),
            ("documents", 7),
            ("documents", 8),
            ("full text", ANALYSIS),
            ("host", 1),
            ("host", 2),
            ("host", 3),
            ("host", 4),
            ("host", 5),
            ("host", 6),
            ("host", 7),
            ("host", 8),
            ("host", 9),
            ("knowledge", 1),
            ("knowledge", 2),
            ("knowledge", 3),
            ("research", 1),
            ("research", 2),
            ("search", 1),
        ]
        assert rows(home, "SELECT count(*) FROM organizations") == [(1,)]
        assert on_postgres() or rows(home, "PRAGMA journal_mode") == [("wal",)]


def test_migrations_run_once(kb_home) -> None:
    open_kb().close()
    first = rows(kb_home, "SELECT * FROM kb_migrations")

    open_kb().close()

    assert rows(kb_home, "SELECT * FROM kb_migrations") == first


def test_opening_a_migrated_database_does_not_wait_for_a_writer(kb_home, monkeypatch) -> None:
    open_kb().close()
    monkeypatch.setenv("KB_BUSY_TIMEOUT", "0.2")
    with another_writer(), connect() as engine:
        assert engine.list_documents()["meta"]["total"] == 0
        assert engine.get("/health")["counts"]["documents"] == 0


@pytest.mark.parametrize("newer", ["host", "documents"])
def test_a_newer_database_is_refused_untouched(kb_home, kb_run, newer) -> None:
    with connect() as engine:
        engine.add_note("text")
    stored("INSERT INTO kb_migrations VALUES (?, 99, 'from the future', '2030')", newer)
    before = bytes_of(kb_home), stored_tables(), stored("SELECT * FROM kb_migrations")

    answer = kb_run("list")

    assert (answer.returncode, answer.stdout) == (3, "")
    assert "newer" in answer.stderr
    assert newer in answer.stderr
    assert "Traceback" not in answer.stderr
    assert (bytes_of(kb_home), stored_tables(), stored("SELECT * FROM kb_migrations")) == before


@pytest.mark.parametrize(
    "arguments", [["note", "text"], ["serve", "--port", "0"], ["doctor"]], ids=" ".join
)
def test_a_newer_database_is_refused_by_whatever_opens_it(kb_home, kb_here, arguments) -> None:
    open_kb().close()
    stored("INSERT INTO kb_migrations VALUES ('host', 99, 'from the future', '2030')")
    before = bytes_of(kb_home), stored_tables(), stored("SELECT * FROM kb_migrations")

    answer = kb_here(*arguments)

    assert answer.returncode == 3
    assert "newer" in answer.stdout + answer.stderr
    assert (bytes_of(kb_home), stored_tables(), stored("SELECT * FROM kb_migrations")) == before


def columns_of_jobs() -> dict[str, tuple[bool, str]]:
    """Whether each must have a value, and which it has by default."""
    on_sqlite = "SELECT name, \"notnull\", dflt_value FROM pragma_table_info('jobs')"
    here = "SELECT column_name, is_nullable = 'NO', column_default FROM information_schema.columns WHERE table_name = 'jobs'"
    found = stored(here if on_postgres() else on_sqlite)
    return {
        name: (bool(needed), str(default).partition("::")[0]) for name, needed, default in found
    }


@pytest.mark.new_database
def test_b13_an_older_database_gets_the_job_type_and_keeps_its_rows(kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "bulk")
    with connect() as engine:
        added = [engine.add_note(f"note {number}") for number in range(3)]
        assert {job["job_type"] for job in engine.list_jobs()["data"]} == {"ingest"}
    assert "job_type" not in columns_of_jobs()
    before = rows(kb_home, "SELECT id, uuid, status, document_id, created_at FROM jobs ORDER BY id")
    monkeypatch.delenv("KB_DISABLED_PLUGINS")

    with connect() as engine:
        assert [engine.get_job(item["job"]["id"]) for item in added] == [
            item["job"] for item in added
        ]
        assert engine.list_jobs(job_type="ingest")["meta"]["total"] == 3
        result = engine.bulk_delete(document_ids=[added[0]["document"]["id"]])
        assert engine.get_job(result["job_id"])["job_type"] == "bulk_delete"

    assert columns_of_jobs()["job_type"] == (True, "'ingest'")
    assert (
        rows(kb_home, "SELECT id, uuid, status, document_id, created_at FROM jobs ORDER BY id")[:3]
        == before
    )
    assert [row[0] for row in rows(kb_home, "SELECT job_type FROM jobs ORDER BY id")] == [
        "ingest"
    ] * 3 + ["bulk_delete"]


def test_a_plugin_that_was_migrated_can_be_switched_off_and_on(kb_home, monkeypatch) -> None:
    with connect() as engine:
        engine.add_note("text")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "bulk")
    with connect() as engine:
        engine.add_note("more")
        assert [job["job_type"] for job in engine.list_jobs()["data"]] == ["ingest", "ingest"]
    monkeypatch.delenv("KB_DISABLED_PLUGINS")

    with connect() as engine:
        assert engine.list_jobs(job_type="ingest")["meta"]["total"] == 2


# Derived rows


def test_full_text_and_vectors_are_in_step_after_additions_and_deletions(
    kb_engine, kb_home
) -> None:
    long = "\n\n".join(
        f"# Part {number}\n\n" + "words about keys and storage " * 60 for number in range(6)
    )
    ids = [kb_engine.add_note(text)["document"]["id"] for text in ("one", "two", long, "four")]
    chunks, text, vectors = indexed(kb_home)
    assert len(chunks) > 4
    assert chunks == text == vectors

    kb_engine.delete_document(ids[2])
    chunks, text, vectors = indexed(kb_home)
    assert len(chunks) == 3
    assert chunks == text == vectors

    kb_engine.bulk_delete(document_ids=ids, force=True)
    assert indexed(kb_home) == (set(), set(), set())
    assert kb_engine.search("keys")["hits"] == []


def test_full_text_and_vectors_are_in_step_after_a_rollback(kb_home, plugin) -> None:
    plugin(
        "picky",
        "from kb_framework import hookimpl\n\ncalls = []\n\n\n"
        "@hookimpl\ndef kb_documents_changed(changes):\n"
        "    calls.append(changes)\n    if len(calls) > 3:\n        raise RuntimeError('enough')\n",
    )
    with connect() as engine:
        ids = [engine.add_note(f"note {number}")["document"]["id"] for number in range(3)]
        before = indexed(kb_home)

        with pytest.raises(EngineError):
            engine.add_note("the fourth")
        with pytest.raises(EngineError):
            engine.bulk_delete(document_ids=ids[:2])

        assert indexed(kb_home) == before
        assert before[0] == before[1] == before[2]
        assert len(engine.search("note", mode="lexical")["hits"]) == 3
        assert len(engine.search("note", mode="vector")["hits"]) == 3
        assert engine.get("/doctor")["status"] != "error"


def test_an_addition_that_is_rolled_back_leaves_no_stored_file_behind(kb_home, plugin) -> None:
    plugin(
        "picky",
        "from kb_framework import hookimpl\n\n\n@hookimpl\ndef kb_documents_changed(changes):\n    raise RuntimeError('no')\n",
    )
    with connect() as engine, pytest.raises(EngineError):
        engine.add_note("text")

    assert [path for path in (kb_home / "files").rglob("*") if path.is_file()] == []


def test_document_and_job_ids_are_never_used_again(kb_home) -> None:
    with connect() as engine:
        first = [engine.add_note(f"note {number}") for number in range(3)]
        engine.bulk_delete(document_ids=[item["document"]["id"] for item in first], force=True)
    with connect() as engine:
        again = engine.add_note("again")

    assert again["document"]["id"] > max(item["document"]["id"] for item in first)
    assert again["job"]["id"] > max(item["job"]["id"] for item in first)


def test_an_embedding_space_is_recorded(kb_engine, kb_home) -> None:
    kb_engine.add_note("text")

    (space,) = rows(kb_home, "SELECT model, dimensions, index_name, active FROM embedding_spaces")

    assert space[1:] == (256, "chunks_vec_1", 1)
    assert kb_engine.get("/schema")["models"]["embedding_space"] == {
        "model": space[0],
        "dimensions": 256,
    }


def test_doctor_finds_full_text_that_is_out_of_step(kb_home, kb_here) -> None:
    with connect() as engine:
        engine.add_note("text")
    stored(
        "DELETE FROM chunks_fts" if on_postgres() else "DELETE FROM chunks_fts_1 WHERE rowid = 1"
    )

    answer = kb_here("doctor", "--json")

    checks = {check["name"]: check for check in json.loads(answer.stdout)["checks"]}
    assert answer.returncode == 3
    assert checks["full text"]["state"] == "error"


def test_doctor_finds_a_missing_file_and_a_stray_one(kb_home, kb_here) -> None:
    with connect() as engine:
        engine.add_note("text")
    (stored,) = (kb_home / "files").glob("??/*")
    stray = kb_home / "files" / "00" / ("0" * 64)
    stray.parent.mkdir(exist_ok=True)
    stored.rename(stray)

    answer = kb_here("doctor", "--json")

    states = {
        check["state"] for check in json.loads(answer.stdout)["checks"] if check["name"] == "files"
    }
    assert answer.returncode == 3
    assert states == {"error", "warning"}


# Readers and writers


def test_a_reader_sees_one_snapshot_while_a_writer_writes(kb_home) -> None:
    kb = open_kb()
    count = sa.select(sa.func.count()).select_from(documents)
    other = connect()
    try:
        other.add_note("before")
        with kb.store.read() as tx:
            assert tx.scalar(count) == 1
            other.add_note("during")
            assert tx.scalar(count) == 1
            assert tx.text.maintenance.count() == 1
        with kb.store.read() as tx:
            assert tx.scalar(count) == 2
    finally:
        other.close()
        kb.close()


def test_a_reader_cannot_write(kb_home) -> None:
    kb = open_kb()
    try:
        with pytest.raises((sa.exc.DatabaseError, KBError)), kb.store.read() as tx:
            tx.execute(sa.delete(documents))
    finally:
        kb.close()


def test_what_a_transaction_did_is_undone_by_any_exception(kb_home) -> None:
    kb = open_kb()
    try:
        with pytest.raises(ZeroDivisionError), kb.store.write() as tx:
            tx.execute(sa.text("INSERT INTO organizations VALUES ('x', 'x', 0, 'x')"))
            raise ZeroDivisionError
        with kb.store.read() as tx:
            assert tx.scalar(sa.text("SELECT count(*) FROM organizations")) == 1
    finally:
        kb.close()


def test_many_threads_write_and_read_at_once(kb_engine) -> None:
    problems: list[KBError] = []

    def work(number: int) -> None:
        try:
            for round_ in range(5):
                kb_engine.add_note(f"thread {number} round {round_}")
                kb_engine.search("thread", mode="lexical")
        except KBError as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    assert kb_engine.list_documents()["meta"]["total"] == 60


def test_several_processes_on_one_folder_never_see_a_locked_database(kb_home, kb_run) -> None:
    """Two writers and a reader with engines of their own, a server and its client, all at the same time."""
    count = 40
    with (
        child(WRITER, "first", str(count)) as a,
        child(WRITER, "second", str(count)) as b,
        child(READER) as reader,
    ):
        for process in (a, b, reader):
            assert line_of(process) == "ready"
        server = start_server()
        try:
            for process in (a, b, reader):
                tell(process)
            for number in range(count):
                server.engine.post("/notes", {"text": f"the server writes note {number}"})
            through_server = kb_run("note", "a command writes a note")
            acknowledged = [line_of(process) for process in (a, b) for _ in range(count)]
            assert reader.stdin is not None
            reader.stdin.close()
            assert line_of(reader) == "read"
            assert [a.wait(600), b.wait(600), reader.wait(600)] == [0, 0, 0]
            assert through_server.returncode == 0
            assert server.engine.get("/documents")["meta"]["total"] == 3 * count + 1
            assert server.engine.get("/doctor")["status"] == "ok"
        finally:
            stop_server(server)

    assert len(set(acknowledged)) == 2 * count
    assert not any("locked" in line for line in server.log)


def test_a_writer_that_stays_busy_is_a_503_with_retry_after(kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_BUSY_TIMEOUT", "0.3")
    with raw_engine() as transport:
        with another_writer():
            started = time.monotonic()
            refused = post_note(transport)
            waited = time.monotonic() - started
            reading = transport.send("GET", "/api/v1/documents", {}, b"")
        accepted = post_note(transport)

    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert json.loads(refused.body)["error"] == "busy"
    assert waited >= 0.3
    assert reading.status == 200
    assert accepted.status == 201


def test_a_writer_that_is_busy_for_a_while_is_waited_for(kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_BUSY_TIMEOUT", "30")
    answers: list[Any] = []
    with raw_engine() as transport:
        waiting = threading.Thread(target=lambda: answers.append(post_note(transport)))
        with another_writer():
            waiting.start()
            waiting.join(0.3)
            assert answers == []
        waiting.join()

    assert answers[0].status == 201


def test_a_busy_writer_is_exit_code_3_for_a_command(kb_home, kb_run) -> None:
    with another_writer():
        answer = kb_run("note", "text", KB_BUSY_TIMEOUT="0.2")

    assert (answer.returncode, answer.stdout) == (3, "")
    assert "another process is writing" in answer.stderr


def test_the_queue_of_writers_in_one_process_also_has_an_end(kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_BUSY_TIMEOUT", "0.2")
    kb = open_kb()
    try:
        with kb.store.write(), pytest.raises(Busy), kb.store.write():
            pytest.fail("two writers at once")
        with kb.store.write() as tx:
            assert tx.scalar(sa.text("SELECT 1")) == 1
    finally:
        kb.close()


# Files that are not ours


@pytest.mark.new_database
@pytest.mark.sqlite_only("about the file")
@pytest.mark.parametrize(
    "command", [["list"], ["note", "text"], ["doctor"], ["serve", "--port", "0"]], ids=" ".join
)
def test_a_file_that_is_no_database_is_a_clean_error(kb_home, kb_here, command) -> None:
    kb_home.mkdir()
    (kb_home / "kb.sqlite").write_bytes(
        b"this is no database, but it is long enough to be taken for one " * 100
    )
    before = bytes_of(kb_home)

    answer = kb_here(*command)

    assert answer.returncode == 3, answer
    assert "does not begin as an SQLite database" in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    assert bytes_of(kb_home) == before


@pytest.mark.sqlite_only("about the file")
def test_a_damaged_database_is_a_clean_error(kb_home, kb_here) -> None:
    with connect() as engine:
        for number in range(20):
            engine.add_note(f"note {number} " * 200)
    with database(kb_home) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = kb_home / "kb.sqlite"
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(bytes(data))

    listed = kb_here("list")
    checked = kb_here("doctor", "--json")

    assert listed.returncode == 3, listed
    assert "damaged" in listed.stderr
    assert checked.returncode == 3
    assert json.loads(checked.stdout)["status"] == "error"


@pytest.mark.new_database
def test_a_data_folder_that_is_a_file_is_a_clean_error(kb_home, kb_here) -> None:
    kb_home.write_text("in the way", encoding="utf-8")

    answer = kb_here("list")

    assert answer.returncode in (2, 3), answer
    assert "data folder" in answer.stderr
    assert str(kb_home) in answer.stderr


@pytest.mark.new_database
@pytest.mark.sqlite_only("about the file")
def test_an_unusable_store_can_be_told_from_other_errors(kb_home) -> None:
    kb_home.mkdir()
    (kb_home / "kb.sqlite").write_bytes(b"this is no database " * 500)

    with pytest.raises(StoreUnusable):
        open_kb()


# A killed process


def test_a_killed_writers_half_written_files_are_cleaned_up_at_the_next_start(kb_home) -> None:
    with connect() as engine:
        engine.add_note("text")
    staged = kb_home / "files" / ".staged-left-by-a-killed-process"
    staged.write_bytes(b"half a file")
    old = time.time() - 7 * 24 * 3600
    os.utime(staged, (old, old))

    with connect() as engine:
        engine.add_note("more")

    assert not staged.exists()


@pytest.mark.sqlite_only("the folder holds the database")
def test_a_copy_of_the_folder_opens_elsewhere(kb_home, tmp_path, monkeypatch) -> None:
    with connect() as engine:
        added = engine.add_note("text")["document"]
    shutil.copytree(kb_home, tmp_path / "elsewhere")
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "elsewhere"))

    with connect() as engine:
        assert engine.get_document(added["id"]) == added
        assert engine.get_file(added["id"]) == b"text"


@pytest.mark.sqlite_only("the tables of FTS5")
def test_text_that_was_indexed_in_a_former_way_is_indexed_anew(kb_home) -> None:
    with connect() as engine:
        added = engine.add_note("The studies were running for years", title="kept")
    with database(kb_home) as connection, connection:
        connection.execute("DROP TABLE chunks_fts_1")
        connection.execute("DROP TABLE full_texts")
        connection.execute(
            "CREATE VIRTUAL TABLE chunks_fts USING fts5(title, headings, body, content='', contentless_delete=1)"
        )
        connection.execute("INSERT INTO chunks_fts(rowid, body) SELECT seq, content FROM chunks")
        connection.execute("DELETE FROM kb_migrations WHERE plugin = 'full text'")

    with connect() as engine:
        (hit,) = engine.search("study run", mode="lexical")["hits"]

    assert hit["doc_id"] == added["document"]["id"]
    assert rows(kb_home, "SELECT version FROM kb_migrations WHERE plugin = 'full text'") == [
        (ANALYSIS,)
    ]
