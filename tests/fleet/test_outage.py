"""A server that is restarted, or lets two transactions wait for each other: what is safe to do again is done again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from kb_documents.models import DocumentIn, DocumentPatch, NoteIn, TagsIn
from kb_knowledge.mutations import Deactivate
from kb_postgres.engine import PostgresEngine
from sqlalchemy import event, exc

from kb_framework.api import DEFAULT_ORGANIZATION, Actor
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine, connect
from kb_framework.errors import Busy, EngineError, StoreUnusable, Unconfirmed
from kb_framework.storage.store import Store, Tx
from kb_testing.fixtures import Install
from kb_testing.postgres import postgres_folder, start_postgres

pytestmark = pytest.mark.postgres_only

OTHER = "00000000-0000-4000-8000-0000000000aa"
_ENDED = "SELECT pg_terminate_backend(pg_backend_pid())"


class Server:
    """A server of PostgreSQL that these tests may stop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "data"
        self._server = start_postgres(self._folder)
        self.url: str = self._server.get_uri()
        self.stop: Callable[[], None] = self._server.stop
        self.close: Callable[[], None] = self._server.cleanup

    def start(self) -> None:
        start_postgres(self._folder)

    def restart(self) -> None:
        self.stop()
        self.start()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_folder() as folder:
        made = Server(folder)
        yield made
        made.close()


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS beads")
        connection.execute("CREATE TABLE beads (id INTEGER PRIMARY KEY, colour TEXT NOT NULL)")
    made = Store(PostgresEngine(server.url, 20, 30, 2))
    yield made
    made.close()


def string(tx: Tx, number: int) -> int:
    tx.execute(sa.text(f"INSERT INTO beads VALUES ({number}, 'red')"))
    return number


def beads(store: Store) -> int:
    return store.ask(
        DEFAULT_ORGANIZATION, lambda tx: tx.scalar(sa.text("SELECT count(*) FROM beads"))
    )


def once(act: Callable[[], Any]) -> Callable[[], None]:
    """Does it at the first time, and nothing after that."""
    left = [act]
    return lambda: left.pop()() if left else None


def test_connections_of_before_a_restart_are_made_anew(store: Store, server: Server) -> None:
    with store.write(DEFAULT_ORGANIZATION) as tx:
        string(tx, 1)
    server.restart()
    with store.write(DEFAULT_ORGANIZATION) as tx:
        string(tx, 2)
    assert beads(store) == 2


def test_who_comes_while_the_server_is_away_waits_until_it_is_back(
    store: Store, server: Server
) -> None:
    assert beads(store) == 0
    server.stop()
    refused = threading.Event()
    for engine in (store.engine.reader, store.engine.writer):
        event.listen(engine, "handle_error", lambda _: refused.set())
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(store.run, DEFAULT_ORGANIZATION, lambda tx: string(tx, 1))
        reading = pool.submit(beads, store)
        assert refused.wait(600)
        server.start()
        assert writing.result(600) == 1
        assert reading.result(600) in (0, 1)
    assert beads(store) == 1


def test_a_server_that_stays_away_is_told_and_the_next_do_not_wait(server: Server) -> None:
    store = Store(PostgresEngine(server.url, 0.3, 30, 2))
    try:
        with store.read() as tx:
            tx.scalar(sa.text("SELECT 1"))
        server.stop()
        for _ in range(2):
            with pytest.raises(StoreUnusable, match="cannot be reached") as caught, store.read():
                pass
            assert "try again" in (caught.value.hint or "")
        attempts: list[Any] = []
        event.listen(store.engine.reader, "handle_error", attempts.append)
        with pytest.raises(StoreUnusable), store.read():
            pass
        assert len(attempts) == 1
    finally:
        server.start()
        store.close()


