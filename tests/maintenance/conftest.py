"""What these tests share: a knowledge base with something in it, ways to damage it, and a second embedder."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine
from kb_testing.fixtures import Install, stored

dbapi2: Any = importlib.import_module("pysqlite3.dbapi2")

LETTERS = """
import math
import os
import struct
import time
from kb_framework import api, hookimpl

@hookimpl
def kb_embedders():
    return [api.Embedder("letters", __name__ + ":Letters")]

class Letters:
    "Counts letters: enough to tell words apart, and another space than the default's."
    model = "letters-26"
    dimensions = 26

    def encode(self, texts):
        time.sleep(float(os.environ.get("LETTERS_SECONDS", "0")))
        found = []
        for text in texts:
            counts = [float(text.lower().count(chr(97 + i))) for i in range(26)]
            length = math.hypot(*counts) or 1.0
            found.append(struct.pack("<26f", *(count / length for count in counts)))
        return found
"""


@pytest.fixture
def letters(kb_plugin: Install) -> None:
    """A tiny embedder named `letters`, installed beside the default."""
    kb_plugin("letters", LETTERS, module="letters_embedder")


def open_database(home: Path) -> Any:
    connection = dbapi2.connect(str(home / "kb.sqlite"), isolation_level=None, timeout=600)
    connection.enable_load_extension(True)
    connection.load_extension(
        str(Path(importlib.import_module("sqlite_vec").__file__).with_name("vec0"))
    )
    return connection


@pytest.fixture
def sql(kb_home: Path) -> Callable[..., list[tuple]]:
    """Speaks to the database behind the program's back."""

    def run(statement: str, *values: Any) -> list[tuple]:
        if "KB_DATABASE_URL" in os.environ:
            return stored(statement, *values)
        with closing(open_database(kb_home)) as connection:
            return connection.execute(statement, values).fetchall()

    return run


def fill(engine: Engine, count: int = 6) -> list[int]:
    """Files and notes with tags; their ids."""
    ids = []
    for number in range(count):
        text = f"# Topic {number}\n\nAbout zebras and rotation number {number}.\n\n## More\n\nWords of chapter {number}.\n"
        if number % 2:
            added = engine.add_note(text, tags=[f"t{number}", "note"], metadata={"n": number})
        else:
            added = engine.add_file(
                f"f{number}.md", text.encode(), tags=["file"], path=f"folder/f{number}.md"
            )
        ids.append(added["document"]["id"])
    return ids


def everything(engine: Engine) -> dict[str, Any]:
    """What an outsider can see, but for the ids of documents and jobs, which are of one database only."""
    documents = engine.list_documents(per_page=100)["data"]
    shown = []
    for document in documents:
        number = document.pop("id")
        shown.append(
            {
                **document,
                "chunks": engine.get_document_chunks(number)["data"],
                "file": engine.get_file(number),
            }
        )
    jobs = engine.list_jobs(per_page=100)["data"]
    hits = [
        engine.search("zebras rotation chapter", mode=mode, k=20)["hits"]
        for mode in ("lexical", "vector")
    ]
    return {
        "documents": sorted(shown, key=lambda item: (item["title"], item["created_at"])),
        "jobs": sorted(
            (job | {"id": 0, "document_id": 0} for job in jobs), key=lambda job: job["uuid"]
        ),
        "hits": [
            sorted((round(hit["score"], 4), hit["chunk_id"]) for hit in found) for found in hits
        ],
    }


def fragment(engine: Engine, sql: Callable[..., list[tuple]]) -> None:
    """Notes whose vectors lie far apart, with nothing but holes between them."""
    for number in range(5):
        engine.add_note(f"zebras of chapter {number}")
        vector = sql("SELECT organization_id, embedding FROM chunks_vec_1 LIMIT 1")[0]
        start = 10_000 * (number + 1)
        many = f"WITH RECURSIVE n(i) AS (SELECT {start} UNION ALL SELECT i + 1 FROM n WHERE i < {start + 1100})"
        sql(
            f"INSERT INTO chunks_vec_1(rowid, organization_id, embedding) {many} SELECT i, ?, ? FROM n",
            *vector,
        )
    sql("DELETE FROM chunks_vec_1 WHERE rowid >= 10000")


def doctor(engine: Engine) -> dict[str, Any]:
    report = engine.get("/doctor")
    return {
        "status": report["status"],
        "problems": [c["message"] for c in report["checks"] if c["state"] != "ok"],
    }


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}
