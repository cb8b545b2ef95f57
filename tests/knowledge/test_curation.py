"""K1, K2, K3: what chunks are and may be used for, who said so, and that nobody can unsay it."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_framework.errors import EngineError
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Run, stored

Add = Callable[..., str]
CHANGES = {
    "deactivate": ({}, {"is_active": False}, "deactivated", {"is_active": True}),
    "reclassify": (
        {"chunk_kind": "angle"},
        {"chunk_kind": "angle"},
        "reclassified",
        {"chunk_kind": "fact"},
    ),
    "set-policy": (
        {"usage_policy": "inspiration_only"},
        {"usage_policy": "inspiration_only"},
        "policy_changed",
        {"usage_policy": "normal"},
    ),
}


def refused(call: Callable[[], Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        call()
    return caught.value


def write(statement: str) -> None:
    kb = open_kb()
    try:
        with kb.store.write() as tx:
            tx.execute(sa.text(statement))
    finally:
        kb.close()


# K1


@pytest.mark.new_database
def test_k1_a_database_with_rows_gets_the_columns_and_every_chunk_their_defaults(
    kb_home: Path, monkeypatch
) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "knowledge,research")
    with connect() as engine:
        number = engine.add_note("older than curation")["document"]["id"]
        assert "is_active" not in engine.get_document_chunks(number)["data"][0]

    monkeypatch.delenv("KB_DISABLED_PLUGINS")
    with connect() as engine:
        (chunk,) = engine.list_chunks()["data"]
        shown = engine.get_document_chunks(number)["data"][0]

    assert (chunk["is_active"], chunk["chunk_kind"], chunk["usage_policy"]) == (
        True,
        "fact",
        "normal",
    )
    assert [
        chunk[name] for name in ("source_type", "source_ref", "source_title", "confidence")
    ] == [None] * 4
    assert (shown["is_active"], shown["chunk_kind"], shown["usage_policy"]) == (
        True,
        "fact",
        "normal",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        "chunk_kind = 'rumour'",
        "usage_policy = 'sometimes'",
        pytest.param(
            "is_active = 2",
            marks=pytest.mark.sqlite_only(
                "PostgreSQL has a type for truth, and refuses to read it"
            ),
        ),
        "confidence = 1.5",
        "chunk_kind = NULL",
    ],
)
def test_k1_the_database_refuses_what_is_not_allowed(
    kb_engine: Engine, chunk_of: Add, wrong: str
) -> None:
    chunk_of("a chunk")

    with pytest.raises(sa.exc.IntegrityError):
        write(f"UPDATE chunks SET {wrong}")


def test_k1_there_is_an_index_for_each_of_the_three_by_organization(kb_engine: Engine) -> None:
    catalogue = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql <> ''"
    if os.environ.get("KB_DATABASE_URL"):
        catalogue = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"
    indexes = "\n".join(definition for (definition,) in stored(catalogue))

    for name in ("is_active", "chunk_kind", "usage_policy"):
        assert re.search(rf"\bchunks .*\(organization_id, {name}\)", indexes)


def test_k1_switching_off_and_on_again_loses_nothing(kb_home: Path, monkeypatch) -> None:
    with connect() as engine:
        number = engine.add_note("about lighthouses")["document"]["id"]
        chunk = engine.get_document_chunks(number)["data"][0]["id"]
        engine.deactivate_chunk(chunk, reason="stale")
        engine.reclassify_chunk(chunk, "quote")

    monkeypatch.setenv("KB_DISABLED_PLUGINS", "knowledge,research")
    with connect() as engine:
        assert "chunk_kind" not in engine.get_document_chunks(number)["data"][0]
        assert len(engine.search("lighthouses")["hits"]) == 1
        engine.add_note("added meanwhile")

    monkeypatch.delenv("KB_DISABLED_PLUGINS")
    with connect() as engine:
        found = engine.get_chunk(chunk)
        assert (found["is_active"], found["chunk_kind"]) == (False, "quote")
        assert [event["event_type"] for event in found["events"]] == ["reclassified", "deactivated"]
        assert engine.search("lighthouses", mode="lexical")["hits"] == []
        assert engine.list_chunks(q="meanwhile")["data"][0]["chunk_kind"] == "fact"


# K2


@pytest.mark.parametrize("change", CHANGES)
def test_k2_a_change_answers_with_the_chunk_and_writes_one_event(
    kb_engine: Engine, chunk_of: Add, change: str
) -> None:
    body, after, event_type, before = CHANGES[change]
    chunk = chunk_of("a chunk")

    answer = kb_engine.post(f"/knowledge/chunks/{chunk}/{change}", {**body, "reason": "because"})
    (event,) = kb_engine.get_chunk(chunk)["events"]

    assert answer["changed"] is True
    assert after.items() <= answer.items()
    assert (event["event_type"], event["before"], event["after"], event["reason"]) == (
        event_type,
        before,
        after,
        "because",
    )
    assert event["user_id"] and event["created_at"].endswith("Z")
    assert uuid.UUID(event["id"]).version == 4


@pytest.mark.parametrize("change", CHANGES)
def test_k2_the_same_again_changes_nothing_and_writes_no_event(
    kb_engine: Engine, chunk_of: Add, change: str
) -> None:
    body = CHANGES[change][0]
    chunk = chunk_of("a chunk")
    kb_engine.post(f"/knowledge/chunks/{chunk}/{change}", body)

    answer = kb_engine.post(f"/knowledge/chunks/{chunk}/{change}", body)

    assert answer["changed"] is False
    assert len(kb_engine.get_chunk(chunk)["events"]) == 1


def test_k2_a_chunk_is_activated_again(kb_engine: Engine, chunk_of: Add) -> None:
    chunk = chunk_of("a chunk")
    kb_engine.deactivate_chunk(chunk)

    assert kb_engine.activate_chunk(chunk, reason="it was right")["is_active"] is True
    assert [event["event_type"] for event in kb_engine.get_chunk(chunk)["events"]] == [
        "activated",
        "deactivated",
    ]


def test_k2_a_change_needs_no_body_where_nothing_must_be_said(
    kb_engine: Engine, chunk_of: Add
) -> None:
    chunk = chunk_of("a chunk")

    for verb, active in (("deactivate", False), ("activate", True)):
        answer = kb_engine.post(f"/knowledge/chunks/{chunk}/{verb}")
        assert (answer["changed"], answer["is_active"]) == (True, active)


def test_k2_events_outlive_their_chunk_and_keep_no_text(kb_engine: Engine) -> None:
    document = kb_engine.add_note("very secret words")["document"]["id"]
    chunk = kb_engine.get_document_chunks(document)["data"][0]["id"]
    kb_engine.reclassify_chunk(chunk, "angle")

    kb_engine.delete_document(document)

    log = kb_engine.chunk_history(chunk)["data"]
    assert [event["event_type"] for event in log] == ["deleted_hard", "reclassified"]
    assert log[0]["before"]["chunk_kind"] == "angle"
    assert log[0]["after"] is None
    assert "secret" not in json.dumps(log)
    assert refused(lambda: kb_engine.get_chunk(chunk)).http_status == 404


def test_k2_a_bulk_delete_writes_an_event_for_every_chunk_that_goes(kb_engine: Engine) -> None:
    for number in range(5):
        kb_engine.add_note(f"note {number}", tags=["gone"] if number < 3 else [])

    kb_engine.bulk_delete(tags=["gone"])

    assert kb_engine.list_events(event_type="deleted_hard")["meta"]["total"] == 3


def test_k2_what_a_guard_protects_gets_no_event(kb_engine: Engine) -> None:
    document = kb_engine.add_note("held")["document"]["id"]
    chunk = kb_engine.get_document_chunks(document)["data"][0]["id"]
    if not hasattr(kb_engine, "place_hold"):
        pytest.skip("the sample plugin is not installed")
    kb_engine.place_hold(document_ids=[document], reason="a case")

    error = refused(lambda: kb_engine.deactivate_chunk(chunk))

    assert (error.http_status, error.code) == (409, "mutation_refused")
    assert kb_engine.get_chunk(chunk)["is_active"] is True
    assert kb_engine.list_events()["meta"]["total"] == 0


@pytest.mark.parametrize(
    "statement",
    ["UPDATE knowledge_chunk_events SET reason = 'other'", "DELETE FROM knowledge_chunk_events"],
)
def test_k2_the_database_itself_refuses_to_change_or_delete_events(
    kb_engine: Engine, chunk_of: Add, statement: str
) -> None:
    kb_engine.deactivate_chunk(chunk_of("a chunk"))

    with pytest.raises(sa.exc.IntegrityError, match="cannot be changed or deleted"):
        write(statement)

    assert kb_engine.list_events()["meta"]["total"] == 1


def test_k2_no_route_takes_anything_but_reading_for_events(kb_http: AsgiTransport) -> None:
    paths = json.loads(kb_http.send("GET", "/schema/openapi.json", {}, b"").body)["paths"]

    methods = {method for path, found in paths.items() if "/events" in path for method in found}

    assert methods == {"get"}


# K3


def test_k3_the_list_is_filtered_and_paged(kb_engine: Engine, chunk_of: Add) -> None:
    one, two, three = (chunk_of(f"note {word} of ships") for word in ("one", "two", "three"))
    kb_engine.deactivate_chunk(one)
    kb_engine.reclassify_chunk(two, "example")
    kb_engine.set_chunk_policy(three, "never_generate")

    def ids(**wanted: Any) -> list[str]:
        return [item["id"] for item in kb_engine.list_chunks(**wanted)["data"]]

    assert ids() == [two, three]
    assert ids(status="inactive") == [one]
    assert ids(status="all") == [one, two, three]
    assert ids(kind="example") == [two]
    assert ids(policy="never_generate") == [three]
    assert ids(q="three ships") == [three]
    assert ids(q="nothing of the kind") == []
    assert ids(q="ships " * 100) == ids(q="ships")
    with pytest.raises(EngineError, match="q: at most 20 different words"):
        ids(q=" ".join(map(str, range(21))))
    assert ids(source_type="web") == []
    page = kb_engine.list_chunks(status="all", page=2, per_page=2)
    assert [item["id"] for item in page["data"]] == [three]
    assert page["meta"] == {"page": 2, "per_page": 2, "total": 3, "total_pages": 2}


def test_k3_a_chunk_is_shown_whole_with_its_last_20_events(
    kb_engine: Engine, chunk_of: Add
) -> None:
    text = "word " * 200
    chunk = chunk_of(text)
    for number in range(11):
        kb_engine.deactivate_chunk(chunk, reason=f"off {number}")
        kb_engine.activate_chunk(chunk, reason=f"on {number}")

    found = kb_engine.get_chunk(chunk.upper())

    assert found["content"].strip() == text.strip()
    assert found["metadata"]["token_count"]
    assert len(found["events"]) == 20
    assert found["events"][0]["reason"] == "on 10"
    assert kb_engine.chunk_history(chunk, per_page=100)["meta"]["total"] == 22


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("reclassify", {}, "chunk_kind"),
        ("reclassify", {"chunk_kind": "rumour"}, "chunk_kind"),
        ("set-policy", {}, "usage_policy"),
        ("set-policy", {"usage_policy": "often"}, "usage_policy"),
        ("deactivate", {"reason": "x" * 256}, "reason"),
        ("deactivate", {"kind": "fact"}, "kind"),
    ],
)
def test_k3_bad_input_is_400_and_names_the_field(
    kb_engine: Engine, chunk_of: Add, path: str, body: Any, field: str
) -> None:
    chunk = chunk_of("a chunk")

    error = refused(lambda: kb_engine.post(f"/knowledge/chunks/{chunk}/{path}", body))

    assert (error.http_status, error.body["field"]) == (400, field)


@pytest.mark.parametrize(
    "query", ["kind=rumour", "status=gone", "policy=x", "per_page=0", "per_page=101", "page=0"]
)
def test_k3_a_bad_parameter_of_the_list_is_400(kb_http: AsgiTransport, query: str) -> None:
    reply = kb_http.send("GET", f"/api/v1/knowledge/chunks?{query}", {}, b"")

    assert reply.status == 400
    assert query.split("=")[0] in json.loads(reply.body)["message"]


@pytest.mark.parametrize("verb", ["deactivate", "activate", "reclassify", "set-policy"])
def test_k3_a_chunk_that_is_not_there_is_404(kb_engine: Engine, verb: str) -> None:
    body = {"reclassify": {"chunk_kind": "fact"}, "set-policy": {"usage_policy": "normal"}}.get(
        verb, {}
    )

    assert (
        refused(
            lambda: kb_engine.post(f"/knowledge/chunks/{uuid.uuid4()}/{verb}", body)
        ).http_status
        == 404
    )


def test_k3_hard_delete_is_403_where_it_is_not_switched_on(
    kb_engine: Engine, chunk_of: Add
) -> None:
    chunk = chunk_of("a chunk")

    error = refused(lambda: kb_engine.delete_chunk(chunk, confirm=True))

    assert (error.http_status, error.code) == (403, "forbidden")
    assert kb_engine.get_chunk(chunk)["id"] == chunk


def test_k3_hard_delete_wants_a_confirmation_and_leaves_an_event_without_text(
    kb_home: Path, monkeypatch
) -> None:
    monkeypatch.setenv("KB_KNOWLEDGE_HARD_DELETE", "true")
    with connect() as engine:
        text = "\n\n".join(
            f"# Part {number}\n\n" + f"words of part {number} " * 200 for number in range(2)
        )
        document = engine.add_note(text)["document"]["id"]
        first, *rest = [chunk["id"] for chunk in engine.get_document_chunks(document)["data"]]

        assert refused(lambda: engine.delete_chunk(first)).http_status == 400
        engine.delete_chunk(first, confirm=True, reason="wrong")

        assert [chunk["id"] for chunk in engine.get_document_chunks(document)["data"]] == rest
        assert engine.get_document(document)["chunk_count"] == len(rest)
        (event,) = engine.chunk_history(first)["data"]
        assert (event["event_type"], event["reason"]) == ("deleted_hard", "wrong")
        assert "words" not in json.dumps(event)
        assert refused(lambda: engine.delete_chunk(first, confirm=True)).http_status == 404
        assert first not in {
            hit["chunk_id"] for hit in engine.search("words of part 0", k=100)["hits"]
        }
        assert engine.get("/doctor")["status"] in {"ok", "warning"}


def test_k3_a_model_that_curates_is_not_shown_what_it_must_never_generate_from(
    kb_engine: Engine, chunk_of: Add
) -> None:
    chunk = chunk_of("words that stay here")
    kb_engine.set_chunk_policy(chunk, "never_generate")

    (listed,) = kb_engine.read_by("model").list_chunks()["data"]

    assert (listed["id"], listed["preview"]) == (chunk, None)
    assert kb_engine.read_by("model").get_chunk(chunk)["content"] is None
    assert kb_engine.get_chunk(chunk)["content"] == "words that stay here"


def test_k3_events_are_filtered_by_who_what_and_when(kb_engine: Engine, chunk_of: Add) -> None:
    one, two = chunk_of("one"), chunk_of("two")
    kb_engine.deactivate_chunk(one)
    kb_engine.reclassify_chunk(two, "quote")
    first, second = reversed(kb_engine.list_events()["data"])

    def total(**wanted: Any) -> int:
        return kb_engine.list_events(**wanted)["meta"]["total"]

    assert total() == 2
    assert total(chunk_id=one) == 1
    assert total(event_type="reclassified") == 1
    assert total(document_id=kb_engine.get_chunk(two)["document_id"]) == 1
    assert total(document_id=10**9) == 0
    assert total(user_id=first["user_id"]) == 2
    assert total(user_id=str(uuid.uuid4())) == 0
    assert total(since=second["created_at"]) == 1
    assert total(until=second["created_at"]) == 1
    assert total(since="2100-01-01") == 0
    assert refused(lambda: kb_engine.list_events(since="yesterday")).http_status == 400
    assert refused(lambda: kb_engine.list_events(event_type="forgotten")).http_status == 400


def test_k3_events_are_exported_as_lines_oldest_first(kb_engine: Engine, chunk_of: Add) -> None:
    assert kb_engine.export_events() == b""
    chunk = chunk_of("a chunk")
    kb_engine.deactivate_chunk(chunk)
    kb_engine.activate_chunk(chunk)

    lines = kb_engine.export_events().decode().splitlines()

    assert [json.loads(line)["event_type"] for line in lines] == ["deactivated", "activated"]
    assert json.loads(lines[0]).keys() == kb_engine.list_events()["data"][0].keys()


# The command line


def test_k3_the_same_by_command(kb_home: Path, here: Run) -> None:
    here("note", "words about tides", "--json")
    (chunk,) = json.loads(here("chunks", "list", "--json").stdout)["data"]
    number = chunk["id"]

    assert (
        here("chunks", "deactivate", number, "--reason", "old").stdout == f"{number} is inactive\n"
    )
    assert here("chunks", "deactivate", number).stdout == f"{number} was already inactive\n"
    assert json.loads(here("chunks", "activate", number, "--json").stdout)["is_active"] is True
    assert here("chunks", "reclassify", number, "--kind", "quote").returncode == 0
    assert here("chunks", "set-policy", number, "--policy", "inspiration_only").returncode == 0
    assert "words about tides" in here("chunks", "show", number).stdout
    assert (
        here("chunks", "list", "--kind", "quote", "--policy", "inspiration_only").stdout.count(
            number
        )
        == 1
    )
    assert here("chunks", "history", number).stdout.count(number) == 4
    assert len(here("chunks", "events", "--export").stdout.splitlines()) == 4
    assert here("chunks", "reclassify", number, "--kind", "rumour").returncode == 2
    assert here("chunks", "delete", number).returncode == 2
    forbidden = here("chunks", "delete", number, "--yes")
    assert (forbidden.returncode, forbidden.stdout) == (1, "")
    assert "KB_KNOWLEDGE_HARD_DELETE" in forbidden.stderr
    gone = here("chunks", "delete", number, "--yes", "--json", KB_KNOWLEDGE_HARD_DELETE="1")
    assert json.loads(gone.stdout) == {"chunk_id": number, "deleted": True}
    assert here("chunks", "show", number).returncode == 1


@pytest.mark.parametrize(
    "command",
    [
        ("deactivate",),
        ("activate",),
        ("reclassify", "--kind", "quote"),
        ("set-policy", "--policy", "never_generate"),
    ],
)
def test_k3_of_several_chunks_one_that_is_not_there_fails_alone(
    kb_home: Path, here: Run, command: tuple[str, ...]
) -> None:
    for text in ("tides", "winds"):
        here("note", f"words about {text}")
    first, second = (
        chunk["id"] for chunk in json.loads(here("chunks", "list", "--json").stdout)["data"]
    )
    unknown = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    verb, *options = command

    done = here("chunks", verb, first, unknown, "no id", second, *options)

    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == [first, second]
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [unknown, "no id"]
    again = here("chunks", verb, first, unknown, second, *options, "--json")
    assert again.returncode == 1
    told = json.loads(again.stdout)
    assert [(item["id"], item["changed"]) for item in told["changed"]] == [
        (first, False),
        (second, False),
    ]
    assert [item["chunk_id"] for item in told["failed"]] == [unknown]
    assert here("chunks", verb, unknown, *options).returncode == 1
