"""A PostgreSQL server for a benchmark, given or started, databases on it, and the processor time that they take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

START = "start"


@contextmanager
def server(given: str) -> Iterator[str]:
    """The address of a server: what is given, or, where that is `start`, one that is started and removed in the end."""
    if given != START:
        yield given
        return
    from kb_testing.postgres import postgres_folder, start_postgres

    with postgres_folder() as folder:
        started = start_postgres(folder / "data")
        try:
            yield started.get_uri()
        finally:
            started.cleanup()


def database(server: str, name: str) -> tuple[str, bool]:
    """The address of the database of that name, and whether it was made now."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        there = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", (name,)
        ).fetchone()
        if not there:
            connection.execute(
                f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode()
            )
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}")), not there


def copied(server: str, name: str, copy: str) -> str:
    """The address of a copy of the database `name`, in place of what had that name before."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{copy}" WITH (FORCE)'.encode())
        connection.execute(
            f'CREATE DATABASE "{copy}" TEMPLATE "{name}" STRATEGY file_copy'.encode()
        )
    return urlunsplit(urlsplit(server)._replace(path=f"/{copy}"))


def clock_of(process: int) -> Callable[[], float]:
    """Seconds of processor time that another process has used."""

    def read() -> float:
        fields = (
            Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return read


def server_clock(url: str) -> Callable[[], float]:
    """Seconds of processor time of the processes that serve a database on this machine, but for those that end meanwhile."""
    import psycopg

    used: dict[int, float] = {}

    def read() -> float:
        with psycopg.connect(url) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            for (process,) in connection.execute(query):
                if Path(f"/proc/{process}/stat").exists():
                    used[process] = clock_of(process)()
        return sum(used.values())

    return read
