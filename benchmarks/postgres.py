"""A database for a benchmark on a PostgreSQL server that is given by its address."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def database(server: str, name: str) -> tuple[str, bool]:
    """The address of the database of that name, and whether it was made now."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if not there:
            connection.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'".encode())
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}")), not there
