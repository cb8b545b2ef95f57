"""K4: the same changes over a selection of chunks, by the bulk machinery: preview, threshold, job, one event per chunk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError
from kb_testing.fixtures import Run

Add = Callable[..., str]


@pytest.fixture
def six(kb_engine: Engine, chunk_of: Add) -> list[str]:
    """Six chunks, of which the first two are tagged and the third is an angle."""
    found = [
        chunk_of(f"ships and note {number}", tags=["t"] if number < 2 else [])
        for number in range(6)
    ]
    kb_engine.reclassify_chunk(found[2], "angle")
    return found


def kinds(engine: Engine) -> list[str]:
    return [chunk["chunk_kind"] for chunk in engine.list_chunks(status="all", per_page=100)["data"]]


def test_k4_one_event_for_each_chunk_that_changes_and_a_job(
    kb_engine: Engine, six: list[str]
) -> None:
    result = kb_engine.bulk_reclassify(chunk_ids=six[:3], chunk_kind="angle", reason="views")

    assert (result["matched"], result["succeeded"], result["failed"], result["errors"]) == (
        3,
        3,
        0,
        [],
    )
    assert kinds(kb_engine) == ["angle"] * 3 + ["fact"] * 3
    log = kb_engine.list_events(event_type="reclassified")["data"]
    assert sorted(event["chunk_id"] for event in log if event["reason"] == "views") == sorted(
        six[:2]
    )
    job = kb_engine.get_job(result["job_id"])
    assert (job["job_type"], job["succeeded"]) == ("bulk_reclassify", 3)
    assert json.loads(job["filename"]) == {"chunk_ids": six[:3]}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"tags": ["t"]}, [0, 1]),
        ({"kind": "angle"}, [2]),
        ({"kind": "fact", "tags": ["t"]}, [0, 1]),
        ({"query": "ships 4"}, [4]),
        ({"status": "inactive"}, [5]),
        ({"policy": "inspiration_only"}, [3]),
        ({"source_type": "web"}, []),
    ],
    ids=str,
)
def test_k4_chunks_are_selected_by_what_they_and_their_documents_are(
    kb_engine: Engine, six: list[str], selection: dict[str, Any], expected: list[int]
) -> None:
    kb_engine.deactivate_chunk(six[5])
    kb_engine.set_chunk_policy(six[3], "inspiration_only")

    preview = kb_engine.bulk_preview("deactivate", **selection)
    result = kb_engine.bulk_deactivate(**selection)

    assert preview["matched"] == result["matched"] == len(expected)
    assert sorted(item["id"] for item in preview["sample"]) == sorted(
        six[number] for number in expected
    )
    inactive = {chunk["id"] for chunk in kb_engine.list_chunks(status="inactive")["data"]}
    assert inactive == {six[number] for number in expected} | {six[5]}


def test_k4_above_the_threshold_it_is_refused_unless_forced(
    kb_engine: Engine, six: list[str]
) -> None:
    with pytest.raises(EngineError) as refused:
        kb_engine.bulk_set_policy(status="all", usage_policy="never_generate")

    assert (refused.value.http_status, refused.value.code) == (409, "safety_threshold_exceeded")
    assert (refused.value.body["matched"], refused.value.body["total"]) == (6, 6)
    assert kb_engine.list_events(event_type="policy_changed")["meta"]["total"] == 0
    assert (
        kb_engine.bulk_set_policy(status="all", usage_policy="never_generate", force=True)[
            "succeeded"
        ]
        == 6
    )
    assert kb_engine.list_events(event_type="policy_changed")["meta"]["total"] == 6


def test_k4_no_selection_is_refused(kb_engine: Engine, six: list[str]) -> None:
    with pytest.raises(EngineError) as refused:
        kb_engine.post("/knowledge/bulk/deactivate", {"force": True})

    assert refused.value.http_status == 400


def test_k4_what_is_withheld_by_a_hold_fails_alone(kb_engine: Engine, six: list[str]) -> None:
    if not hasattr(kb_engine, "place_hold"):
        pytest.skip("the sample plugin is not installed")
    held = kb_engine.get_chunk(six[0])["document_id"]
    kb_engine.place_hold(document_ids=[held], reason="a case")

    result = kb_engine.bulk_deactivate(chunk_ids=six[:3])

    assert (result["status"], result["succeeded"], result["failed"]) == ("partial_failure", 2, 1)
    assert result["errors"][0]["chunk_id"] == six[0]
    assert kb_engine.chunk_history(six[0])["data"] == []
    assert kb_engine.get_chunk(six[0])["is_active"] is True


def test_k4_by_command(kb_home: Path, here: Run) -> None:
    for number in range(4):
        here("note", f"ships {number}")

    asked = here("chunks", "bulk-deactivate", "--query", "ships 1")
    done = here("chunks", "bulk-deactivate", "--query", "ships 1", "--yes", "--json")

    assert asked.returncode == 2
    assert json.loads(done.stdout)["succeeded"] == 1
    assert len(json.loads(here("chunks", "list", "--json").stdout)["data"]) == 3
