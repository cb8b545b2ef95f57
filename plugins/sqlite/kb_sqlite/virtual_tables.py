"""Dropping virtual tables of FTS5 and vec0, also damaged ones."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from sqlalchemy import exc

log = logging.getLogger("kb.store")

_PARTS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?"


def drop(connection: sa.Connection, name: str) -> None:
    """Drop a virtual table, or take it apart where it is too damaged for that."""
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
        return
    except exc.DatabaseError as error:
        log.warning("%s is too damaged to be dropped as a whole: %s", name, error.orig)
    # A virtual table that has lost one of its parts cannot be opened, so it cannot be dropped either.
    for part in list(connection.exec_driver_sql(_PARTS, (f"{name}_*",)).scalars()):
        if part.removeprefix(name)[1:2].isalpha():
            connection.exec_driver_sql(f"DROP TABLE {part}")
    connection.exec_driver_sql("PRAGMA writable_schema=ON")
    connection.exec_driver_sql("DELETE FROM sqlite_schema WHERE name = ?", (name,))
    connection.exec_driver_sql("PRAGMA writable_schema=RESET")
