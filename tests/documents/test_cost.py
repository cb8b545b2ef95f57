"""What adding a document costs must not grow with what is there: judged by the engine's own plans, not by a clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kb_documents.models import DocumentIn
from kb_knowledge.mutations import Reclassify
from sqlalchemy import event

from kb_framework.api import Actor
from kb_framework.api.models import Body
from kb_framework.app import KB, open_kb

# Steps of a plan that look through all the documents or chunks of an organization, or of everybody.
WALK = re.compile(
    r"SCAN (chunks|documents|sources)\b|SEARCH (chunks|documents|sources) .*\(organization_id=\?\)$"
)


@pytest.fixture
def kb(kb_home: Path) -> Iterator[KB]:
    opened = open_kb()
    yield opened
    opened.close()


def add(kb: KB, name: str, text: str) -> int:
    fields = {"source": f"/home/{name}", "path": name}
    sent = [(name, text.encode(), fields)]
    (added,) = kb.services["adding"].add_files(Body(), Actor(), sent).results
    assert added.response, added.error
    return added.response.document.id


def walks(kb: KB, seen: list[tuple[str, Any]]) -> list[str]:
    """Statements that look through more than the document they are about."""
    found = []
    with kb.store.read() as tx:
        for statement, values in seen:
            if statement.lstrip().upper().startswith(("SELECT", "DELETE", "UPDATE")):
                given = values[0] if isinstance(values, list) else values
                plan = tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
                found += [f"{row[3]}: {statement}" for row in plan if WALK.match(row[3])]
    return found


@pytest.mark.sqlite_only("reads SQLite's plans, which do not depend on how much there is")
def test_adding_a_document_looks_through_no_other_documents_chunks(kb: KB) -> None:
    old = DocumentIn(document_id=add(kb, "old.md", "curated text"))
    chunk = kb.services["documents"].chunks(old, Actor()).data[0]
    kb.services["knowledge"].change(chunk.id, Reclassify(chunk_kind="example"), Actor())
    add(kb, "old.md", "another text, so that curation waits for its own to come back")
    seen: list[tuple[str, Any]] = []
    for engine in (kb.store.engine.reader, kb.store.engine.writer):
        event.listen(engine, "before_cursor_execute", lambda *a: seen.append((a[2], a[3])))

    add(kb, "new.md", "# New\n\na text of its own")

    assert walks(kb, seen) == []


def statements_per_document(kb: KB) -> float:
    def count(files: int) -> int:
        seen: list[str] = []
        listener = lambda *a: seen.append(a[2])  # noqa: E731 - it is taken away again
        event.listen(kb.store.engine.writer, "before_cursor_execute", listener)
        several = [
            (f"{i}.md", f"# {files} {i}\n\ntext {i}".encode(), {"source": f"/{files}/{i}.md"})
            for i in range(files)
        ]
        added = kb.services["adding"].add_files(Body(), Actor(), several)
        assert all(item.response for item in added.results)
        event.remove(kb.store.engine.writer, "before_cursor_execute", listener)
        return len(seen)

    few = count(1)
    return (count(8) - few) / 7


def test_documents_are_written_by_statements_for_all_of_them(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "legalhold")
    kb = open_kb()
    try:
        assert not kb.mutation.guards_additions
        assert statements_per_document(kb) <= 6
    finally:
        kb.close()


def test_a_guard_costs_each_document_a_bounded_number_of_statements(kb: KB) -> None:
    """With a guard, each document is written in a savepoint of its own, with its chunks."""
    assert statements_per_document(kb) <= 17
