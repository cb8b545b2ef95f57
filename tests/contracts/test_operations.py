"""Operations: the same answers in this process and over HTTP, without HTTP where none is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_framework.errors import EngineError
from kb_framework.in_process import BorrowedTransport, LocalTransport
from kb_framework.remote import Requests
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install, Run

UNKNOWN = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "how often are keys rotated"}),
    ("search", {"query": "keys", "mode": "lexical", "k": 1, "facets": True}),
    ("search", {"query": "", "k": 1}),
    ("search", {"query": "keys", "k": "1"}),
    ("search", {"query": "keys", "nosuch": 1}),
    ("search", {"query": "keys", "cursor": "nonsense"}),
    ("search", {"query": '"', "syntax": True}),
    ("search", {}),
    ("bulk_search", {"queries": [{"query": "keys"}, {"query": ""}, 1]}),
    ("bulk_search", {"queries": [{"query": "keys"}], "max_tokens": 200}),
    ("bulk_search", {"queries": 1}),
    ("compare_sources", {"files": [{"source": "/a.md", "size": 1, "modified_ns": 1}]}),
    ("compare_sources", {"files": [], "root": "/nowhere"}),
    ("compare_sources", {"files": [{"source": "/a.md", "size": -1, "modified_ns": 1}]}),
    ("recall_folder", {"root": "/nowhere"}),
    ("recall_folder", {"root": ""}),
    ("forget_folder", {"root": "/nowhere"}),
    ("list_folders", {"page": 2}),
    ("list_folders", {"page": 0}),
    ("list_folders", {"per_page": 101}),
    ("find_chunk", {"chunk_id": "nowhere"}),
    ("list_chunks", {"q": "keys", "per_page": 2}),
    ("list_chunks", {"status": "gone"}),
    ("list_chunks", {"source_type": "wbe"}),
    ("get_chunk", {"chunk_id": UNKNOWN}),
    ("get_chunk", {"chunk_id": "no"}),
    ("deactivate_chunk", {"chunk_id": UNKNOWN}),
    ("deactivate_chunk", {"chunk_id": UNKNOWN, "kind": "fact"}),
    ("activate_chunk", {"chunk_id": UNKNOWN, "reason": "x" * 256}),
    ("reclassify_chunk", {"chunk_id": UNKNOWN}),
    ("reclassify_chunk", {"chunk_id": UNKNOWN, "chunk_kind": "rumour"}),
    ("set_chunk_policy", {"chunk_id": UNKNOWN, "usage_policy": "normal"}),
    ("delete_chunk", {"chunk_id": UNKNOWN, "confirm": True}),
    ("chunk_history", {"chunk_id": UNKNOWN.upper(), "page": 2}),
    ("list_events", {"chunk_id": UNKNOWN, "since": "2026-01-31"}),
    ("list_events", {"since": "yesterday"}),
    ("list_events", {"user_id": "nobody"}),
    ("list_left_over", {"page": 0}),
    ("knowledge_context", {"query": " "}),
    ("knowledge_context", {"query": "keys", "filters": {"nosuch": 1}}),
    ("knowledge_context", {"query": "keys", "pin": [UNKNOWN], "exclude": [UNKNOWN]}),
    ("ask", {"query": "keys", "top_k": 101}),
    ("list_snapshots", {}),
    ("get_research", {"saved_id": UNKNOWN}),
    ("list_plugins", {}),
    ("list_settings", {}),
    ("set_plugin", {"name": "nosuch", "enabled": False}),
    ("set_plugin", {"name": "research"}),
    ("get_snapshot", {"snapshot_id": UNKNOWN}),
    ("answer_snapshot", {"snapshot_id": UNKNOWN, "text": "Of keys.", "model": "a model"}),
    ("answer_snapshot", {"snapshot_id": UNKNOWN, "text": " ", "model": "a model"}),
    ("chunk_impact", {"chunk_id": UNKNOWN}),
    ("list_keys", {"organization": "elsewhere"}),
    ("list_keys", {"organization": "", "page": 2}),
    ("list_keys", {"per_page": 0}),
    ("create_key", {"user": "ann"}),
    ("create_key", {"user": "ann", "role": "nosuch"}),
    ("create_key", {"user": "ann", "role": "viewer", "permissions": []}),
    ("create_key", {"user": "ann", "role": "viewer", "expires": "yesterday"}),
    ("revoke_key", {"key_id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}),
    ("revoke_key", {"key_id": "nowhere"}),
    ("rotate_key", {"key_id": "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"}),
    ("list_users", {"page": 1}),
    ("remove_user", {"user_id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}),
    ("remove_user", {"user_id": "1"}),
    ("list_organizations", {}),
    ("create_organization", {"name": "default"}),
    ("create_organization", {"name": " "}),
    ("list_roles", {}),
    ("set_role", {"name": "reader", "permissions": ["documents.read"]}),
    ("set_role", {"name": "Reader", "permissions": ["documents.read"]}),
    ("set_role", {"name": "reader", "permissions": ["nosuch"]}),
    ("set_role", {"name": "viewer", "permissions": ["documents.read"]}),
    ("remove_role", {"name": "nosuch"}),
    ("remove_role", {"name": "No-Such"}),
    ("whoami", {}),
    ("list_audit", {"per_page": 101}),
    ("get_chunks", {"chunk_ids": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], "include_source": True}),
    ("get_chunks", {"chunk_ids": ["6ba7b810"]}),
    ("get_chunks", {"chunk_ids": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}),
    ("get_chunks", {}),
    ("get_chunks", {"chunk_ids": [], "include_source": 1}),
    ("bulk_preview", {"operation": "nosuch", "tags": ["a"]}),
    ("bulk_preview", {"operation": "tags", "tags": ["a"]}),
    ("bulk_preview", {"tags": ["a"]}),
    ("bulk_tags", {"document_ids": [1], "add": ["b"], "remove": ["b"]}),
    ("bulk_tags", {"add": ["b"]}),
    ("bulk_tags", {"tags": ["a"], "add": ["b"]}),
    ("bulk_tags", {"tags": ["a"], "add": ["b"], "nosuch": 1}),
    ("bulk_delete", {"document_ids": [], "force": True}),
    ("bulk_delete", {"plan": "nonsense"}),
]


@pytest.fixture
def kb(kb_home: Path) -> Iterator[KB]:
    opened = open_kb()
    yield opened
    opened.close()


def outcome(kb: KB, transport: Requests, name: str, values: dict[str, Any]) -> Any:
    operation = kb.plugins.operations.get(name)
    assert operation
    try:
        return transport.call(operation, values, None, "person")
    except EngineError as error:
        return error.http_status, error.body


def test_the_answers_are_the_same_with_and_without_http(kb: KB) -> None:
    local, over_http = BorrowedTransport(kb), AsgiTransport(create_app(kb))
    with Engine(over_http, kb.plugins) as engine:
        for number in range(5):
            engine.post(
                "/notes",
                {
                    "text": f"# Note {number}\n\nThe keys of door {number} are rotated often.",
                    "tags": ["a"],
                },
            )
        for name, values in CALLS:
            assert outcome(kb, local, name, values) == outcome(kb, over_http, name, values), (
                name,
                values,
            )
    local.close()


@pytest.mark.sqlite_only("two data folders")
def test_two_applications_in_one_process_each_serve_their_own_data(
    kb: KB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "other"))
    other = open_kb()
    try:
        for opened in (kb, other):
            with Engine(AsgiTransport(create_app(opened)), opened.plugins) as engine:
                # Files come by routes that are written by hand.
                engine.add_file("keys.md", b"# Keys")
        for opened in (kb, other):
            assert (
                Engine(BorrowedTransport(opened), opened.plugins).list_documents()["meta"]["total"]
                == 1
            )
    finally:
        other.close()


def test_a_model_is_given_what_a_model_may_see(kb: KB) -> None:
    engine = Engine(BorrowedTransport(kb), kb.plugins)
    document = engine.post("/notes", {"text": "never to be generated from"})["document"]["id"]
    chunk_id = engine.get(f"/documents/{document}/chunks")["data"][0]["id"]
    engine.post(f"/knowledge/chunks/{chunk_id}/set-policy", {"usage_policy": "never_generate"})

    assert engine.search("generated")["hits"]
    assert not engine.read_by("model").search("generated")["hits"]
    engine.close()


def test_a_key_is_looked_up(kb: KB) -> None:
    with pytest.raises(EngineError) as refused:
        Engine(BorrowedTransport(kb, "kb_nobody"), kb.plugins).search("anything")

    assert refused.value.http_status == 401


def test_the_body_of_a_request_does_not_set_what_the_path_says(kb: KB) -> None:
    transport = AsgiTransport(create_app(kb))
    reply = transport.send(
        "POST",
        "/api/v1/search?k=1",
        {"Content-Type": "application/json"},
        json.dumps({"query": "keys"}).encode(),
    )
    transport.close()

    assert reply.status == 400
    assert "k: is not a parameter of this request" in json.loads(reply.body)["message"]


AFTER = """
import contextlib, io, sys
from kb_framework.edges.cli.app import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
print(code, "litestar" in sys.modules)
"""


@pytest.mark.parametrize("command", ["add", "search"])
def test_commands_on_an_engine_of_their_own_import_no_http(
    kb_home: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("of keys", encoding="utf-8")
    arguments = [command, str(tmp_path / "notes") if command == "add" else "keys"]

    said = [
        subprocess.run(
            [sys.executable, "-c", AFTER, *words], capture_output=True, text=True, check=True
        ).stdout.split()
        for words in (["add", str(tmp_path / "notes")], arguments)
    ]

    assert said[1] == ["0", "False"]


PLUGIN = '''
from typing import Annotated

import sqlalchemy as sa
from pydantic import Field

from kb_framework import api, hookimpl


Letters = Annotated[int, Field(ge=1, description="At least so many letters.")]


def long_titles(tx, *, letters: Letters = 10) -> dict[str, int]:
    """Count documents by the length of their title."""
    from kb_framework.api.tables import documents

    found = tx.scalar(sa.select(sa.func.count()).where(tx.owns(documents), sa.func.length(documents.c.title) >= letters))
    return {"found": found}


@hookimpl
def kb_operations():
    return [
        api.Operation(
            "long_titles",
            "kb_titles:long_titles",
            "documents.read",
            api.Http("GET", "/titles/long"),
            help="Count documents with long titles.",
            command=api.Command("titles", group="Documents"),
            tool=api.Tool("kb_titles", title="Long titles"),
        )
    ]
'''


def test_an_operation_may_be_one_function(kb_home: Path, kb_plugin: Install, kb_run: Run) -> None:
    kb_plugin("titles", PLUGIN, module="kb_titles")
    opened = open_kb()
    with Engine(LocalTransport(opened), opened.plugins) as engine:
        engine.post("/notes", {"text": "text", "title": "a title of many letters"})
        engine.post("/notes", {"text": "other text", "title": "short"})

        assert engine.long_titles() == {"found": 1}
        assert engine.get("/titles/long", letters=3) == {"found": 2}
        with pytest.raises(EngineError, match="letters: must be 1 or more, not 0"):
            engine.long_titles(letters=0)
        with pytest.raises(EngineError, match="did you mean letters"):
            engine.long_titles(leters=3)

    done = kb_run("titles", "--letters", "3", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"found": 2})
    assert "At least so many letters." in kb_run("titles", "--help").stdout


# Every operation has a route and a client method. Those without a command of their own, with the command that calls them, or
# why there is none.
CALLED_BY_COMMANDS = {
    "add_file": "kb add",
    "add_files": "kb add",
    "append_upload": "kb add",
    "apply_import": "kb import",
    "bulk_preview": "kb bulk-remove",
    "bulk_search": "kb search",
    "check_all": "kb doctor",
    "compact": "kb reindex",
    "compare_sources": "kb sync",
    "create_session_link": "kb console",
    "discard_import": "kb import",
    "doctor": "kb doctor",
    "download_backup": "kb backup",
    "expire_missing": "kb sync",
    "export_archive": "kb export",
    "export_events": "kb chunks events",
    "find_chunk": "kb open",
    "finish_upload": "kb add",
    "forget_sources": "kb sync",
    "get_document": "kb show",
    "get_document_chunks": "kb show",
    "get_file": "kb show",
    "get_sources": "kb show",
    "get_wire": "kb schema",
    "knowledge_context": "kb ask",
    "list_plugins": "kb plugins",
    "list_settings": "kb config",
    "list_wire": "kb schema",
    "move_sources": "kb sync",
    "recall_folder": "kb sync",
    "reindex": "kb reindex",
    "remember_folder": "kb sync",
    "remove_user": "kb users remove",
    "repair": "kb doctor",
    "set_plugin": "kb plugins disable",
    "start_upload": "kb add",
    "stream_answer": "kb ask",
    "upload_import": "kb import",
    "answer_snapshot": "for what a generator elsewhere answered",
    "complete_tag": "for what is being typed",
    "document_growth": "for a plot",
    "health": "for monitoring",
    "update_document": "fields are changed in the console or by the file",
}


def test_every_operation_has_a_command_or_is_called_by_one(kb: KB) -> None:
    without = {item.name for item in kb.plugins.operations if not item.command}
    own = {name for name in without if kb.plugins.operations.plugin_of(name) != "legalhold"}
    named = {
        words.removeprefix("kb ") for words in CALLED_BY_COMMANDS.values() if words[:3] == "kb "
    }

    assert own == set(CALLED_BY_COMMANDS)
    assert named <= {item.name for item in kb.plugins.commands}


# A command without an operation works on the data folder itself, or calls several operations.
COMMANDS_ALONE = {
    "add",
    "backup",
    "config",
    "config set",
    "config unset",
    "console",
    "db partition",
    "doctor",
    "eval",
    "export",
    "import",
    "mcp",
    "migrate-store",
    "models install",
    "models list",
    "open",
    "plugins",
    "plugins check",
    "plugins disable",
    "plugins enable",
    "quickstart",
    "reindex",
    "restore",
    "serve",
    "sync",
    "users remove",
    "watch",
    "worker",
}


def test_every_other_command_and_every_tool_is_made_of_an_operation(kb: KB) -> None:
    plugins = kb.plugins
    alone = {item.name for item in plugins.commands} - set(plugins.operation_of_command)

    assert alone == COMMANDS_ALONE
    assert {item.name for item in plugins.tools} == set(plugins.operation_of_tool)


# What a model is not offered: administration, and what a person does with files or decides by looking.
NO_TOOL = {
    "add_file",
    "add_files",
    "answer_snapshot",
    "apply_import",
    "bulk_preview",
    "check_all",
    "compact",
    "compare_sources",
    "complete_tag",
    "create_key",
    "create_organization",
    "create_session_link",
    "delete_document",
    "discard_import",
    "doctor",
    "document_facets",
    "document_growth",
    "download_backup",
    "end_session",
    "expire_missing",
    "export_archive",
    "export_events",
    "find_chunk",
    "find_document",
    "forget_folder",
    "forget_sources",
    "get_document_chunks",
    "get_file",
    "get_job",
    "get_research",
    "get_snapshot",
    "get_sources",
    "get_view",
    "get_wire",
    "health",
    "list_audit",
    "list_events",
    "list_folders",
    "list_jobs",
    "list_keys",
    "list_left_over",
    "list_organizations",
    "list_plugins",
    "list_roles",
    "list_sessions",
    "list_settings",
    "list_snapshots",
    "list_users",
    "list_wire",
    "merge_tags",
    "move_sources",
    "recall_folder",
    "reindex",
    "remember_folder",
    "remove_role",
    "remove_user",
    "remove_view",
    "rename_tag",
    "repair",
    "research_recent",
    "revoke_key",
    "rotate_key",
    "save_view",
    "schema",
    "set_document_tags",
    "set_plugin",
    "set_role",
    "stream_answer",
    "update_document",
    "upload_import",
    "whoami",
}


def test_every_operation_but_these_has_a_tool(kb: KB) -> None:
    plugins = kb.plugins
    without = {item.name for item in plugins.operations if not item.tool}

    assert {
        name for name in without if plugins.operations.plugin_of(name) != "legalhold"
    } == NO_TOOL


# Forms hold files, whose routes are written by hand.
BY_HAND = {"add_file", "add_files"}


def test_every_operation_but_forms_has_the_route_that_is_made_of_it(kb: KB) -> None:
    assert {item.name for item in kb.plugins.operations if item.http.by_hand} == BY_HAND
