"""B10: a plan is what was previewed, for whoever previewed it, and happens once."""

from __future__ import annotations

import base64
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kb_bulk.plans import PlannedOperation, read, seal
from kb_bulk.tables import bulk_keys, bulk_plans

from kb_framework.api import Actor
from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError, InvalidInput
from kb_framework.pipelines.promises import fingerprint
from kb_testing.fixtures import RunningServer


def notes(engine: Engine, count: int, **fields: Any) -> list[int]:
    return [
        engine.add_note(f"note {number}", **fields)["document"]["id"] for number in range(count)
    ]


def left(engine: Engine) -> list[int]:
    return [item["id"] for item in engine.list_documents(per_page=100)["data"]]


def refusal(engine: Engine, path: str, body: dict[str, Any]) -> EngineError:
    with pytest.raises(EngineError) as refused:
        engine.post(path, body)
    return refused.value


def resealed(home: Path, token: str, **changes: Any) -> str:
    """The token, changed by somebody who has the store's key."""
    kb = open_kb()
    try:
        with kb.store.read() as tx:
            key = bytes.fromhex(tx.scalar(sa.select(bulk_keys.c.key)))
    finally:
        kb.close()
    return seal(read(token)._replace(**changes), key)


def test_b10_a_plan_alone_does_what_was_previewed(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 2, tags=["old"]) + notes(kb_engine, 2)

    plan = kb_engine.bulk_preview("delete", tags=["old"])["plan"]
    result = kb_engine.bulk_delete(plan=plan)

    assert result | {"job_id": 0} == {
        "job_id": 0,
        "status": "done",
        "matched": 2,
        "succeeded": 2,
        "failed": 0,
        "errors": [],
    }
    assert left(kb_engine) == ids[2:]
    job = kb_engine.get_job(result["job_id"])
    assert (job["job_type"], json.loads(job["filename"])) == ("bulk_delete", {"tags": ["old"]})


def test_b10_a_plan_carries_the_operation_s_own_fields(kb_engine: Engine) -> None:
    first, second, _ = notes(kb_engine, 3, tags=["a"])

    kb_engine.bulk_tags(
        plan=kb_engine.bulk_preview("tags", document_ids=[first], add=["b"], remove=["a"])["plan"]
    )
    kb_engine.bulk_set_tags(
        plan=kb_engine.bulk_preview("set_tags", document_ids=[second], new_tags=[])["plan"]
    )

    assert [kb_engine.get_document(number)["tags"] for number in (first, second)] == [["b"], []]


def test_b10_a_body_may_repeat_what_its_plan_says(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3, tags=["a"])
    fields = {"document_ids": ids[:2], "add": ["b"]}
    plan = kb_engine.bulk_preview("tags", **fields)["plan"]

    assert (
        kb_engine.post("/bulk/tags", {**fields, "tags": None, "force": False, "plan": plan})[
            "succeeded"
        ]
        == 2
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"document_ids": [1]}, "document_ids"),
        ({"tags": ["b"]}, "tags"),
        ({"add": ["c"]}, "add"),
        ({"doc_type": "note"}, "doc_type"),
        ({"remove": ["d"]}, "remove"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_b10_a_body_that_disagrees_with_its_plan_is_400(
    kb_engine: Engine, body: dict[str, Any], field: str
) -> None:
    notes(kb_engine, 3, tags=["a"])
    plan = kb_engine.bulk_preview("tags", tags=["a"], document_ids=[1, 2], add=["b"])["plan"]

    error = refusal(kb_engine, "/bulk/tags", {**body, "plan": plan})

    assert (error.http_status, error.body["field"]) == (400, field)
    assert kb_engine.list_documents(tags="b")["meta"]["total"] == 0


def test_b10_a_plan_is_refused_when_the_set_has_grown_or_shrunk(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3, tags=["old"])
    notes(kb_engine, 4)
    plan = kb_engine.bulk_preview("delete", tags=["old"])["plan"]

    kb_engine.add_note("one more", tags=["old"])
    grown = refusal(kb_engine, "/bulk/delete", {"plan": plan})
    kb_engine.bulk_delete(document_ids=[*ids[1:], 8])
    shrunk = refusal(kb_engine, "/bulk/delete", {"plan": plan})

    assert (grown.http_status, grown.body["error"]) == (409, "selection_changed")
    assert (grown.body["planned"], grown.body["matched"]) == (3, 4)
    assert (shrunk.body["error"], shrunk.body["matched"]) == ("selection_changed", 1)
    assert ids[0] in left(kb_engine)
    assert kb_engine.list_jobs(job_type="bulk_delete")["meta"]["total"] == 1


def test_b10_a_plan_is_refused_when_as_many_others_match(kb_engine: Engine) -> None:
    first, second, third, *_ = notes(kb_engine, 5)
    for number in (first, second):
        kb_engine.put(f"/documents/{number}/tags", {"tags": ["old"]})
    plan = kb_engine.bulk_preview("delete", tags=["old"])["plan"]

    kb_engine.put(f"/documents/{second}/tags", {"tags": []})
    kb_engine.put(f"/documents/{third}/tags", {"tags": ["old"]})

    assert (
        refusal(kb_engine, "/bulk/delete", {"plan": plan, "force": True}).code
        == "selection_changed"
    )
    assert len(left(kb_engine)) == 5


def test_b10_a_plan_does_not_mind_what_it_is_not_about(kb_engine: Engine) -> None:
    notes(kb_engine, 2, tags=["old"])
    plan = kb_engine.bulk_preview("delete", tags=["old"], doc_type="note")["plan"]

    others = notes(kb_engine, 3)
    kb_engine.update_document(1, title="Another title")

    assert kb_engine.bulk_delete(plan=plan)["succeeded"] == 2
    assert left(kb_engine) == others


def test_b10_executing_a_plan_twice_answers_with_the_first_result(kb_engine: Engine) -> None:
    notes(kb_engine, 2, tags=["old"])
    kb_engine.place_hold([1])
    notes(kb_engine, 2)
    plan = kb_engine.bulk_preview("delete", tags=["old"])["plan"]

    first = kb_engine.bulk_delete(plan=plan)
    notes(kb_engine, 1, tags=["old"])
    again = kb_engine.bulk_delete(plan=plan, force=True)

    assert first["status"] == "partial_failure"
    assert again == first
    assert kb_engine.list_jobs(job_type="bulk_delete")["meta"]["total"] == 1
    assert len(left(kb_engine)) == 4


def test_b10_a_plan_is_remembered_after_a_restart(kb_home: Path) -> None:
    with connect() as engine:
        notes(engine, 3)
        plan = engine.bulk_preview("delete", document_ids=[1])["plan"]
        later = engine.bulk_preview("delete", document_ids=[2])["plan"]
        first = engine.bulk_delete(plan=plan)

    with connect() as engine:
        assert engine.bulk_delete(plan=plan) == first
        assert engine.bulk_delete(plan=later)["succeeded"] == 1
        assert left(engine) == [3]


def test_b10_several_engines_on_one_store_execute_a_plan_once(kb_home: Path) -> None:
    with connect() as one, connect() as other:
        notes(one, 20)
        plan = one.bulk_preview("tags", to_id=10, add=["x"])["plan"]
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda n: (one, other)[n % 2].bulk_tags(plan=plan), range(8)))

        assert len({result["job_id"] for result in results}) == 1
        assert one.list_jobs(job_type="bulk_tags")["meta"]["total"] == 1


