"""Every scenario of the requirements (000), by its name.

 1 Filter by tags and doc_type          test_filter_by_tags_and_doc_type
 2 Filter by ID range                   test_filter_by_id_range
 3 Filter by explicit IDs               test_filter_by_explicit_ids
 4 Combined filters                     test_combined_filters
 5 No selection fields provided         test_no_selection_fields_provided
 6 Threshold exceeded                   test_threshold_exceeded
 7 Threshold not exceeded               test_threshold_not_exceeded
 8 Force override                       test_force_override
 9 Zero threshold                       test_zero_threshold
10 Full success                         test_full_success
11 Partial failure                      test_partial_failure
12 Bulk delete by tag                   test_bulk_delete_by_tag
13 Bulk delete with no matches          test_bulk_delete_with_no_matches
14 Add and remove tags in one call      test_add_and_remove_tags_in_one_call
15 Replace all tags                     test_replace_all_tags
16 Migration adds column                test_migration_adds_column
17 MCP bulk delete by tag               test_mcp_bulk_delete_by_tag
18 MCP bulk tag update                  test_mcp_bulk_tag_update
19 MCP bulk set tags                    test_mcp_bulk_set_tags
20 CLI bulk remove with confirmation    test_cli_bulk_remove_with_confirmation
21 CLI bulk remove with --yes           test_cli_bulk_remove_with_yes
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect
from kb_framework.edges.http.app import create_app
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import EngineError
from kb_framework.remote import Reply
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Run, RunningServer

ROUTES: dict[str, dict[str, Any]] = {
    "delete": {},
    "tags": {"add": ["x"]},
    "set-tags": {"new_tags": ["x"]},
}


def note(engine: Engine, *tags: str, doc_type: str = "note") -> int:
    return engine.add_note(f"{doc_type} {tags}", tags=list(tags), doc_type=doc_type)["document"][
        "id"
    ]


def matched(engine: Engine, **selection: Any) -> list[int]:
    """Which documents a bulk endpoint picks: it gives them a tag."""
    engine.bulk_tags(**selection, add=["picked"], force=True)
    return [item["id"] for item in engine.list_documents(tags="picked", per_page=100)["data"]]


def refusal(engine: Engine, path: str, body: dict[str, Any]) -> EngineError:
    with pytest.raises(EngineError) as refused:
        engine.post(path, body)
    return refused.value


# Common selection filter


def test_filter_by_tags_and_doc_type(kb_engine: Engine) -> None:
    wanted = note(kb_engine, "draft", "more")
    note(kb_engine, "draft", doc_type="memo")
    note(kb_engine, "final")

    assert matched(kb_engine, tags=["draft"], doc_type="note") == [wanted]


def test_filter_by_id_range(kb_engine: Engine) -> None:
    ids = [note(kb_engine, str(number)) for number in range(5)]

    assert matched(kb_engine, from_id=ids[1], to_id=ids[3]) == ids[1:4]


def test_filter_by_explicit_ids(kb_engine: Engine) -> None:
    ids = [note(kb_engine, str(number)) for number in range(5)]

    assert matched(kb_engine, document_ids=[ids[0], ids[4], 12_000]) == [ids[0], ids[4]]


def test_combined_filters(kb_engine: Engine) -> None:
    note(kb_engine, "agent:mybot")
    first = note(kb_engine, "other")
    note(kb_engine, "agent:mybot", doc_type="memo")
    wanted = note(kb_engine, "agent:mybot")

    assert matched(kb_engine, tags=["agent:mybot"], doc_type="note", from_id=first) == [wanted]


@pytest.mark.parametrize("route", ROUTES)
def test_no_selection_fields_provided(kb_engine: Engine, route: str) -> None:
    note(kb_engine)

    for body in ({}, {"force": True}):
        refused = refusal(kb_engine, f"/bulk/{route}", {**body, **ROUTES[route]})
        assert (refused.http_status, refused.body["error"]) == (400, "invalid_input")


# Safety threshold: of a thousand documents


@pytest.fixture
def thousand(filled: Callable[..., None]) -> Iterator[Engine]:
    filled(1000)
    with connect() as engine:
        yield engine


@pytest.mark.parametrize("route", ROUTES)
def test_threshold_exceeded(thousand: Engine, route: str) -> None:
    refused = refusal(thousand, f"/bulk/{route}", {"to_id": 750, **ROUTES[route]})

    assert (refused.http_status, refused.body) == (
        409,
        {
            "error": "safety_threshold_exceeded",
            "message": "Operation would affect 750 of 1000 documents (75.0%). Exceeds safety threshold of 70%. "
            "Use force: true to proceed.",
            "matched": 750,
            "total": 1000,
            "percent": 75.0,
            "threshold": 70,
        },
    )


def test_threshold_not_exceeded(thousand: Engine) -> None:
    assert thousand.bulk_delete(to_id=500)["succeeded"] == 500


def test_force_override(thousand: Engine) -> None:
    assert thousand.bulk_delete(to_id=900, force=True)["succeeded"] == 900


def test_zero_threshold(kb_home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "0")
    with connect() as engine:
        note(engine)
        for route, fields in reversed(ROUTES.items()):
            assert engine.post(f"/bulk/{route}", {"from_id": 1, **fields})["succeeded"] == 1


# Synchronous response with audit log


def test_full_success(filled: Callable[..., None], kb_home: object) -> None:
    filled(100)
    with connect() as engine:
        result = engine.bulk_delete(to_id=50)
        job = engine.get_job(result["job_id"])

    assert result == {
        "job_id": job["id"],
        "status": "done",
        "matched": 50,
        "succeeded": 50,
        "failed": 0,
        "errors": [],
    }
    assert (job["job_type"], json.loads(job["filename"]), job["error"]) == (
        "bulk_delete",
        {"to_id": 50},
        None,
    )


def test_partial_failure(filled: Callable[..., None], kb_home: object) -> None:
    filled(100)
    with connect() as engine:
        engine.place_hold([7, 30], matter="Doe v. Roe")
        result = engine.bulk_delete(to_id=50)
        job = engine.get_job(result["job_id"])

    errors = [
        {"document_id": number, "error": "the document is on legal hold: 'Doe v. Roe'"}
        for number in (7, 30)
    ]
    assert result | {"job_id": 0} == {
        "job_id": 0,
        "status": "partial_failure",
        "matched": 50,
        "succeeded": 48,
        "failed": 2,
        "errors": errors,
    }
    assert json.loads(job["error"]) == errors


# Bulk delete, tags, set-tags


def test_bulk_delete_by_tag(kb_engine: Engine, kb_home: Any) -> None:
    gone = kb_engine.add_file("gone.md", b"zebras graze", tags=["old", "draft"])["document"]["id"]
    kept = kb_engine.add_file("kept.md", b"zebras run", tags=["old"])["document"]["id"]
    files = sorted(kb_home.glob("files/[0-9a-f][0-9a-f]/*"))
    assert len(files) == 2

    assert kb_engine.bulk_delete(tags=["old", "draft"])["succeeded"] == 1

    assert [item["id"] for item in kb_engine.list_documents()["data"]] == [kept]
    assert {item["tag"]: item["count"] for item in kb_engine.list_tags()["data"]} == {"old": 1}
    for mode in ("lexical", "vector"):
        assert {hit["doc_id"] for hit in kb_engine.search("zebras graze", mode=mode)["hits"]} == {
            kept
        }
    assert len([path for path in files if path.exists()]) == len(files) - 1
    assert refusal_of_get(kb_engine, gone) == 404


def refusal_of_get(engine: Engine, number: int) -> int:
    with pytest.raises(EngineError) as refused:
        engine.get_document(number)
    return refused.value.http_status


def test_bulk_delete_with_no_matches(kb_engine: Engine) -> None:
    note(kb_engine)

    result = kb_engine.bulk_delete(tags=["nobody"])

    assert (result["matched"], result["succeeded"], result["failed"]) == (0, 0, 0)


def test_add_and_remove_tags_in_one_call(kb_engine: Engine) -> None:
    number, other = note(kb_engine, "agent:mybot", "pending"), note(kb_engine, "pending")

    kb_engine.bulk_tags(tags=["agent:mybot"], add=["reviewed"], remove=["pending"])

    assert kb_engine.get_document(number)["tags"] == ["agent:mybot", "reviewed"]
    assert kb_engine.get_document(other)["tags"] == ["pending"]


def test_replace_all_tags(kb_engine: Engine) -> None:
    number, memo = note(kb_engine, "a", "b"), note(kb_engine, "a", doc_type="memo")

    kb_engine.bulk_set_tags(doc_type="note", new_tags=["clean", "final"])

    assert kb_engine.get_document(number)["tags"] == ["clean", "final"]
    assert kb_engine.get_document(memo)["tags"] == ["a"]


# Jobs table extension


def test_migration_adds_column(kb_home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "bulk")
    with connect() as engine:
        note(engine)
    monkeypatch.delenv("KB_DISABLED_PLUGINS")

    with connect() as engine:
        assert [job["job_type"] for job in engine.list_jobs()["data"]] == ["ingest"]


# MCP: the tools send what the client was asked for, and nothing else


class Watched(AsgiTransport):
    """The transport to an engine in this process, with what was sent."""

    def __init__(self) -> None:
        kb = open_kb()
        self.plugins = kb.plugins
        self.sent: list[tuple[str, str, Any]] = []
        super().__init__(create_app(kb), kb.close)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self.sent.append((method, target, json.loads(body)))
        return super().send(method, target, headers, body)


class Nobody:
    """A client that cannot ask."""

    possible = False
    answer = None

    def __call__(self, question: str, state: str) -> Any:
        raise AssertionError("nobody can be asked")


def through_tool(name: str, arguments: dict[str, Any]) -> tuple[list[tuple[str, str, Any]], Any]:
    transport = Watched()
    tool = bind_tools(transport.plugins, "curate")[name]
    with Engine(transport, transport.plugins) as engine:
        return transport.sent, tool.function(engine, Nobody(), **tool.arguments(arguments))


def test_mcp_bulk_delete_by_tag(kb_home: object) -> None:
    sent, result = through_tool("kb_bulk_delete", {"tags": ["old"]})

    assert sent == [("POST", "/api/v1/bulk/delete", {"tags": ["old"]})]
    assert (result["status"], result["matched"]) == ("done", 0)


def test_mcp_bulk_tag_update(kb_home: object) -> None:
    asked = {"tags": ["agent:mybot"], "add": ["reviewed"], "remove": ["draft"]}

    sent, _ = through_tool("kb_bulk_tags", asked)

    assert sent == [("POST", "/api/v1/bulk/tags", asked)]


def test_mcp_bulk_set_tags(kb_home: object) -> None:
    sent, _ = through_tool("kb_bulk_set_tags", {"doc_type": "note", "new_tags": ["clean"]})

    assert sent == [("POST", "/api/v1/bulk/set-tags", {"doc_type": "note", "new_tags": ["clean"]})]


# The command line


def test_cli_bulk_remove_with_confirmation(
    kb_server: RunningServer, in_terminal: Callable[..., tuple[int, str]]
) -> None:
    for number in range(2):
        kb_server.engine.post("/notes", {"text": f"text {number}", "tags": ["draft", "old"]})
    kb_server.engine.post("/notes", {"text": "another"})

    code, said = in_terminal("bulk-remove", "--tags", "draft,old", "--type", "note", answer="n\n")

    assert (
        "This will delete 2 documents matching: tags=[draft,old] type=note\nProceed? [y/N] " in said
    )
    assert code == 1
    assert kb_server.engine.get("/documents")["meta"]["total"] == 3


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y\n", 0, 1), ("n\n", 1, 2), ("\n", 1, 2), ("", 2, 2)]
)
def test_an_answer_may_come_through_a_pipe(
    kb_run: Run, kb_engine: Engine, answer: str, code: int, left: int
) -> None:
    kb_engine.add_note("one", tags=["draft"])
    kb_engine.add_note("two")
    done = kb_run("bulk-remove", "--tags", "draft", stdin=answer)
    assert "This will delete 1 document matching: tags=[draft]\nProceed? [y/N] " in done.stderr
    assert done.returncode == code
    assert ("give --yes" in done.stderr) is (answer == "")
    assert kb_engine.list_documents()["meta"]["total"] == left


def test_cli_bulk_remove_with_yes(kb_run: Run) -> None:
    kb_run("note", "one", "--tags", "draft")
    kb_run("note", "two")

    done = kb_run("bulk-remove", "--tags", "draft", "--yes")

    assert (done.returncode, done.stdout) == (0, "1 of 1 document done, 0 failed (job 3)\n")
