"""B3–B6: the threshold, documents that fail alone, narrowing, force, and the record of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kb_documents.api import insert_document

from kb_framework.api import LOCAL_USER, ChunkText
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_framework.errors import EngineError, SafetyThresholdExceeded
from kb_framework.pipelines.safety import Share
from kb_testing.application import AsgiTransport

# Sets the title of each document in turn, and cannot do it to those whose title begins with "bad".
RENAME = """
import sqlalchemy as sa

from kb_framework import api, hookimpl
from kb_framework.api import tables
from kb_documents.api import touch
from kb_framework.api.models import Body

calls = []


class Rename(Body):
    title: str

    def apply(self, tx, documents):
        rows = tx.rows(sa.select(tables.documents).where(tables.documents.c.id.in_(documents)))
        calls.append(len(rows))
        for row in rows:
            touch(tx, sa.select(tables.documents.c.id).where(tables.documents.c.id == row["id"]), title=self.title)
            if row["title"].startswith("bad"):
                raise ValueError("/a/path SELECT secret")


class Distrust(Body):
    def apply(self, tx, documents):
        trust = sa.case((tables.documents.c.title.startswith("bad"), "nobody"), else_="secondary")
        touch(tx, documents, trust=trust)


@hookimpl
def kb_mutation_kinds():
    return [
        api.MutationKind("rename", f"{__name__}:Rename", verb="rename", help="Rename documents."),
        api.MutationKind("distrust", f"{__name__}:Distrust", verb="distrust", help="Trust documents less."),
    ]
"""

OBSERVER = """
from kb_framework import hookimpl

seen = []


@hookimpl
def kb_documents_changed(changes, tx):
    seen.append((changes.action, changes.count, sorted(tx.connection.scalars(changes.documents))))
