"""Commands take a document by its id, path or title."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run


@pytest.fixture
def engine(kb_engine: Engine) -> Engine:
    kb_engine.add_file("keys.md", b"# Access keys", path="notes/ops/keys.md")
    kb_engine.add_file("keys.md", b"# Other keys", path="private/keys.md")
    kb_engine.add_note("Twice")
    kb_engine.add_note("Twice", title="twice")
    return kb_engine


@pytest.mark.parametrize(
    "named",
    [
        "1",
        "Access keys",
        "access KEYS",
        "notes/ops/keys.md",
        "ops/keys.md",
        "/home/ana/notes/ops/keys.md",
    ],
)
def test_a_document_is_found_by_id_path_or_title(named: str, engine: Engine) -> None:
    assert engine.find_document(named)["id"] == 1


def test_a_name_of_several_documents_lists_them(engine: Engine) -> None:
    with pytest.raises(
        EngineError,
        match=r"2 documents are called 'keys.md'.*\n.*1  notes/ops/keys.md\n.*2  private/keys.md",
    ):
        engine.find_document("keys.md")


@pytest.mark.parametrize(
    ("named", "told"), [("keys", "these are near:\n    1  notes"), ("zebra", "title 'zebra'")]
)
def test_a_name_that_no_document_has_lists_what_is_near(
    named: str, told: str, engine: Engine
) -> None:
    with pytest.raises(EngineError, match=told):
        engine.find_document(named)


def test_the_commands_take_any_of_them(engine: Engine, kb_run: Run, kb_home: Path) -> None:
    assert "Access keys" in kb_run("show", "ops/keys.md", "--text").stdout
    assert kb_run("tag", "Access keys", "--add", "seen").stdout == "seen\n"
    assert kb_run("open", "Access keys").stdout == "notes/ops/keys.md\n"
    assert kb_run("show", "Twice").returncode == 2

    dry = kb_run("remove", "Access keys", "2", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "This would delete 2 documents\n")
    assert engine.list_documents()["meta"]["total"] == 4
    assert kb_run("remove", "private/keys.md", "--yes").returncode == 0
    assert engine.list_documents()["meta"]["total"] == 3