def test_b10_a_plan_passes_neither_the_threshold_nor_a_guard(kb_engine: Engine) -> None:
    notes(kb_engine, 4)
    kb_engine.place_hold([2])
    plan = kb_engine.bulk_preview("delete", from_id=1)["plan"]

    refused = refusal(kb_engine, "/bulk/delete", {"plan": plan})
    forced = kb_engine.bulk_delete(plan=plan, force=True)

    assert (refused.http_status, refused.code) == (409, "safety_threshold_exceeded")
    assert (forced["succeeded"], [item["document_id"] for item in forced["errors"]]) == (3, [2])


def test_b10_a_preview_that_forces_makes_no_plan_that_forces(kb_engine: Engine) -> None:
    notes(kb_engine, 4)
    plan = kb_engine.bulk_preview("delete", from_id=1, force=True)["plan"]

    assert refusal(kb_engine, "/bulk/delete", {"plan": plan}).code == "safety_threshold_exceeded"


def test_b10_an_expired_plan_is_refused_unless_it_was_executed(
    kb_engine: Engine, kb_home: Path
) -> None:
    notes(kb_engine, 3)
    plan = kb_engine.bulk_preview("delete", document_ids=[1])["plan"]
    old = resealed(kb_home, plan, expires=time.time() - 1)

    refused = refusal(kb_engine, "/bulk/delete", {"plan": old})
    first = kb_engine.bulk_delete(plan=plan)

    assert (refused.http_status, refused.body["error"]) == (409, "plan_expired")
    assert kb_engine.bulk_delete(plan=old) == first