"""


class Opened:
    """A knowledge base in this process, with its parts and with a client."""

    def __init__(self) -> None:
        self.kb: KB = open_kb()
        transport = AsgiTransport(create_app(self.kb), self.kb.close)
        self.engine = Engine(transport, self.kb.plugins)

    def add(self, *titles: str, doc_type: str = "note") -> list[int]:
        """Documents straight into the store, all in one transaction."""
        values = {
            "doc_type": doc_type,
            "path": None,
            "media": "markdown",
            "lang": None,
            "trust": "primary",
            "metadata": {},
            "content_hash": "0" * 64,
            "bytes": 1,
            "file": None,
        }
        with self.kb.store.write() as tx:
            return [
                insert_document(
                    tx, {**values, "title": title}, [], [ChunkText(title)], "job", None, None
                )
                for title in titles
            ]

    def titles(self) -> list[str]:
        found: list[str] = []
        page = 1
        while True:
            answer = self.engine.list_documents(per_page=100, page=page)
            found += [item["title"] for item in answer["data"]]
            if page >= answer["meta"]["total_pages"]:
                return found
            page += 1

    def jobs(self) -> int:
        return self.engine.list_jobs()["meta"]["total"]


@pytest.fixture
def opened(kb_home, monkeypatch) -> Iterator[Callable[..., Opened]]:
    """Opens the knowledge base, after plugins are installed, with settings."""
    all_opened: list[Opened] = []

    def open_it(**environment: str) -> Opened:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        all_opened.append(Opened())
        return all_opened[-1]

    yield open_it
    for item in all_opened:
        item.engine.close()


def refused(call: Callable[[], Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


# The threshold


@pytest.mark.parametrize(
    ("matched", "total", "threshold", "exceeds"),
    [
        (7, 10, 70, False),
        (8, 10, 70, True),
        (70, 100, 70, False),
        (71, 100, 70, True),
        (700_001, 1_000_000, 70, True),
        (700_000, 1_000_000, 70, False),
        (2, 3, 66, True),
        (2, 3, 67, False),
        (29, 100, 29, False),
        (57, 100, 57, False),
        (1, 1, 99, True),
        (1, 1, 100, False),
        (10, 10, 100, False),
        (10, 10, 0, False),
        (1, 1000, 0, False),
        (1, 100, 1, False),
        (2, 100, 1, True),
        (0, 0, 70, False),
        (0, 0, 0, False),
        (0, 10, 1, False),
        (7 * 10**17, 10**18, 70, False),
        (7 * 10**17 + 1, 10**18, 70, True),
    ],
)
def test_b3_the_threshold_is_exceeded_only_above_it_in_whole_numbers(
    matched, total, threshold, exceeds
) -> None:
    share = Share(matched, total, threshold)

    assert share.exceeds is exceeds
    if exceeds:
        with pytest.raises(SafetyThresholdExceeded):
            share.require_within()
    else:
        share.require_within()


def test_a_share_of_nothing_is_zero_percent() -> None:
    assert Share(0, 0, 70).percent == 0.0


@pytest.mark.parametrize(("count", "passes"), [(7, True), (8, False)])
def test_b3_exactly_seventy_percent_passes_and_more_is_refused(opened, count, passes) -> None:
    here = opened()
    ids = here.add(*"abcdefghij")

    if passes:
        assert here.engine.bulk_delete(document_ids=ids[:count])["succeeded"] == count
    else:
        assert refused(lambda: here.engine.bulk_delete(document_ids=ids[:count])).http_status == 409
        assert here.titles() == list("abcdefghij")


def test_b3_the_refusal_has_exactly_the_fields_of_the_contract_and_writes_no_job(opened) -> None:
    here = opened()
    ids = here.add(*"abcdefghij")

    for call in (
        lambda: here.engine.bulk_delete(document_ids=ids[:8]),
        lambda: here.engine.bulk_tags(document_ids=ids[:8], add=["x"]),
        lambda: here.engine.bulk_set_tags(document_ids=ids[:8], new_tags=["x"]),
    ):
        error = refused(call)
        assert error.http_status == 409
        assert error.body == {
            "error": "safety_threshold_exceeded",
            "message": "Operation would affect 8 of 10 documents (80.0%). Exceeds safety threshold of 70%. "
            "Use force: true to proceed.",
            "matched": 8,
            "total": 10,
            "percent": 80.0,
            "threshold": 70,
        }

    assert here.jobs() == 0
    assert here.engine.list_documents(tags="x")["meta"]["total"] == 0


def test_b3_force_passes_the_threshold(opened) -> None:
    here = opened()
    ids = here.add(*"abc")

    result = here.engine.bulk_delete(document_ids=ids, force=True)

    assert (result["status"], result["matched"], result["succeeded"], result["failed"]) == (
        "done",
        3,
        3,
        0,
    )
    assert here.titles() == []


def test_b3_zero_switches_the_threshold_off(opened) -> None:
    here = opened(KB_BULK_SAFETY_PERCENT="0")
    ids = here.add(*"abc")

    assert here.engine.bulk_delete(document_ids=ids)["succeeded"] == 3


def test_b3_with_no_documents_at_all_it_proceeds_and_has_a_job(opened) -> None:
    here = opened()

    result = here.engine.bulk_delete(doc_type="note")

    assert (result["status"], result["matched"], result["succeeded"], result["failed"]) == (
        "done",
        0,
        0,
        0,
    )
    assert result["errors"] == []
    assert here.engine.get_job(result["job_id"])["job_type"] == "bulk_delete"


def test_the_threshold_does_not_stand_in_the_way_of_a_single_document(opened) -> None:
    here = opened()
    (only,) = here.add("only")

    here.engine.delete_document(only)

    assert here.titles() == []


def test_a_preview_says_what_the_operation_would_say(opened) -> None:
    here = opened()
    ids = here.add(*"abcdefghij")

    under = here.engine.bulk_preview("delete", document_ids=ids[:7])
    over = here.engine.bulk_preview("delete", document_ids=ids[:8])

    assert (under["matched"], under["total"], under["percent"], under["exceeds"]) == (
        7,
        10,
        70.0,
        False,
    )
    assert (over["matched"], over["total"], over["percent"], over["exceeds"]) == (8, 10, 80.0, True)
    assert here.jobs() == 0


# Documents that fail


def test_b6_a_document_that_fails_is_rolled_back_alone(plugin, opened) -> None:
    plugin("renamer", RENAME)
    here = opened()
    ids = here.add("a", "bad 1", "c", "bad 2", "e")

    result = here.engine.bulk_rename(document_ids=ids, title="new", force=True)

    assert (result["status"], result["matched"], result["succeeded"], result["failed"]) == (
        "partial_failure",
        5,
        3,
        2,
    )
    assert [item["document_id"] for item in result["errors"]] == [ids[1], ids[3]]
    assert here.titles() == ["new", "bad 1", "new", "bad 2", "new"]


def test_a_documents_error_tells_no_path_and_no_sql(plugin, opened) -> None:
    plugin("renamer", RENAME)
    here = opened()
    (bad,) = here.add("bad")

    result = here.engine.bulk_rename(document_ids=[bad], title="new", force=True)

    assert "ValueError" in result["errors"][0]["error"]
    assert "/a/path" not in result["errors"][0]["error"]
    assert "SELECT" not in result["errors"][0]["error"]


def test_b6_a_constraint_costs_the_document_that_breaks_it(plugin, opened) -> None:
    plugin("renamer", RENAME)
    here = opened()
    ids = here.add("a", "bad", "c")

    result = here.engine.bulk_distrust(document_ids=ids, force=True)

    assert (result["succeeded"], result["failed"]) == (2, 1)
    assert result["errors"][0]["document_id"] == ids[1]
    assert "constraint" in result["errors"][0]["error"]
    assert [here.engine.get_document(number)["trust"] for number in ids] == [
        "secondary",
        "primary",
        "secondary",
    ]


def test_all_documents_may_fail(plugin, opened) -> None:
    plugin("renamer", RENAME)
    here = opened()
    ids = here.add("bad 1", "bad 2", "bad 3")

    result = here.engine.bulk_rename(document_ids=ids, title="new", force=True)

    assert (result["status"], result["succeeded"], result["failed"]) == ("partial_failure", 0, 3)
    assert here.engine.get_job(result["job_id"])["status"] == "partial_failure"


def test_of_five_hundred_documents_three_fail_and_the_rest_is_done_set_based(
    plugin, opened
) -> None:
    module = plugin("renamer", RENAME)
    here = opened()
    bad = {17, 250, 499}
    ids = here.add(*(f"bad {n}" if n in bad else f"good {n}" for n in range(500)))

    result = here.engine.bulk_rename(doc_type="note", title="new", force=True)

    assert (result["matched"], result["succeeded"], result["failed"]) == (500, 497, 3)
    assert [item["document_id"] for item in result["errors"]] == [ids[n] for n in sorted(bad)]
    assert here.titles().count("new") == 497
    # Halving finds three among five hundred in about 3 × 2 × log2(500) steps.
    assert len(sys.modules[module].calls) < 60


def test_when_nothing_fails_the_kind_is_applied_once(plugin, opened) -> None:
    module = plugin("renamer", RENAME)
    here = opened()
    here.add(*(f"good {n}" for n in range(50)))

    here.engine.bulk_rename(doc_type="note", title="new", force=True)

    assert sys.modules[module].calls == [50]


def test_observers_see_only_the_documents_that_were_changed(plugin, opened) -> None:
    plugin("renamer", RENAME)
    module = plugin("observer", OBSERVER)
    here = opened()
    ids = here.add("a", "bad", "c")

    here.engine.bulk_rename(document_ids=ids, title="new", force=True)

    assert sys.modules[module].seen == [("rename", 2, [ids[0], ids[2]])]


def test_b6_an_objection_to_one_document_lets_the_rest_through(plugin, opened) -> None:
    plugin(
        "hold",
        "from kb_framework import api, hookimpl\n\n\n"
        "@hookimpl\ndef kb_guard_mutation(plan):\n    return [api.Objection('on hold', 2)]\n",
    )
    here = opened()
    ids = here.add("a", "b", "c")

    result = here.engine.bulk_delete(document_ids=ids, force=True)

    assert (result["matched"], result["succeeded"], result["failed"]) == (3, 2, 1)
    assert result["errors"] == [{"document_id": 2, "error": "on hold"}]
    assert here.titles() == ["b"]


def test_an_objection_to_a_document_outside_the_plan_counts_for_nothing(plugin, opened) -> None:
    plugin(
        "hold",
        "from kb_framework import api, hookimpl\n\n\n"
        "@hookimpl\ndef kb_guard_mutation(plan):\n    return [api.Objection('on hold', 2), api.Objection('gone', 99)]\n",
    )
    here = opened()
    ids = here.add("a", "b", "c")

    result = here.engine.bulk_delete(document_ids=[ids[0]])

    assert (result["status"], result["matched"], result["succeeded"], result["failed"]) == (
        "done",
        1,
        1,
        0,
    )
    assert result["errors"] == []
    assert here.engine.get_job(result["job_id"])["error"] is None


def test_an_objection_to_the_whole_plan_refuses_it_without_a_job(plugin, opened) -> None:
    plugin(
        "hold",
        "from kb_framework import api, hookimpl\n\n\n"
        "@hookimpl\ndef kb_guard_mutation(plan):\n    return [api.Objection('the archive is closed')]\n",
    )
    here = opened()
    ids = here.add("a", "b", "c")

    error = refused(lambda: here.engine.bulk_delete(document_ids=ids[:1]))

    assert (error.http_status, error.code, error.message) == (
        409,
        "mutation_refused",
        "the archive is closed",
    )
    assert here.jobs() == 0
    assert here.titles() == ["a", "b", "c"]


# Narrowing


NARROW = """
from kb_framework import hookimpl
from kb_framework.api.tables import documents


