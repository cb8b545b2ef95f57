"""Several engines and workers on one PostgreSQL and one storage of files, each with a data folder of its own."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.plugins import Plugins
from kb_framework.remote import HttpTransport
from kb_testing.fixtures import RunningServer, kb_line, start_server, stop_server


@pytest.fixture
def database(kb_postgres: str) -> Iterator[str]:
    """The address of a new, empty database."""
    name = f"kb_fleet_{uuid.uuid4().hex}"
    with psycopg.connect(kb_postgres, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode()
        )
        yield urlunsplit(urlsplit(kb_postgres)._replace(path=f"/{name}"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


class Fleet:
    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.environment = {
            "KB_DATABASE_URL": database,
            "KB_FILES_URL": f"file://{folder}/shared",
            "KB_EMBEDDER": "none",
        }
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
        process = subprocess.Popen(
            kb_line("worker"),
            env={**os.environ, **self.at(name, **more)},
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.workers.append(process)
        return process

    def close(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(timeout=600)
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
