"""Adding what is there adds the tags that it lacks, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Install, Run

GUARD = """
from kb_framework import api, hookimpl


@hookimpl
def kb_guard_mutation(plan, tx):
    return [api.Objection("tags are frozen")] if plan.kind == "tags" else []
"""


def test_a_file_that_is_there_gets_the_tags_it_lacks(kb_engine: Engine) -> None:
    number = kb_engine.add_file("known.md", b"what is known", tags=["k8s"])["document"]["id"]

    again = kb_engine.add_file(
        "known.md", b"what is known", tags=["a", "k8s", "b"], title="Another title"
    )

    assert (again["duplicate"], again["tags_added"]) == (True, ["a", "b"])
    assert again["document"]["id"] == number
    assert again["document"]["tags"] == ["a", "b", "k8s"]
    # A title may have been chosen by a person.
    assert again["document"]["title"] == "known.md"
    assert kb_engine.add_file("known.md", b"what is known", tags=["a"])["tags_added"] == []
    assert [
        hit["doc_id"] for hit in kb_engine.search("known", tags=["b"], mode="lexical")["hits"]
    ] == [number]


def test_a_guard_of_tags_refuses_them_here_too(kb_home: Path, kb_plugin: Install) -> None:
    with connect() as engine:
        engine.add_file("known.md", b"what is known", tags=["k8s"])
    kb_plugin("frozen_tags", GUARD)
    with connect() as engine:
        with pytest.raises(EngineError, match="tags are frozen"):
            engine.add_file("known.md", b"what is known", tags=["a"])
        assert engine.get_document(1)["tags"] == ["k8s"]


@pytest.mark.parametrize("command", ["add", "sync"])
def test_a_folder_added_again_with_tags_is_tagged(
    kb_engine: Engine, kb_run: Run, tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.md").write_text(f"the note {name}")
    assert kb_run(command, str(folder)).returncode == 0

    again = kb_run(command, str(folder), "--tags", "work,mine", "--json")
    third = kb_run(command, str(folder), "--tags", "work,mine")

    assert (again.returncode, third.returncode) == (0, 0), (again.stderr, third.stderr)
    assert json.loads(again.stdout)["tagged"] == 2
    assert [item["tags"] for item in kb_engine.list_documents()["data"]] == [["mine", "work"]] * 2
    assert "tagged" not in third.stdout
    assert kb_engine.list_documents()["meta"]["total"] == 2


def test_a_changed_file_gets_the_tags_it_lacks(
    kb_engine: Engine, kb_run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "plan.md"
    path.write_text("the plan of spring")
    assert kb_run("add", str(path), "--tags", "mine").returncode == 0
    path.write_text("the plan of summer")

    again = kb_run("add", str(path), "--tags", "work", "--json")

    assert again.returncode == 0, again.stderr
    [document] = kb_engine.list_documents()["data"]
    assert document["tags"] == ["mine", "work"]
    assert json.loads(again.stdout)["updated"] == 1
