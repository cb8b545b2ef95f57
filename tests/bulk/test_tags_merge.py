"""Merging tags is a bulk operation like any other: threshold, question, job."""

from __future__ import annotations

import json

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run


@pytest.fixture
def tagged(kb_engine: Engine) -> Engine:
    for number, tags in enumerate((["todo"], ["to-do"], ["todo", "to-do"], ["other"], []), 1):
        kb_engine.add_note(f"note {number}", tags=tags)
    return kb_engine


def tags_of(engine: Engine) -> list[list[str]]:
    return [item["tags"] for item in engine.list_documents()["data"]]


BEFORE = [["todo"], ["to-do"], ["to-do", "todo"], ["other"], []]
AFTER = [["tasks"], ["tasks"], ["tasks"], ["other"], []]


def test_merging_tags_has_a_job_that_says_what_was_selected(tagged: Engine) -> None:
    result = tagged.merge_tags(["todo", "to-do"], "tasks")

    assert tags_of(tagged) == AFTER
    job = tagged.get_job(result["job_id"])
    assert (job["job_type"], job["matched"], job["succeeded"]) == ("bulk_tags", 3, 3)
    assert json.loads(job["filename"]) == {"any_tags": ["todo", "to-do"]}


def test_merging_more_than_the_threshold_is_refused_without_force(tagged: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        tagged.merge_tags(["todo", "to-do", "other"], "tasks")

    assert caught.value.http_status == 409
    assert caught.value.body | {"message": ""} == {
        "error": "safety_threshold_exceeded", "message": "", "matched": 4, "total": 5, "percent": 80.0, "threshold": 70
    }  # fmt: skip
    assert tags_of(tagged) == BEFORE
    assert tagged.list_jobs(job_type="bulk_tags")["meta"]["total"] == 0
    assert tagged.merge_tags(["todo", "to-do", "other"], "tasks", force=True)["succeeded"] == 4


def test_merging_tags_that_nothing_has_is_not_found_and_leaves_no_job(tagged: Engine) -> None:
    with pytest.raises(EngineError, match="no document has the tag 'nothing'"):
        tagged.merge_tags(["nothing"], "tasks")

    assert tagged.list_jobs(job_type="bulk_tags")["meta"]["total"] == 0


def test_a_renamed_tag_has_a_job_and_a_name_in_use_is_refused(tagged: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        tagged.rename_tag("todo", "other")

    assert (caught.value.http_status, caught.value.hint) == (409, "merge the tags instead")
    assert tags_of(tagged) == BEFORE
    assert tagged.get_job(tagged.rename_tag("todo", "tasks")["job_id"])["succeeded"] == 2


def test_the_command_asks_and_takes_tags_between_commas(tagged: Engine, kb_run: Run) -> None:
    command = ("tags", "merge", "todo,to-do", "--into", "tasks")

    without_terminal = kb_run(*command)
    shown = kb_run(*command, "--dry-run")

    assert (without_terminal.returncode, shown.returncode) == (2, 0)
    assert "--yes" in without_terminal.stderr
    assert "would replace todo, to-do by tasks on 3 of 5 documents" in shown.stdout
    assert "1: note 1" in shown.stderr
    assert tags_of(tagged) == BEFORE
    assert kb_run(*command, "--yes").returncode == 0
    assert tags_of(tagged) == AFTER
    too_many = kb_run("tags", "merge", "tasks", "other", "--into", "all", "--yes")
    assert too_many.returncode == 1
    assert (
        kb_run("tags", "merge", "tasks", "other", "--into", "all", "--yes", "--force").returncode
        == 0
    )
