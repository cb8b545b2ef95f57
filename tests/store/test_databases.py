"""Databases of earlier versions open, are upgraded in place, and keep every row."""

from __future__ import annotations

import importlib
import tarfile
from collections.abc import Set
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import connect

DATABASES = sorted((Path(__file__).parent / "databases").glob("*.tar.xz"))
# Rebuilt from other tables, or used up when an engine starts.
DERIVED = (
    "chunks_fts",
    "chunks_vec",
    "side_",
    "full_texts",
    "sqlite_",
    "file_removals",
    "kb_migrations",
)
# Columns that a migration drops on purpose: a reading took the place of the time.
DROPPED = {"document_sources": {"seen_at"}}

pytestmark = pytest.mark.sqlite_only("archives hold SQLite files")


def rows_of(database: Path) -> dict[str, list[dict[str, Any]]]:
    dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")
    with closing(dbapi2.connect(str(database))) as connection:
        connection.row_factory = dbapi2.Row
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        kept = [name for name in tables if not name.startswith(DERIVED)]
        return {
            name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')]
            for name in kept
        }


def _only(columns: Set[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{column: row[column] for column in columns} for row in rows]


@pytest.fixture(params=DATABASES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def old_rows(request: pytest.FixtureRequest, kb_home: Path) -> dict[str, list[dict[str, Any]]]:
    with tarfile.open(request.param) as archive:
        archive.extractall(kb_home, filter="data")
    return rows_of(kb_home / "kb.sqlite")


def test_an_old_database_keeps_every_row(
    old_rows: dict[str, list[dict[str, Any]]], kb_home: Path
) -> None:
    assert [name for name, rows in old_rows.items() if not rows] == []

    with connect() as engine:
        engine.list_documents()

    upgraded = rows_of(kb_home / "kb.sqlite")
    for name, rows in old_rows.items():
        columns = rows[0].keys() - DROPPED.get(name, set())
        assert _only(columns, upgraded[name]) == _only(columns, rows), name


def test_an_old_database_is_searched_and_changed(old_rows: dict[str, list[dict[str, Any]]]) -> None:
    inactive = {row["id"] for row in old_rows["chunks"] if not row["is_active"]}
    with connect() as engine:
        found = engine.search("turbine blade inspected", k=100)["hits"]
        assert len(found) > 20 and not inactive & {hit["chunk_id"] for hit in found}
        assert engine.search("열쇠는 서른 날마다")["hits"][0]["title"] == "열쇠"
        assert engine.bulk_tags(tags=["hangar:3"], add=["upgraded"])["succeeded"] > 0
        assert engine.get("/doctor")["status"] != "error"
