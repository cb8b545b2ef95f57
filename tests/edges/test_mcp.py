"""H5, D7, B11, A3: the tools over MCP – on standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.plugins import Plugins
from kb_framework.remote import HttpTransport
from kb_testing.fixtures import Install, Run, RunningServer, kb_line, kb_mcp, stored_tables

Mode = Literal["auto", "legacy"]
MODES: list[Mode] = ["auto", "legacy"]
READ = {
    "kb_search",
    "kb_bulk_search",
    "kb_get_document",
    "kb_list_documents",
    "kb_tags",
    "kb_get_chunks",
}
READ |= {"kb_impact", "kb_views"}
# They change nothing that is searched, but keep a record of what they answered.
RECORD = {"kb_context", "kb_ask", "kb_research_search"}
WRITE = READ | {"kb_addnote", "kb_upload_start", "kb_upload_append", "kb_upload_finish"}
CURATE = WRITE | {"kb_bulk_delete", "kb_bulk_tags", "kb_bulk_set_tags"}


def talk(
    where: StdioServerParameters | str,
    conversation: Callable[[Client], Awaitable[Any]],
    mode: Mode = "auto",
) -> Any:
    """Connect, have the conversation, disconnect; what it came to."""

    async def run() -> Any:
        async with Client(where, mode=mode, read_timeout_seconds=600) as client:
            return await conversation(client)

    return asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed; its structured content, which its text must equal."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return same(result)


async def fail(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool that must fail; the body of its error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return same(result)


def same(result: Any) -> Any:
    assert [item.type for item in result.content] == ["text"]
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


@pytest.fixture(scope="module")
def http(server: RunningServer) -> str:
    with server.engine as engine:
        # Enough for the safety threshold never to be in the way.
        for number in range(10):
            engine.post("/notes", {"text": f"another {number}"})
    return f"{server.url}/mcp"


# The tools


async def list_tools(client: Client) -> dict[str, Any]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_says_what_it_is_in_few_words(http: str, mode: Mode) -> None:
    tools = talk(http, list_tools, mode)

    assert set(tools) >= CURATE
    for name, tool in tools.items():
        assert tool.title, name
        assert tool.description, name
        assert len(tool.description.splitlines()) <= 6, name
        assert len(tool.description) <= 600, name
        hints = tool.annotations
        for hint in (
            hints.read_only_hint,
            hints.destructive_hint,
            hints.idempotent_hint,
            hints.open_world_hint,
        ):
            assert isinstance(hint, bool), name
        assert not (hints.read_only_hint and hints.destructive_hint), name


def test_the_hints_tell_readers_from_writers_and_destroyers(http: str) -> None:
    tools = talk(http, list_tools)

    assert {name for name in CURATE if tools[name].annotations.read_only_hint} == READ
    assert {name for name in CURATE if tools[name].annotations.destructive_hint} >= {
        "kb_bulk_delete",
        "kb_bulk_set_tags",
    }
    assert not any(tools[name].annotations.open_world_hint for name in CURATE)


def test_the_schema_of_every_tool_is_plain(http: str) -> None:
    for name, tool in talk(http, list_tools).items():
        schema = tool.input_schema
        assert schema["type"] == "object", name
        assert schema["additionalProperties"] is False, name
        assert not {"title", "$defs"} & set(schema), name
        assert "engine" not in schema.get("properties", {}), name
        for field, described in schema.get("properties", {}).items():
            assert "title" not in described, f"{name} {field}"
            assert {"type", "anyOf", "enum", "const", "allOf"} & set(described), f"{name} {field}"
        json.dumps(schema)


def test_the_bulk_tools_take_what_they_shall_and_say_that_tags_select(http: str) -> None:
    tools = talk(http, list_tools)
    selection = {"document_ids", "tags", "doc_type", "from_id", "to_id", "force"}

    assert set(tools["kb_bulk_delete"].input_schema["properties"]) >= selection
    assert set(tools["kb_bulk_tags"].input_schema["properties"]) >= selection | {"add", "remove"}
    assert set(tools["kb_bulk_set_tags"].input_schema["properties"]) >= selection | {"new_tags"}
    assert tools["kb_bulk_set_tags"].input_schema["required"] == ["new_tags"]
    for name in ("kb_bulk_delete", "kb_bulk_tags", "kb_bulk_set_tags"):
        assert "tags" in tools[name].description
        assert "select" in tools[name].description.lower()


@pytest.mark.parametrize(
    ("profile", "wanted"), [("read", READ), ("write", WRITE), ("curate", CURATE), ("admin", CURATE)]
)
def test_a_profile_chooses_the_tools(kb_home: Path, profile: str, wanted: set[str]) -> None:
    async def conversation(client: Client) -> Any:
        refused = (
            None if profile != "read" else await fail(client, "kb_bulk_delete", document_ids=[1])
        )
        return set(await list_tools(client)), refused

    names, refused = talk(kb_mcp("--profile", profile), conversation)

    assert names & CURATE == wanted
    if refused:
        assert "kb_bulk_delete" in refused["message"]


@pytest.mark.new_database
def test_the_cost_of_the_tools_is_told(kb_run: Run, kb_home: Path) -> None:
    done = kb_run("mcp", "--cost", "--json")
    read = json.loads(kb_run("mcp", "--cost", "--profile", "read", "--json").stdout)

    costs = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(costs) >= CURATE
    # The sample of an outside plugin, if it is installed, adds its own.
    assert {name for name in read if not name.startswith("kb_hold_")} == READ | RECORD
    assert all(0 < cost < 900 for cost in costs.values())
    shown = kb_run("mcp", "--cost").stdout.splitlines()
    assert shown[-1].split("\t") == ["total", str(sum(costs.values()))]
    assert not (kb_home / "kb.sqlite").exists()


def test_the_address_chooses_a_profile(server: RunningServer, http: str, ask: Any) -> None:
    names = {
        profile: set(talk(f"{http}?profile={profile}", list_tools)) for profile in ("read", "admin")
    }
    default = set(talk(http, list_tools))

    assert names["read"] & CURATE == READ
    assert names["read"] < default < names["admin"]
    for address in ("/mcp?profile=nosuch", "/mcp?profil=read"):
        refused = ask(server.url, "POST", address, b"{}", {"Content-Type": "application/json"})
        assert (refused.status, refused.json["error"]) == (400, "invalid_input")


# Calls


async def walk(client: Client) -> None:
    """Every tool of documents, search and bulk, once."""
    added = await call(
        client, "kb_addnote", text="# Walk\n\nabout zebras", tags=["walk", "old"], metadata={"a": 1}
    )
    number = added["document"]["id"]
    assert added["document"]["title"] == "Walk"

    shown = await call(client, "kb_get_document", document_id=number, content=True)
    assert shown["chunks"][0]["content"] == "# Walk\n\nabout zebras"
    assert "chunks" not in await call(client, "kb_get_document", document_id=number)

    upload = await call(client, "kb_upload_start", filename="part.md", tags=["walk"])
    upload = await call(
        client, "kb_upload_append", upload_id=upload["upload_id"], content=f"# Parts {number}\n\n"
    )
    rest = base64.b64encode(b"of giraffes").decode()
    upload = await call(
        client,
        "kb_upload_append",
        upload_id=upload["upload_id"],
        content=rest,
        offset=upload["received"],
        base64=True,
    )
    finished = await call(client, "kb_upload_finish", upload_id=upload["upload_id"])
    assert finished["document"]["title"] in {f"Parts {number}", "part.md"}

    listed = await call(client, "kb_list_documents", tags=["walk"], per_page=100)
    assert {number, finished["document"]["id"]} <= {item["id"] for item in listed["data"]}
    assert "walk" in {item["tag"] for item in (await call(client, "kb_tags"))["data"]}

    found = await call(client, "kb_search", query="zebras", tags=["walk"], k=5)
    assert found["schema_version"] == "search_response.v1"
    assert found["hits"][0]["title"] == "Walk"

    tagged = await call(client, "kb_bulk_tags", document_ids=[number], add=["new"], remove=["old"])
    assert (tagged["status"], tagged["matched"], tagged["succeeded"], tagged["errors"]) == (
        "done",
        1,
        1,
        [],
    )
    replaced = await call(client, "kb_bulk_set_tags", document_ids=[number], new_tags=["only"])
    assert replaced["succeeded"] == 1
    assert (await call(client, "kb_get_document", document_id=number))["tags"] == ["only"]
    ids = [number, finished["document"]["id"]]
    deleted = await call(client, "kb_bulk_delete", document_ids=ids, force=True)
    assert deleted["succeeded"] == 2
    assert (await fail(client, "kb_get_document", document_id=number))["error"] == "not_found"


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_works_over_http(http: str, mode: Mode) -> None:
    talk(http, walk, mode)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_works_over_standard_input_and_output(kb_home: Path, mode: Mode) -> None:
    talk(kb_mcp(), walk, mode)


def test_a_list_or_an_object_may_come_as_the_text_of_its_json(http: str) -> None:
    async def conversation(client: Client) -> None:
        added = await call(
            client, "kb_addnote", text="text", tags='["as", "text"]', metadata='{"a": [1]}'
        )
        document = added["document"]
        assert (document["tags"], document["metadata"]["a"]) == (["as", "text"], [1])
        listed = await call(client, "kb_list_documents", tags='["as", "text"]')
        assert document["id"] in {item["id"] for item in listed["data"]}
        changed = await call(
            client, "kb_bulk_tags", document_ids=f"[{document['id']}]", add='["more"]'
        )
        assert changed["succeeded"] == 1
        shown = await call(client, "kb_get_document", document_id=str(document["id"]))
        assert shown["tags"] == ["as", "more", "text"]
        # A text stays a text, whatever it looks like.
        assert (await call(client, "kb_addnote", text="[1, 2]"))["document"]["title"] == "[1, 2]"
        assert (await call(client, "kb_addnote", text="a", tags="8, b"))["document"]["tags"] == [
            "8",
            "b",
        ]

    talk(http, conversation)


def test_a_text_that_is_nested_deep_is_no_object(http: str) -> None:
    async def conversation(client: Client) -> None:
        answer = await client.call_tool(
            "kb_addnote", {"text": "a", "metadata": '{"a":' + "[" * 100_000}
        )
        assert answer.is_error
        assert "metadata" in str(answer.content)

    talk(http, conversation)


def test_whole_numbers_may_have_a_point_and_empty_filters_are_not_given(http: str) -> None:
    async def conversation(client: Client) -> None:
        number = (await call(client, "kb_addnote", text="a river of whole numbers"))["document"][
            "id"
        ]
        assert (await call(client, "kb_get_document", document_id=float(number)))["id"] == number
        assert (await call(client, "kb_list_documents", page=1.0, doc_type=""))["meta"]["page"] == 1
        found = await call(
            client,
            "kb_search",
            query="whole numbers",
            k=3.0,
            lang="",
            doc_type="",
            path_glob="",
            cursor="",
        )
        assert number in {hit["doc_id"] for hit in found["hits"]}

    talk(http, conversation)


WRONG = [
    ("kb_addnote", {}, "text"),
    ("kb_addnote", {"text": 1}, "text"),
    ("kb_addnote", {"text": "a", "tags": " "}, "tags"),
    ("kb_addnote", {"text": "a", "tags": [1]}, "tags"),
    ("kb_addnote", {"text": "a", "titel": "b"}, "titel"),
    ("kb_get_document", {"document_id": "one"}, "document_id"),
    ("kb_get_document", {"document_id": True}, "document_id"),
    ("kb_get_document", {"document_id": 1, "content": "yes"}, "content"),
    ("kb_search", {}, "query"),
    ("kb_search", {"query": "a", "mode": "nope"}, "mode"),
    ("kb_search", {"query": "a", "k": "many"}, "k"),
    ("kb_bulk_delete", {"tag": ["a"]}, "tag"),
    ("kb_bulk_delete", {"document_ids": [True]}, "document_ids"),
    ("kb_bulk_delete", {"document_ids": [1], "force": "true!"}, "force"),
    ("kb_bulk_set_tags", {"document_ids": [1]}, "new_tags"),
    (
        "kb_upload_append",
        {"upload_id": "00000000-0000-4000-8000-000000000000", "content": "!", "base64": True},
        "content",
    ),
    ("kb_nosuch", {}, "kb_nosuch"),
]


@pytest.mark.parametrize("mode", MODES)
def test_a_wrong_argument_is_told_by_name(http: str, mode: Mode) -> None:
    async def conversation(client: Client) -> list[Any]:
        return [await fail(client, tool, **arguments) for tool, arguments, _ in WRONG]

    for (tool, arguments, field), error in zip(WRONG, talk(http, conversation, mode), strict=True):
        assert set(error) == {"schema_version", "code", "message", "details", "hint"}, (
            tool,
            arguments,
            error,
        )
        assert (error["schema_version"], error["code"]) == ("error.v1", "invalid_input"), (
            tool,
            arguments,
            error,
        )
        assert field in error["message"], (tool, arguments, error)


def test_bad_input_that_the_engine_refuses_is_an_error_of_the_tool(http: str) -> None:
    async def conversation(client: Client) -> None:
        for tool, arguments, field in (
            ("kb_addnote", {"text": ""}, "text"),
            ("kb_addnote", {"text": "a\x00b"}, "text"),
            ("kb_addnote", {"text": "a", "tags": ["a,b"]}, "tags"),
            ("kb_get_document", {"document_id": 2**63}, "document_id"),
            ("kb_list_documents", {"page": 0}, "page"),
            ("kb_list_documents", {"per_page": 101}, "per_page"),
            ("kb_search", {"query": "a", "k": 101}, "k"),
            ("kb_bulk_delete", {"document_ids": []}, "document_ids"),
            ("kb_bulk_delete", {"force": True}, "selection"),
            ("kb_bulk_tags", {"document_ids": [1]}, "add"),
            ("kb_upload_finish", {"upload_id": "nonsense"}, ""),
            ("kb_upload_append", {"upload_id": "../health", "content": "a"}, ""),
        ):
            error = await fail(client, tool, **arguments)
            assert field in error["message"], (tool, arguments, error)
            assert error.get("error", error.get("code")) in {"invalid_input", "not_found"}, (
                tool,
                arguments,
                error,
            )

    talk(http, conversation)


@pytest.mark.parametrize("mode", MODES)
def test_an_error_of_the_engine_comes_with_its_own_body(kb_home: Path, mode: Mode) -> None:
    async def conversation(client: Client) -> tuple[Any, Any]:
        for number in range(4):
            await call(client, "kb_addnote", text=f"note {number}", tags=["all"])
        return await fail(client, "kb_get_document", document_id=999), await fail(
            client, "kb_bulk_delete", tags=["all"]
        )

    missing, refused = talk(kb_mcp(), conversation, mode)

    assert missing == {
        "error": "not_found",
        "message": "there is no document 999",
        "document_id": 999,
    }
    assert {name: value for name, value in refused.items() if name != "message"} == {
        "error": "safety_threshold_exceeded",
        "matched": 4,
        "total": 4,
        "percent": 100.0,
        "threshold": 70,
    }


FAULTY = """
from kb_framework import api, hookimpl

