"""B1–B8: bulk operations over the engine client (the HTTP contract)."""

from __future__ import annotations

import json

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError


def notes(engine: Engine, count: int, **fields) -> list[int]:
    return [engine.add_note(f"note {number}", **fields)["document"]["id"] for number in range(count)]


def titles(engine: Engine) -> list[str]:
    return [item["title"] for item in engine.list_documents(per_page=100)["data"]]


def refusal(engine: Engine, path: str, body: dict) -> EngineError:
    with pytest.raises(EngineError) as refused:
        engine.post(path, body)
    return refused.value


def test_filters_are_combined_with_and(kb_engine: Engine) -> None:
    kb_engine.add_note("keep", tags=["draft"], doc_type="memo")
    kb_engine.add_note("go", tags=["draft"])
    kb_engine.add_note("keep too")

    result = kb_engine.bulk_delete(tags=["draft"], doc_type="note")

    assert result | {"job_id": 0} == {"job_id": 0, "status": "done", "matched": 1, "succeeded": 1, "failed": 0, "errors": []}
    assert titles(kb_engine) == ["keep", "keep too"]


@pytest.mark.parametrize("body", [{}, {"force": True}, {"tags": None}, {"tags": []}, {"document_ids": []}, {"tagz": ["x"]}])
@pytest.mark.parametrize("route", ["delete", "tags", "set-tags"])
def test_no_selection_is_never_everything(kb_engine: Engine, route: str, body: dict) -> None:
    notes(kb_engine, 2)
    fields = {"tags": {"add": ["x"]}, "set-tags": {"new_tags": []}}.get(route, {})

    assert refusal(kb_engine, f"/bulk/{route}", {**body, **fields}).http_status == 400
    assert len(titles(kb_engine)) == 2


def test_more_than_the_threshold_is_refused_and_leaves_no_job(kb_engine: Engine) -> None:
    first = notes(kb_engine, 4)[0]

    refused = refusal(kb_engine, "/bulk/delete", {"from_id": first})

    assert refused.http_status == 409
    assert refused.body == {
        "error": "safety_threshold_exceeded",
        "message": "Operation would affect 4 of 4 documents (100.0%). Exceeds safety threshold of 70%. "
        "Use force: true to proceed.",
        "matched": 4,
        "total": 4,
        "percent": 100.0,
        "threshold": 70,
    }
    assert kb_engine.list_jobs(job_type="bulk_delete")["meta"]["total"] == 0
    assert kb_engine.bulk_delete(from_id=first, force=True)["succeeded"] == 4


def test_exactly_the_threshold_passes(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 10)

    assert kb_engine.bulk_delete(document_ids=ids[:7])["succeeded"] == 7


def test_the_job_tells_the_selection_and_the_outcome(kb_engine: Engine) -> None:
    notes(kb_engine, 3, tags=["a"])
    notes(kb_engine, 3)

    job = kb_engine.get_job(kb_engine.bulk_tags(tags=["a"], add=["b"])["job_id"])

    assert job["job_type"] == "bulk_tags"
    assert json.loads(job["filename"]) == {"tags": ["a"]}
    assert (job["error"], job["document_id"], job["matched"], job["succeeded"], job["failed"]) == (None, 3, 3, 3, 0)


def test_tags_are_added_removed_and_replaced(kb_engine: Engine) -> None:
    (first, second) = notes(kb_engine, 2, tags=["old", "both"])

    kb_engine.bulk_tags(document_ids=[first], add=["new"], remove=["old"])
    kb_engine.bulk_set_tags(document_ids=[second], new_tags=["clean", "final"])

    assert kb_engine.get_document(first)["tags"] == ["both", "new"]
    assert kb_engine.get_document(second)["tags"] == ["clean", "final"]
    assert kb_engine.bulk_set_tags(document_ids=[second], new_tags=[])["succeeded"] == 1
    assert kb_engine.get_document(second)["tags"] == []


def test_a_missing_new_tags_is_explained(kb_engine: Engine) -> None:
    assert "tags selects; new_tags replaces" in refusal(kb_engine, "/bulk/set-tags", {"tags": ["a"]}).message


@pytest.mark.parametrize("change", [{}, {"add": []}, {"add": ["a"], "remove": ["a"]}])
def test_a_tag_change_must_say_something(kb_engine: Engine, change: dict) -> None:
    assert refusal(kb_engine, "/bulk/tags", {"from_id": 1, **change}).http_status == 400


def test_unknown_and_repeated_ids_are_simply_not_matched(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3)

    assert kb_engine.bulk_delete(document_ids=[ids[0], ids[0], 10**12])["matched"] == 1
    assert kb_engine.bulk_delete(from_id=ids[2], to_id=ids[1])["matched"] == 0


def test_a_hundred_thousand_ids_in_one_request_work(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3)

    assert kb_engine.bulk_delete(document_ids=[*range(10**6, 10**6 + 100_000), ids[0]])["succeeded"] == 1


def test_a_preview_changes_nothing_and_counts_the_same(kb_engine: Engine) -> None:
    notes(kb_engine, 4, tags=["x"])

    preview = kb_engine.bulk_preview("delete", tags=["x"])

    assert {key: preview[key] for key in ("matched", "total", "percent", "threshold", "exceeds")} == {
        "matched": 4,
        "total": 4,
        "percent": 100.0,
        "threshold": 70,
        "exceeds": True,
    }
    assert [item["title"] for item in preview["sample"]] == titles(kb_engine)
    assert refusal(kb_engine, "/bulk/preview", {"operation": "explode", "from_id": 1}).http_status == 400
    assert refusal(kb_engine, "/bulk/preview", {"operation": "delete", "from_id": 1, "add": ["x"]}).http_status == 400
