"""Repair a damaged SQLite file as far as its content is derived: indexes, full text and vectors."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")

# Virtual tables with their parts; the repair that follows fills them from the chunks.
_SEARCH = re.compile(
    r"(chunks_(?:fts|vec)_\d++\w*?)(?:_(?:data|idx|content|docsize|config|chunks|rowids|info|vector_chunks\d+))?"
)


class _Part(NamedTuple):
    kind: str
    name: str
    table: str
    page: int
    sql: str | None


def mend(connection: Any, check: Callable[[], list[str]]) -> list[str]:
    """Rebuild damaged indexes, remove damaged search tables; a sentence for each.

    The connection is one of the driver, in autocommit. `check` returns the problems that the file has.
    """
    if not _problems(check):
        return []
    done: list[str] = []
    damaged = _damaged(connection)
    searched = {found[1] for part in damaged if (found := _SEARCH.fullmatch(part.table))}
    indexes = [
        part
        for part in damaged
        if part.kind == "index" and not _SEARCH.fullmatch(part.table) and part.sql
    ]
    if searched or indexes:
        _forget(connection, searched, indexes)
        done += [
            f"removed the damaged search table {name}, to build it again"
            for name in sorted(searched)
        ]
        done += [f"rebuilt the damaged index {part.name}" for part in indexes]
        _try(connection, "VACUUM")
    # Entries that do not agree with their table are found by the check alone.
    if _problems(check) and _try(connection, "REINDEX") and not _problems(check):
        done.append("rebuilt the indexes of the database")
    return done


def _problems(check: Callable[[], list[str]]) -> list[str]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - what cannot be checked is damaged
        return [str(error)]


def _damaged(connection: Any) -> list[_Part]:
    """Tables that cannot be read to their end, and indexes that the check of their table names."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE rootpage > 0"
    ).fetchall()
    parts = [_Part(*row) for row in rows]
    pages, names = set(), set()
    for part in parts:
        if part.kind == "table":
            try:
                connection.execute(f'SELECT count(*) FROM "{part.name}" NOT INDEXED').fetchall()
                found = " ".join(
                    row[0] for row in connection.execute(f'PRAGMA quick_check("{part.name}")')
                )
            except dbapi2.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in (
                    dbapi2.SQLITE_CORRUPT,
                    dbapi2.SQLITE_NOTADB,
                ):
                    names.add(part.name)
                continue
            pages |= {int(page) for page in re.findall(r"Tree (\d+)", found)}
            names |= set(re.findall(r"index (\w+)", found))
    return [part for part in parts if part.page in pages or part.name in names]


def _forget(connection: Any, searched: set[str], indexes: list[_Part]) -> None:
    """Take damaged parts out of the schema, since dropping them would read them, and make the indexes again."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("PRAGMA writable_schema=ON")
        for name in searched:
            connection.execute(
                "DELETE FROM sqlite_schema WHERE tbl_name = ? OR tbl_name GLOB ?",
                (name, f"{name}_*"),
            )
        for part in indexes:
            connection.execute(
                "DELETE FROM sqlite_schema WHERE type = 'index' AND name = ?", (part.name,)
            )
        connection.execute("PRAGMA writable_schema=RESET")
        for part in indexes:
            connection.execute(part.sql)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _try(connection: Any, statement: str) -> bool:
    try:
        connection.execute(statement).fetchall()
    except dbapi2.DatabaseError:
        return False
    return True