def test_work_that_a_restart_broke_off_is_done_again_from_the_beginning(
    store: Store, server: Server
) -> None:
    restart = once(server.restart)

    def work(tx: Tx) -> int:
        string(tx, 1)
        restart()
        return string(tx, 2)

    assert store.run(DEFAULT_ORGANIZATION, work) == 2
    assert beads(store) == 2


def test_a_transaction_that_cannot_be_repeated_says_that_nothing_was_changed(
    store: Store, server: Server
) -> None:
    with (
        pytest.raises(Busy, match="nothing was changed") as caught,
        store.write(DEFAULT_ORGANIZATION) as tx,
    ):
        string(tx, 1)
        server.restart()
        string(tx, 2)
    assert caught.value.hint == "try again"
    assert beads(store) == 0


def test_who_catches_the_loss_and_goes_on_is_told_of_it_all_the_same(store: Store) -> None:
    asked: list[Tx] = []

    def question(tx: Tx) -> int:
        asked.append(tx)
        if len(asked) == 1:
            with pytest.raises(exc.OperationalError):
                tx.scalar(sa.text(_ENDED))
        return tx.scalar(sa.text("SELECT 7"))

    assert store.ask(DEFAULT_ORGANIZATION, question) == 7
    assert len(asked) == 2
    with pytest.raises(Busy, match="nothing was changed"), store.write(DEFAULT_ORGANIZATION) as tx:
        with pytest.raises(exc.OperationalError):
            tx.scalar(sa.text(_ENDED))
        string(tx, 1)


def test_of_a_commit_without_an_answer_nobody_says_that_it_was_not_made_and_nobody_repeats_it(
    store: Store,
) -> None:
    worked: list[int] = []

    def work(tx: Tx) -> None:
        worked.append(string(tx, len(worked)))
        # The commit is under way when the connection ends.
        tx.connection.exec_driver_sql(
            "CREATE OR REPLACE FUNCTION end_me() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        tx.connection.exec_driver_sql(
            "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON beads DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION end_me()"
        )
        string(tx, 10)

    with pytest.raises(Unconfirmed, match="may have been made, or not") as caught:
        store.run(DEFAULT_ORGANIZATION, work)
    assert "look whether it was made" in (caught.value.hint or "")
    assert worked == [0]


