"""`kb migrate-store`: a SQLite database arrives in PostgreSQL with every row, every id and every hit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from kb_maintenance.moving import move_store
from kb_text.rebuild import rebuild_text

from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, connect
from kb_framework.plugins import Plugins
from kb_framework.running import ADDRESS_FILE
from kb_framework.storage.migrations import HOST_MIGRATIONS
from kb_testing.fixtures import Install, Run, start_server, stop_server, stored

from .conftest import dbapi2, doctor, fill, open_database

pytestmark = pytest.mark.postgres_only

Here = pytest.MonkeyPatch
WITHOUT_KEY = """
import sqlalchemy as sa
from kb_framework import api, hookimpl

@hookimpl
def kb_migrations():
    return [api.Migration(1, "diary", __name__ + ":create")]

def create(tx):
    tx.connection.exec_driver_sql("CREATE TABLE diary (word TEXT, at TIMESTAMP, extra JSON, price NUMERIC(8, 2), seen BOOLEAN)")
"""
# Ends without a word once so many rows are done, as a killed process does.
DIES = """
import os, sys
from pathlib import Path
from kb_framework.bootstrap import read_bootstrap
from kb_framework.api.parts import Plugins
from kb_maintenance.moving import move_store
bootstrap = read_bootstrap()
die = lambda done, total: os._exit(9) if done >= int(sys.argv[3]) else None
move_store(bootstrap, Plugins(bootstrap), Path(sys.argv[1]), sys.argv[2], die, at_once=2)
"""


@pytest.fixture
def target(kb_databases: Any) -> Iterator[str]:
    """An empty database."""
    url = kb_databases.new(migrated=False)
    yield url
    kb_databases.drop(url)


@pytest.fixture
def source(kb_home: Path, monkeypatch: Here) -> Path:
    """A knowledge base on SQLite with something in every corner; this environment works on it."""
    monkeypatch.delenv("KB_DATABASE_URL")
    with connect() as engine:
        ids = fill(engine)
        chunk, other = (engine.get_document_chunks(number)["data"][0] for number in ids[:2])
        engine.deactivate_chunk(chunk["id"], reason="old")
        engine.reclassify_chunk(other["id"], "example")
        engine.research_add(
            "zebras sleep standing",
            "fact",
            source_ref="https://zebra.example/",
            source_title="Zebras",
        )
        engine.place_hold(ids[1:3], matter="m-1", reason="a dispute")
        engine.knowledge_context("zebras")
        # The highest number is given to nobody else, though its document is gone.
        last = engine.add_note("gone again")["document"]["id"]
        engine.delete_document(last)
        engine.create_organization("acme")
        key = engine.create_key("ann", "admin", organization="acme")["key"]
        engine.create_key("bob", "viewer", permissions=["documents.read"])
    monkeypatch.setenv("ACME_KEY", key)
    with as_acme(monkeypatch) as engine:
        fill(engine, 4)
    # FTS5 goes on counting what was deleted in the number and the length of all, as PostgreSQL does not, until it is made anew.
    with closing(open_kb()) as kb, kb.store.write() as tx:
        rebuild_text(tx)
    return kb_home / "kb.sqlite"


def as_acme(monkeypatch: Here) -> Engine:
    with monkeypatch.context() as patched:
        patched.setenv("KB_API_KEY", os.environ["ACME_KEY"])
        return connect()


def everything(monkeypatch: Here) -> dict[str, Any]:
    """What both organizations see, with all ids."""
    found: dict[str, Any] = {}
    for name, engine in (("default", connect()), ("acme", as_acme(monkeypatch))):
        with engine:
            documents = engine.list_documents(per_page=100)["data"]
            found[f"{name} documents"] = documents
            found[f"{name} chunks"] = {
                item["id"]: engine.get_document_chunks(item["id"])["data"] for item in documents
            }
            found[f"{name} jobs"] = engine.list_jobs(per_page=100)
            found[f"{name} events"] = engine.list_events(per_page=100)
            found[f"{name} holds"] = engine.list_holds(per_page=100)
            found[f"{name} research"] = engine.research_recent()
            found[f"{name} users"] = engine.list_users(per_page=100)
            for mode in ("lexical", "vector", "hybrid"):
                hits = engine.search("zebras rotation chapter", mode=mode, k=30)["hits"]
                found[f"{name} {mode}"] = {hit["chunk_id"]: hit["score"] for hit in hits}
    return found


def assert_same(found: dict[str, Any], before: dict[str, Any]) -> None:
    for name, value in before.items():
        if name.endswith(("lexical", "vector", "hybrid")):
            assert found[name] == pytest.approx(value, abs=1e-3), name
        else:
            assert found[name] == value, name


def use(monkeypatch: Here, url: str) -> None:
    monkeypatch.setenv("KB_DATABASE_URL", url)


def tables_of(url: str, monkeypatch: Here) -> list[str]:
    with monkeypatch.context() as patched:
        use(patched, url)
        names = stored(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
        )
    return [row[0] for row in names]


def test_everything_arrives_with_its_ids_and_is_found_the_same(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    before = everything(monkeypatch)
    content = source.read_bytes()

    done = kb_run("migrate-store", str(source), target, "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["documents"], report["resumed"]) == (11, False)
    assert report["vectors"] == report["chunks"]
    assert report["tables"]["legal_holds"]["rows"] == 2
    assert report["files"] == {"wanted": 6, "missing": 0, "folder": None}
    assert source.read_bytes() == content
    use(monkeypatch, target)
    assert_same(everything(monkeypatch), before)
    assert stored("SELECT count(*) FROM api_keys WHERE permissions IS NULL") == [(1,)]
    with connect() as engine:
        assert doctor(engine)["status"] == "ok"
        numbers = [item["id"] for item in engine.list_documents(per_page=100)["data"]]
        # Not even the number of the document that was deleted is given again.
        assert engine.add_note("new here")["document"]["id"] > max(*numbers, 8)
        with pytest.raises(Exception, match="hold"):
            engine.delete_document(stored("SELECT document_id FROM legal_holds LIMIT 1")[0][0])
    assert "kb_store_copy" not in tables_of(target, monkeypatch)


@pytest.mark.parametrize("rows", [40, 150])
def test_a_copy_that_was_killed_goes_on_where_it_stopped(
    source: Path, target: str, kb_run: Run, monkeypatch: Here, rows: int
) -> None:
    before = everything(monkeypatch)
    killed = subprocess.run(
        [sys.executable, "-c", DIES, str(source), target, str(rows)],
        capture_output=True,
        timeout=600,
    )
    assert killed.returncode == 9, killed.stderr
    # Nobody takes half of it for the whole.
    opened = kb_run("list", KB_DATABASE_URL=target)
    assert (opened.returncode, "not all of it is here" in opened.stderr) == (3, True), opened.stderr

    done = kb_run("migrate-store", str(source), target, "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resumed"] is True
    use(monkeypatch, target)
    assert_same(everything(monkeypatch), before)
    with connect() as engine:
        assert doctor(engine)["status"] == "ok"


def test_a_source_that_changed_since_is_not_mixed_with_what_it_was(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", DIES, str(source), target, "20"], capture_output=True, timeout=600
    )
    assert killed.returncode == 9, killed.stderr
    with connect() as engine:
        engine.add_note("one more")

    done = kb_run("migrate-store", str(source), target)

    assert (done.returncode, "before it was changed" in done.stderr) == (1, True), done.stderr


def test_a_new_database_beside_the_files_of_another_names_migrate_store(
    source: Path, target: str, kb_run: Run
) -> None:
    for command in (["list"], ["doctor", "--repair"]):
        refused = kb_run(*command, KB_DATABASE_URL=target)

        assert refused.returncode == 3, command
        assert "6 stored files of its SQLite database" in refused.stdout + refused.stderr
        assert "kb migrate-store" in refused.stdout + refused.stderr
    assert not (source.parent / "lost-files").exists()


def test_a_database_with_documents_is_refused_untouched(
    source: Path, target: str, kb_run: Run, tmp_path: Path, monkeypatch: Here
) -> None:
    with monkeypatch.context() as patched:
        use(patched, target)
        patched.setenv("KB_DATA_DIR", str(tmp_path / "other"))
        with connect() as engine:
            engine.add_note("mine")
            before = engine.list_documents()

    done = kb_run("migrate-store", str(source), target)

    assert (done.returncode, "not empty" in done.stderr) == (1, True), done.stderr
    use(monkeypatch, target)
    with connect() as engine:
        assert engine.list_documents() == before


def test_somebody_elses_database_gets_no_tables(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    with monkeypatch.context() as patched:
        use(patched, target)
        stored("CREATE TABLE invoices (id INTEGER)")
        stored("INSERT INTO invoices VALUES (1)")

    done = kb_run("migrate-store", str(source), target)

    assert (done.returncode, "invoices" in done.stderr) == (1, True), done.stderr
    assert tables_of(target, monkeypatch) == ["invoices"]


def test_a_source_that_this_program_does_not_know_is_refused(
    kb_home: Path, target: str, kb_run: Run, tmp_path: Path, monkeypatch: Here
) -> None:
    monkeypatch.delenv("KB_DATABASE_URL")
    with connect() as engine:
        engine.add_note("zebras")
    changes = {
        "UPDATE kb_migrations SET version = 99 WHERE plugin = 'host' AND version = 1": "newer version",
        f"DELETE FROM kb_migrations WHERE plugin = 'host' AND version = {HOST_MIGRATIONS[-1][0]}": "older version",
        "INSERT INTO kb_migrations VALUES ('garden', 1, 'plants', '2026-01-01')": "garden",
        "DROP TABLE kb_migrations": "no database of a knowledge base",
        "ALTER TABLE documents ADD COLUMN colour TEXT": "the columns colour of documents",
    }

    for number, (change, told) in enumerate(changes.items()):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(kb_home, copy)
        with closing(open_database(copy)) as connection:
            connection.execute(change)
        done = kb_run("migrate-store", str(copy / "kb.sqlite"), target)
        assert (done.returncode, told in done.stderr) == (3, True), done.stderr
        assert "Traceback" not in done.stderr


def test_what_cannot_be_a_source_or_a_target_is_told_without_the_password(
    kb_home: Path, target: str, kb_run: Run, tmp_path: Path, monkeypatch: Here
) -> None:
    monkeypatch.delenv("KB_DATABASE_URL")
    with connect() as engine:
        engine.add_note("zebras")
    source = str(kb_home / "kb.sqlite")
    rubbish = tmp_path / "rubbish.sqlite"
    rubbish.write_bytes(b"rubbish" * 1000)
    nobody = "postgresql://kb:s3cret@127.0.0.1:1/kb"

    asked = {
        (str(tmp_path / "nothing.sqlite"), target): (2, "there is no file"),
        (str(rubbish), target): (3, "damaged"),
        (source, "mysql://kb:s3cret@host/kb"): (2, "postgresql://"),
        (source, nobody): (3, "cannot be reached"),
        (source,): (2, "KB_DATABASE_URL"),
    }

    for arguments, (code, told) in asked.items():
        done = kb_run("migrate-store", *arguments)
        assert (done.returncode, told in done.stderr) == (code, True), done.stderr
        assert "s3cret" not in done.stderr + done.stdout
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "nothing.sqlite").exists()


def test_a_page_that_is_damaged_is_noticed_before_the_target_is_touched(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    with closing(open_database(source.parent)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'documents'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with source.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"rubbish" * (size // 7))

    done = kb_run("migrate-store", str(source), target)

    assert (done.returncode, "damaged" in done.stderr) == (3, True), done.stderr
    assert tables_of(target, monkeypatch) == []


def test_a_source_that_somebody_writes_is_not_copied(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    with closing(open_database(source.parent)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = kb_run("migrate-store", str(source), target, KB_BUSY_TIMEOUT="0.1")
        connection.execute("ROLLBACK")

    assert (done.returncode, "another process is writing" in done.stderr) == (3, True), done.stderr
    assert tables_of(target, monkeypatch) == []


def test_nobody_writes_the_source_while_it_is_copied(source: Path, target: str) -> None:
    bootstrap = read_bootstrap()

    def write(_: int, __: int | None) -> None:
        with (
            closing(dbapi2.connect(str(source), timeout=0)) as connection,
            pytest.raises(dbapi2.OperationalError, match="locked"),
        ):
            connection.execute("DELETE FROM documents")

    assert move_store(bootstrap, Plugins(bootstrap), source, target, write)["documents"] == 11


def test_without_the_extension_it_says_how_to_create_it_and_then_goes_on(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    with monkeypatch.context() as patched:
        use(patched, target)
        stored("CREATE ROLE kb_nobody LOGIN PASSWORD 'kb'")
        stored(f"ALTER DATABASE {urlsplit(target).path[1:]} OWNER TO kb_nobody")
    where = urlsplit(target)
    address = f"kb_nobody:kb@{where.netloc.rpartition('@')[2]}"
    theirs = urlunsplit(where._replace(netloc=address))
    try:
        refused = kb_run("migrate-store", str(source), theirs)
        with monkeypatch.context() as patched:
            use(patched, target)
            stored("CREATE EXTENSION vector")
        done = kb_run("migrate-store", str(source), theirs, "--json")
    finally:
        with monkeypatch.context() as patched:
            use(patched, target)
            stored("REASSIGN OWNED BY kb_nobody TO CURRENT_USER")
            stored("DROP ROLE kb_nobody")

    assert (refused.returncode, "CREATE EXTENSION vector" in refused.stderr) == (3, True), (
        refused.stderr
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["vectors"] == 11


def test_a_source_that_an_engine_serves_is_refused(
    kb_home: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    monkeypatch.delenv("KB_DATABASE_URL")
    server = start_server()
    try:
        done = kb_run("migrate-store", str(kb_home / "kb.sqlite"), target)
    finally:
        stop_server(server)

    assert (done.returncode, "an engine serves" in done.stderr) == (1, True), done.stderr


def test_a_source_whose_engine_is_slow_to_answer_is_refused_as_well(
    kb_home: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    monkeypatch.delenv("KB_DATABASE_URL")
    server = start_server()
    # It goes on after longer than other commands wait for an engine.
    number = json.loads((kb_home / ADDRESS_FILE).read_text(encoding="utf-8"))["pid"]
    os.kill(number, signal.SIGSTOP)
    awake = threading.Timer(3, os.kill, [number, signal.SIGCONT])
    awake.start()
    try:
        done = kb_run("migrate-store", str(kb_home / "kb.sqlite"), target)
    finally:
        awake.join()
        stop_server(server)

    assert (done.returncode, "an engine serves" in done.stderr) == (1, True), done.stderr


def test_files_that_are_elsewhere_are_told_and_the_address_may_come_from_the_setting(
    source: Path, target: str, kb_run: Run, tmp_path: Path
) -> None:
    moved = tmp_path / "old"
    shutil.copytree(source.parent, moved)
    shutil.rmtree(source.parent)

    done = kb_run("migrate-store", str(moved / "kb.sqlite"), KB_DATABASE_URL=target)

    assert done.returncode == 0, done.stderr
    assert "11 documents" in done.stdout
    assert f"copy them from {moved / 'files'}" in done.stderr
    assert (urlsplit(target).password or "no password") not in done.stdout + done.stderr


def test_a_table_without_a_key_arrives_with_the_values_of_its_types(
    kb_home: Path, kb_plugin: Install, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    monkeypatch.delenv("KB_DATABASE_URL")
    kb_plugin("diary", WITHOUT_KEY)
    rows = [
        ("a", "2026-01-02 03:04:05.000006", '{"b": [1, null]}', 12.5, 1),
        ("a", None, "null", None, 0),
        (None,) * 5,
    ] * 3
    with connect() as engine:
        engine.add_note("zebras")
    with closing(dbapi2.connect(str(kb_home / "kb.sqlite"))) as connection, connection:
        connection.executemany("INSERT INTO diary VALUES (?, ?, ?, ?, ?)", rows)

    done = kb_run("migrate-store", str(kb_home / "kb.sqlite"), target, "--json")

    assert json.loads(done.stdout)["tables"]["diary"]["rows"] == 9, done.stderr
    use(monkeypatch, target)
    shown = "SELECT DISTINCT word, at::text, extra::text, price::text, seen FROM diary ORDER BY word, at"
    first = ("a", "2026-01-02 03:04:05.000006", '{"b": [1, null]}', "12.50", True)
    assert stored(shown) == [first, ("a", None, "null", None, False), (None,) * 5]


def test_a_copy_that_is_not_the_same_is_not_called_finished(
    source: Path, target: str, kb_run: Run, monkeypatch: Here
) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", DIES, str(source), target, "150"], capture_output=True, timeout=600
    )
    assert killed.returncode == 9, killed.stderr
    with monkeypatch.context() as patched:
        use(patched, target)
        stored("UPDATE documents SET title = 'somebody was here' WHERE id = 1")

    done = kb_run("migrate-store", str(source), target)

    assert (done.returncode, "the copy of documents is not the same" in done.stderr) == (3, True), (
        done.stderr
    )
    assert "not all of it is here" in kb_run("list", KB_DATABASE_URL=target).stderr