def test_b10_a_plan_lasts_as_long_as_the_setting_says(
    kb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lasts() -> float:
        with connect() as engine:
            preview = engine.bulk_preview("delete", from_id=1)
            expires = read(preview["plan"]).expires
            said = datetime.fromisoformat(preview["expires_at"]).timestamp()
            assert said == pytest.approx(expires, abs=0.001)
            return expires - time.time()

    assert 800 < lasts() <= 900
    monkeypatch.setenv("KB_BULK_PLAN_SECONDS", "60")
    assert 0 < lasts() <= 60


def forged(token: str) -> list[str]:
    body, _, signature = token.partition(".")
    plan = read(token)
    wider = base64.urlsafe_b64encode(
        zlib.compress(json.dumps(plan._replace(fields={"from_id": 1})).encode())
    ).decode()
    return [
        f"{wider}.{signature}",
        seal(plan, b"another key"),
        f"{body}.",
        body,
        f"{body}.{signature[:-4]}AAA=",
        f"{body}.{signature}x",
    ]


def test_b10_a_plan_that_was_tampered_with_is_400(kb_engine: Engine) -> None:
    notes(kb_engine, 3)
    token = kb_engine.bulk_preview("delete", document_ids=[1])["plan"]

    for changed in forged(token):
        error = refusal(kb_engine, "/bulk/delete", {"plan": changed, "force": True})
        assert (error.http_status, error.body["field"]) == (400, "plan")
    assert len(left(kb_engine)) == 3


@pytest.mark.parametrize(
    "token", ["", ".", "nonsense", "a.b", "ÄÖÜ", "eJyLBQAAXQBd.x", "eJyrBgAA+wD5.x"]
)
def test_b10_nonsense_for_a_plan_is_400_and_names_it(kb_engine: Engine, token: str) -> None:
    notes(kb_engine, 1)

    error = refusal(kb_engine, "/bulk/delete", {"plan": token, "from_id": 1, "force": True})

    assert error.http_status == 400
    assert "plan" in error.message
    assert len(left(kb_engine)) == 1


def test_b10_a_plan_that_unpacks_to_far_too_much_is_400(kb_engine: Engine) -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(b"[" + b" " * 200_000_000)).decode()

    assert refusal(kb_engine, "/bulk/delete", {"plan": f"{bomb}.x"}).http_status == 400


def test_b10_a_plan_is_for_its_operation(kb_engine: Engine) -> None:
    notes(kb_engine, 3)
    plan = kb_engine.bulk_preview("tags", document_ids=[1], add=["x"])["plan"]

    assert refusal(kb_engine, "/bulk/delete", {"plan": plan}).http_status == 400
    deleting = kb_engine.bulk_preview("delete", document_ids=[1])["plan"]
    error = refusal(kb_engine, "/bulk/tags", {"plan": deleting, "add": ["x"]})
    assert (error.http_status, error.message) == (400, "plan: is for the operation 'delete'")


@pytest.mark.parametrize("other", [Actor(user_id="somebody"), Actor(organization_id="elsewhere")])
def test_b10_a_plan_is_for_its_caller(kb_home: Path, other: Actor) -> None:
    with connect() as engine:
        notes(engine, 3)
        token = engine.bulk_preview("delete", document_ids=[1])["plan"]
    kb = open_kb()
    try:
        from kb_bulk.models import body_model

        kind = kb.mutation.kind("delete")
        body = body_model(kb.plugins, kind).model_validate({"plan": token})
        with pytest.raises(InvalidInput, match="somebody else"):
            kb.services["bulk"].run(kind, body, other)
        assert kb.services["bulk"].run(kind, body, Actor()).succeeded == 1
    finally:
        kb.close()


def test_b10_a_preview_writes_nothing_and_waits_for_no_writer(kb_home: Path) -> None:
    kb = open_kb()
    try:
        with connect() as engine:
            notes(engine, 3)
            with kb.store.write() as tx:
                tx.execute(sa.delete(bulk_plans))
                assert engine.bulk_preview("delete", document_ids=[1])["matched"] == 1
    finally:
        kb.close()


def test_b10_a_plan_of_a_hundred_thousand_ids_works(kb_engine: Engine) -> None:
    ids = notes(kb_engine, 3)
    many = [*range(10**6, 10**6 + 100_000), ids[0]]

    plan = kb_engine.bulk_preview("delete", document_ids=many)["plan"]

    assert len(plan) < 500_000
    assert kb_engine.bulk_delete(plan=plan)["succeeded"] == 1


def test_b10_a_fingerprint_tells_any_two_sets_of_a_hundred_thousand_apart(kb_home: Path) -> None:
    kb = open_kb()
    try:
        with kb.store.read() as tx:

            def numbers(first: int, last: int) -> sa.Select:
                start = sa.select(sa.literal(first).label("n")).cte("n", recursive=True)
                every = start.union_all(sa.select(start.c.n + 1).where(start.c.n < last))
                return sa.select(every.c.n)

            same = [fingerprint(tx, numbers(1, 100_000)) for _ in range(2)]
            other = fingerprint(tx, numbers(2, 100_001))
    finally:
        kb.close()

    assert same[0] == same[1] and same[0].matched == other.matched == 100_000
    assert same[0].digest != other.digest


def test_b10_the_command_does_exactly_what_it_showed(
    kb_server: RunningServer, in_terminal: Any
) -> None:
    """A document that comes to match between the question and the answer stops the command."""
    with connect() as engine:
        notes(engine, 2, tags=["old"])
        notes(engine, 3)

        code, said = in_terminal(
            "bulk-remove",
            "--tags",
            "old",
            answer="y\n",
            before_answering=lambda: engine.add_note("one more", tags=["old"]),
        )

        assert code == 1
        assert "2 documents then, 3 now" in said
        assert engine.list_documents(tags="old")["meta"]["total"] == 3


def test_a_plan_is_a_plain_record() -> None:
    plan = PlannedOperation("id", "delete", {"tags": ["ä"]}, 3, "abc", "org", "user", 12.5)

    assert read(seal(plan, b"key")) == plan