def test_of_two_that_wait_for_each_other_one_is_done_again(store: Store, server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("INSERT INTO beads VALUES (1, 'red'), (2, 'red')")
    both = threading.Barrier(2)
    runs: list[str] = []

    def paint(first: int, second: int, colour: str) -> Callable[[Tx], None]:
        meet = once(lambda: both.wait(600))

        def work(tx: Tx) -> None:
            runs.append(colour)
            tx.execute(sa.text(f"UPDATE beads SET colour = '{colour}' WHERE id = {first}"))
            meet()
            tx.execute(sa.text(f"UPDATE beads SET colour = '{colour}' WHERE id = {second}"))

        return work

    with ThreadPoolExecutor() as pool:
        there = pool.submit(store.run, DEFAULT_ORGANIZATION, paint(1, 2, "green"))
        back = pool.submit(store.run, OTHER, paint(2, 1, "blue"))
        there.result(600)
        back.result(600)
    assert len(runs) == 3
    with store.read() as tx:
        assert len(set(tx.connection.scalars(sa.text("SELECT colour FROM beads")))) == 1


def test_a_serialization_failure_is_done_again(store: Store, server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("INSERT INTO beads VALUES (1, 'red')")

    def interfere() -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("UPDATE beads SET colour = 'green'")

    meddle = once(interfere)

    def work(tx: Tx) -> None:
        tx.scalar(sa.text("SELECT count(*) FROM beads"))
        meddle()
        tx.execute(sa.text("UPDATE beads SET colour = colour || ' and blue'"))

    event.listen(store.engine.writer, "begin", _serializable)
    store.run(DEFAULT_ORGANIZATION, work)
    with store.read() as tx:
        assert tx.scalar(sa.text("SELECT colour FROM beads")) == "green and blue"


def _serializable(connection: sa.Connection) -> None:
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")


def _used(server: Server) -> str:
    return server.url.replace("/postgres?", "/used?")


@pytest.fixture
def used(kb_home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS used WITH (FORCE)")
        connection.execute("CREATE DATABASE used TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    monkeypatch.setenv("KB_EMBEDDER", "none")
    monkeypatch.setenv("KB_BUSY_TIMEOUT", "60")
    monkeypatch.setenv("KB_DATABASE_URL", _used(server))


@pytest.fixture
def engine(used: None) -> Iterator[Engine]:
    with connect() as made:
        yield made


@pytest.fixture
def kb(used: None) -> Iterator[KB]:
    made = open_kb()
    yield made
    made.close()


def test_what_was_committed_is_told_though_the_connection_that_reads_it_back_is_lost(
    kb: KB,
) -> None:
    committed: list[sa.Connection] = []

    def end(connection: sa.Connection, *_: Any) -> None:
        if committed:
            committed.clear()
            number = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
            with kb.store.engine.writer.connect() as other:
                other.exec_driver_sql(f"SELECT pg_terminate_backend({number}, 10000)")

    event.listen(kb.store.engine.writer, "commit", committed.append)
    event.listen(kb.store.engine.reader, "before_cursor_execute", end)
    documents, knowledge, actor = kb.services["documents"], kb.services["knowledge"], Actor()
    number = kb.services["adding"].add_note(NoteIn(text="a note on zebras"), actor).document.id
    assert not committed
    assert documents.set_tags(TagsIn(document_id=number, tags=["striped"]), actor).tags == [
        "striped"
    ]
    assert (
        documents.update(DocumentPatch(document_id=number, title="Zebras"), actor).title == "Zebras"
    )
    (chunk,) = documents.chunks(DocumentIn(document_id=number), actor).data
    assert knowledge.change(chunk.id, Deactivate(), actor).changed
    assert not committed
    assert documents.get(DocumentIn(document_id=number), actor).tags == ["striped"]


CUT_OFF = """
import sqlalchemy as sa
from kb_framework import hookimpl

ended = []

@hookimpl
def kb_narrow_selection(selection, tx):
    if not ended:
        ended.append(True)
        tx.connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
"""


def test_a_connection_that_is_lost_in_a_hook_is_no_fault_of_the_plugin(
    used: None, kb_plugin: Install
) -> None:
    kb_plugin("cut_off", CUT_OFF, module="cut_off_hooks")
    with connect() as engine:
        with pytest.raises(EngineError, match="connection to the database was lost") as told:
            engine.list_documents()
        health = engine.get("/health")

    assert told.value.http_status == 503
    assert (health["status"], health["plugins"]["errors"]) == ("ok", {})


def test_an_engine_in_use_loses_nothing_when_its_server_is_restarted_and_answers_go_on(
    engine: Engine, server: Server
) -> None:
    done, stop = threading.Event(), threading.Event()
    added: list[int] = []
    told: list[str] = []

    def keep_on(act: Callable[[], None]) -> None:
        while not stop.is_set():
            try:
                act()
            except EngineError as error:
                told.append(str(error))

    def write() -> None:
        added.append(engine.add_note("a note on zebras")["document"]["id"])
        done.set()

    with ThreadPoolExecutor() as pool:
        jobs = [
            pool.submit(keep_on, act)
            for act in (write, lambda: engine.search("zebras", mode="lexical"))
        ]
        assert done.wait(600)
        server.restart()
        done.clear()
        again = done.wait(600)
        stop.set()
        for job in jobs:
            job.result(600)
    assert again
    with psycopg.connect(_used(server)) as connection:
        kept = {row[0] for row in connection.execute("SELECT id FROM documents")}
    assert set(added) <= kept
    # All is done again, but for a commit that was under way: nobody knows of it.
    assert len(told) <= 1
    assert all("may have been made, or not" in reason for reason in told)
    assert len(kept) <= len(added) + len(told)