def faulty(engine) -> dict:
    "Raises."
    raise RuntimeError("SELECT token FROM secrets in /home/somebody")

def listing(engine) -> list:
    "Answers with a list."
    return [1, 2]

@hookimpl
def kb_tools():
    return [
        api.Tool("kb_faulty", "faulty_tools:faulty", "Faulty", "read", read_only=True),
        api.Tool("kb_listing", "faulty_tools:listing", "Listing", "read", read_only=True),
        api.Tool("kb_absent", "faulty_tools:nosuch", "Absent", "read", read_only=True),
    ]
"""


def test_a_tool_that_raises_leaks_nothing_and_hurts_no_other(
    kb_plugin: Install, kb_home: Path
) -> None:
    kb_plugin("faulty", FAULTY.replace("nosuch", "listing"), module="faulty_tools")

    async def conversation(client: Client) -> tuple[Any, Any, Any]:
        error = await fail(client, "kb_faulty")
        listed = await client.call_tool("kb_listing", {})
        return error, listed, await call(client, "kb_tags")

    error, listed, tags = talk(kb_mcp(), conversation)

    assert error["code"] == "internal_error"
    assert "SELECT" not in json.dumps(error)
    assert "/home" not in json.dumps(error)
    assert json.loads(
        listed.content[0].text
    ) == listed.structured_content or listed.structured_content == {"data": [1, 2]}
    assert tags["data"] == []


def test_a_tool_that_cannot_be_imported_costs_its_plugin_and_no_other(
    kb_plugin: Install, kb_home: Path
) -> None:
    kb_plugin("faulty", FAULTY, module="faulty_tools")

    names = set(talk(kb_mcp(), list_tools))

    assert names >= CURATE
    assert not names & {"kb_faulty", "kb_listing", "kb_absent"}


# The process


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class Process:
    """`kb mcp` without a client library: lines in, lines out."""

    def __init__(self, *arguments: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(
            kb_line("mcp", *arguments), **pipes, text=True, encoding="utf-8"
        )

    def send(self, message: dict[str, Any] | str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(
            (message if isinstance(message, str) else json.dumps(message)) + "\n"
        )
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def start(self) -> dict[str, Any]:
        self.send(INITIALIZE)
        answer = self.receive()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.send(
            {
                "jsonrpc": "2.0",
                "id": 7,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments},
            }
        )
        return self.receive()

    def end(self) -> tuple[int, str, str]:
        out, said = self.process.communicate(timeout=600)
        return self.process.returncode, out, said


@pytest.mark.both_stores
@pytest.mark.new_database
@pytest.mark.parametrize("mode", MODES)
def test_the_handshake_is_answered_without_opening_the_database(kb_home: Path, mode: Mode) -> None:
    def is_made() -> bool:
        return (
            bool(stored_tables())
            if os.environ.get("KB_DATABASE_URL")
            else (kb_home / "kb.sqlite").exists()
        )

    async def conversation(client: Client) -> tuple[Any, bool, bool]:
        tools = await list_tools(client)
        before = is_made()
        await call(client, "kb_tags")
        return tools, before, is_made()

    tools, before, after = talk(kb_mcp(), conversation, mode)

    assert tools
    assert (before, after) == (False, True)


def test_the_server_introduces_itself(kb_home: Path) -> None:
    process = Process()
    answer = process.start()
    process.end()

    assert answer["result"]["serverInfo"]["name"] == "kb"
    assert answer["result"]["serverInfo"]["version"]
    assert answer["result"]["instructions"]
    assert "tools" in answer["result"]["capabilities"]


def test_the_server_ends_when_its_input_ends(kb_home: Path) -> None:
    at_once = Process()
    assert at_once.end() == (0, "", "")

    after_a_call = Process()
    after_a_call.start()
    assert (
        "isError" not in after_a_call.call("kb_tags")["result"]
        or after_a_call.call("kb_tags")["result"]["isError"] is False
    )
    code, out, said = after_a_call.end()
    assert (code, out) == (0, "")
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_although_its_input_is_open(
    kb_home: Path, number: signal.Signals
) -> None:
    process = Process()
    process.start()
    process.process.send_signal(number)
    try:
        process.process.wait(timeout=600)
        ended = True
    except subprocess.TimeoutExpired:
        ended = False
        process.process.kill()
    _, _, said = process.end()

    assert ended
    assert "Traceback" not in said


def test_only_messages_go_to_standard_output(kb_home: Path) -> None:
    process = Process()
    process.start()
    process.send("this is no JSON")
    process.send('{"jsonrpc": "2.0", "id": "x", "method": "nosuch/method"}')
    process.send({"jsonrpc": "2.0", "id": 5, "method": "tools/list"})
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1].get("id") != 5:
        messages.append(process.receive())
    code, out, said = process.end()

    assert all(message["jsonrpc"] == "2.0" for message in messages)
    assert messages[-1]["result"]["tools"]
    assert (code, out) == (0, "")
    assert "Traceback" not in said


def test_text_of_any_script_survives(kb_home: Path) -> None:
    text = "# Größe 크기 🙂\n\n전각　スペース"
    process = Process()
    process.start()
    added = process.call("kb_addnote", text=text)["result"]["structuredContent"]
    shown = process.call("kb_get_document", document_id=added["document"]["id"], content=True)[
        "result"
    ]
    process.end()

    assert shown["structuredContent"]["chunks"][0]["content"] == text
    assert "크기" in shown["content"][0]["text"]


def test_the_server_uses_the_engine_that_serves_its_folder(
    serve: Any, stop: Any, kb_home: Path
) -> None:
    server = serve()

    async def conversation(client: Client) -> Any:
        return await call(client, "kb_addnote", text="by way of the server")

    talk(kb_mcp(), conversation)
    stop(server)

    assert any('"POST", "path": "/api/v1/notes"' in line for line in server.log)


# Together


@pytest.mark.both_stores
def test_a_document_from_anywhere_is_seen_everywhere(
    serve: Any, kb_run: Run, tmp_path: Path
) -> None:
    server = serve()
    content = b"# Shared\n\nwords about otters"
    (tmp_path / "shared.md").write_bytes(content)

    by_command = json.loads(kb_run("add", str(tmp_path / "shared.md"), "--json").stdout)["files"][
        0
    ]["document_id"]
    with Engine(HttpTransport(server.url), Plugins(read_bootstrap())) as engine:
        uploaded = engine.add_file("shared.md", content)
        assert uploaded["duplicate"] is True
        assert uploaded["document"]["id"] == by_command

    async def conversation(client: Client) -> Any:
        noted = await call(client, "kb_addnote", text=content.decode())
        listed = await call(client, "kb_list_documents")
        found = await call(client, "kb_search", query="otters")
        return noted, listed, found

    noted, by_tool, found = talk(f"{server.url}/mcp", conversation)
    wanted = {by_command, noted["document"]["id"]}

    with server.engine as engine:
        by_http = engine.get("/documents")
    listed_by_command = json.loads(kb_run("list", "--json").stdout)
    assert len(wanted) == 2
    assert {item["id"] for item in by_http["data"]} == wanted
    assert by_tool["data"] == by_http["data"] == listed_by_command["data"]
    assert {hit["doc_id"] for hit in found["hits"]} == wanted
    assert {
        hit["doc_id"] for hit in json.loads(kb_run("search", "otters", "--json").stdout)["hits"]
    } == wanted


@pytest.mark.both_stores
def test_two_servers_and_commands_write_to_one_folder_at_the_same_time(
    kb_home: Path, kb_run: Run
) -> None:
    async def write(name: str) -> None:
        async with Client(kb_mcp(), read_timeout_seconds=600) as client:
            for number in range(8):
                await call(client, "kb_addnote", text=f"{name} {number}", tags=[name])

    async def command() -> list[Any]:
        return [
            await asyncio.to_thread(kb_run, "note", f"command {number}", "--tags", "command")
            for number in range(3)
        ]

    async def together() -> list[Any]:
        _, _, done = await asyncio.gather(write("first"), write("second"), command())
        return done

    commands = asyncio.run(together())

    assert [done.returncode for done in commands] == [0, 0, 0], [done.stderr for done in commands]
    counts = {
        item["tag"]: item["count"] for item in json.loads(kb_run("tags", "--json").stdout)["data"]
    }
    assert counts == {"first": 8, "second": 8, "command": 3}
    assert kb_run("doctor").returncode == 0


# Over HTTP


@pytest.mark.parametrize(
    ("body", "headers", "statuses"),
    [
        (b"{", {}, {400}),
        (b"\xff\xfe", {}, {400}),
        (b"[" * 10_000, {}, {400}),
        (b'{"jsonrpc": "2.0"}', {}, {400}),
        (b"{}", {"Content-Type": "text/plain"}, {400, 415}),
        (b"{}", {"Accept": "text/html"}, {400, 406}),
    ],
)
def test_nonsense_at_the_http_endpoint_is_refused(
    server: RunningServer, ask: Any, body: bytes, headers: dict[str, str], statuses: set[int]
) -> None:
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    assert ask(server.url, "POST", "/mcp", body, {**usual, **headers}).status in statuses