@hookimpl
def kb_narrow_selection(purpose):
    return documents.c.doc_type != "secret" if purpose == "mutation" else None
"""


def test_a_narrowing_takes_documents_out_of_every_mutation(plugin, opened) -> None:
    plugin("narrow", NARROW)
    here = opened()
    plain = here.add("a", "b")
    secret = here.add("s", doc_type="secret")

    preview = here.engine.bulk_preview("delete", document_ids=plain + secret)
    result = here.engine.bulk_delete(document_ids=plain + secret, force=True)

    assert (preview["matched"], preview["total"]) == (2, 2)
    assert [item["id"] for item in preview["sample"]] == plain
    assert (result["matched"], result["succeeded"]) == (2, 2)
    assert here.titles() == ["s"]
    assert refused(lambda: here.engine.delete_document(secret[0])).http_status == 404


def test_force_does_not_widen_a_narrowed_selection(plugin, opened) -> None:
    plugin("narrow", NARROW)
    here = opened()
    secret = here.add("s", doc_type="secret")

    assert here.engine.bulk_delete(document_ids=secret, force=True)["matched"] == 0
    assert here.titles() == ["s"]


def test_narrowings_of_several_plugins_are_combined(plugin, opened) -> None:
    plugin("narrow", NARROW)
    plugin("narrower", NARROW.replace("secret", "private"))
    here = opened()
    here.add("a")
    here.add("s", doc_type="secret")
    here.add("p", doc_type="private")

    result = here.engine.bulk_delete(from_id=1, force=True)

    assert result["matched"] == 1
    assert here.titles() == ["s", "p"]


# The record


def test_b5_a_bulk_job_records_what_was_asked_and_what_became_of_it(opened) -> None:
    here = opened()
    ids = here.add(*"abcdefghij")

    result = here.engine.bulk_tags(document_ids=ids[:3], doc_type="note", add=["x"], force=True)
    job = here.engine.get_job(result["job_id"])

    assert set(result) == {"job_id", "status", "matched", "succeeded", "failed", "errors"}
    assert type(result["job_id"]) is int
    assert job["job_type"] == "bulk_tags"
    assert job["status"] == "done"
    assert json.loads(job["filename"]) == {"document_ids": ids[:3], "doc_type": "note"}
    assert job["error"] is None
    assert (job["document_id"], job["matched"], job["succeeded"], job["failed"]) == (3, 3, 3, 0)
    assert job["user_id"] == LOCAL_USER
    assert job["created_at"].endswith("Z")
    assert job["finished_at"].endswith("Z")
    assert job["uuid"].count("-") == 4


@pytest.mark.parametrize(
    ("method", "fields", "job_type"),
    [
        ("bulk_delete", {}, "bulk_delete"),
        ("bulk_tags", {"add": ["x"]}, "bulk_tags"),
        ("bulk_set_tags", {"new_tags": []}, "bulk_set_tags"),
    ],
)
def test_b5_each_operation_has_its_job_type(opened, method, fields, job_type) -> None:
    here = opened()
    ids = here.add("a", "b")

    result = getattr(here.engine, method)(document_ids=ids[:1], **fields)

    assert here.engine.get_job(result["job_id"])["job_type"] == job_type
    assert here.engine.list_jobs(job_type=job_type)["meta"]["total"] == 1


def test_b5_a_partly_failed_job_keeps_its_errors_as_json(plugin, opened) -> None:
    plugin("renamer", RENAME)
    here = opened()
    ids = here.add("a", "bad", "c")

    result = here.engine.bulk_rename(document_ids=ids, title="new", force=True)
    job = here.engine.get_job(result["job_id"])

    assert job["status"] == "partial_failure"
    assert json.loads(job["error"]) == result["errors"]
    assert (job["document_id"], job["matched"], job["succeeded"], job["failed"]) == (2, 3, 2, 1)


def test_b5_a_400_writes_no_job(opened) -> None:
    here = opened()
    here.add("a")

    for body in (
        {},
        {"force": True},
        {"tags": []},
        {"document_ids": []},
        {"document_ids": [1], "tag": "x"},
    ):
        assert refused(lambda body=body: here.engine.post("/bulk/delete", body)).http_status == 400

    assert here.jobs() == 0
    assert here.titles() == ["a"]


def test_text_outside_ascii_stays_readable_in_the_record(opened) -> None:
    here = opened()

    result = here.engine.bulk_delete(tags=["메모"])

    assert here.engine.get_job(result["job_id"])["filename"] == '{"tags": ["메모"]}'


def test_b6_a_commit_that_fails_changes_nothing_and_leaves_a_failed_job(plugin, opened) -> None:
    plugin(
        "saboteur",
        "import sqlalchemy as sa\n\nfrom kb_framework import hookimpl\n\n\n"
        "@hookimpl\ndef kb_documents_changed(changes, tx):\n"
        "    tx.execute(sa.text('PRAGMA defer_foreign_keys = ON'))\n"
        "    tx.execute(sa.text(\"INSERT INTO document_tags VALUES ('x', 424242, 'orphan')\"))\n",
    )
    here = opened()
    ids = here.add("a", "b", "c")

    error = refused(lambda: here.engine.bulk_delete(document_ids=ids[:2]))

    assert error.http_status >= 500
    assert here.titles() == ["a", "b", "c"]
    (job,) = here.engine.list_jobs()["data"]
    assert (job["job_type"], job["status"]) == ("bulk_delete", "failed")
    assert json.loads(job["filename"]) == {"document_ids": ids[:2]}
    assert json.loads(job["error"])


def test_the_next_mutation_works_after_one_that_failed(plugin, opened) -> None:
    plugin("renamer", RENAME)
    here = opened()
    ids = here.add("a", "bad", "c")
    here.engine.bulk_rename(document_ids=ids, title="new", force=True)

    result = here.engine.bulk_delete(document_ids=ids[1:2])

    assert (result["matched"], result["succeeded"]) == (1, 1)


def test_b6_a_document_added_while_a_plan_is_frozen_is_not_part_of_it(plugin, opened) -> None:
    """The plan's documents are fixed before guards are asked: what a guard adds is not deleted with the rest."""
    plugin(
        "adder",
        "import sqlalchemy as sa\n\nfrom kb_framework import hookimpl\nfrom kb_framework.api.tables import documents\n\n\n"
        "@hookimpl\ndef kb_guard_mutation(plan, tx):\n"
        "    row = tx.rows(sa.select(documents).limit(1))[0]\n"
        "    tx.execute(sa.insert(documents).values({**row, 'id': 500, 'chunk_count': 0, 'title': 'late'}))\n"
        "    return []\n",
    )
    here = opened()
    here.add("a", "b")

    result = here.engine.bulk_delete(doc_type="note", force=True)

    assert result["matched"] == 2
    assert here.titles() == ["late"]


def test_an_observer_that_raises_leaves_a_failed_job(plugin, opened) -> None:
    plugin(
        "nervous",
        "from kb_framework import hookimpl\n\n\n@hookimpl\ndef kb_documents_changed(changes):\n    raise ValueError\n",
    )
    here = opened()
    ids = here.add("a", "b", "c")

    error = refused(lambda: here.engine.bulk_delete(document_ids=ids[:2]))

    assert (error.http_status, error.code) == (503, "plugin_failed")
    assert here.titles() == ["a", "b", "c"]
    (job,) = here.engine.list_jobs()["data"]
    assert (job["job_type"], job["status"], job["succeeded"]) == ("bulk_delete", "failed", 0)
