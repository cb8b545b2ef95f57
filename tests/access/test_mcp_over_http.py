"""A3: MCP over HTTP under the same keys; a tool asks the engine as the caller, never as the owner."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from kb_testing.fixtures import RunningServer, StoreOf, start_server, stop_server

Mode = Literal["auto", "legacy"]
MODES: list[Mode] = ["auto", "legacy"]


@dataclass
class Served:
    server: RunningServer
    keys: dict[str, str]

    def talk(
        self, who: str, conversation: Callable[[Client], Awaitable[Any]], mode: Mode = "auto"
    ) -> Any:
        async def run() -> Any:
            shown = {"Authorization": f"Bearer {self.keys[who]}"}
            async with httpx2.AsyncClient(headers=shown, timeout=600) as connection:
                transport = streamable_http_client(f"{self.server.url}/mcp", http_client=connection)
                async with Client(transport, mode=mode, read_timeout_seconds=600) as client:
                    return await conversation(client)

        return asyncio.run(run())

    def post(self, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(self.server.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        usual = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        try:
            connection.request("POST", "/mcp", body=json.dumps(body), headers={**usual, **headers})
            answer = connection.getresponse()
            return (
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read(),
            )
        finally:
            connection.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, kb_store_of: StoreOf) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served") / "kb-home"
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("KB_")]:
            patch.delenv(name)
        server = start_server(KB_DATA_DIR=str(home), **kb_store_of())
    wanted = {
        "acme editor": ("editor", "acme"),
        "acme viewer": ("viewer", "acme"),
        "other": ("admin", "other"),
    }
    keys = {}
    with server.engine as engine:
        engine.post("/notes", {"text": "the owner's own otters"})
        admin = engine.post("/keys", {"user": "root", "role": "admin"})["key"]
    from kb_framework.client import Engine, HttpTransport

    with Engine(HttpTransport(server.url, admin)) as engine:
        for name, (role, org) in wanted.items():
            keys[name] = engine.post("/keys", {"user": name, "role": role, "organization": org})[
                "key"
            ]
        agent = {
            "user": "agent",
            "role": "viewer",
            "organization": "acme",
            "permissions": ["documents.read"],
        }
        keys |= {"root": admin, "agent": engine.post("/keys", agent)["key"]}
    yield Served(server, keys)
    stop_server(server)


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def test_without_a_key_there_is_not_even_a_handshake(served: Served) -> None:
    for headers in ({}, {"Authorization": "Bearer kb_wrong"}, {"Authorization": "Basic YTpi"}):
        status, answered, body = served.post(HELLO, **headers)
        assert (status, answered["www-authenticate"]) == (401, "Bearer")
        assert json.loads(body)["error"] == "unauthorized"


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_sees_and_writes_what_is_the_callers(served: Served, mode: Mode) -> None:
    async def write(client: Client) -> Any:
        added = await client.call_tool("kb_addnote", {"text": f"otters of acme, {mode}"})
        assert not added.is_error
        return added.structured_content

    async def search(client: Client) -> list[str]:
        found = await client.call_tool("kb_search", {"query": "otters"})
        return [hit["snippet"] for hit in found.structured_content["hits"]]

    document = served.talk("acme editor", write, mode)["document"]

    assert f"otters of acme, {mode}" in "".join(served.talk("acme viewer", search, mode))
    assert served.talk("other", search, mode) == []

    async def steal(client: Client) -> Any:
        return await client.call_tool(
            "kb_get_document", {"document_id": document["id"], "content": True}
        )

    stolen = served.talk("other", steal, mode)
    assert stolen.is_error
    assert stolen.structured_content["error"] == "not_found"


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_listed_and_work_only_for_those_who_may(served: Served, mode: Mode) -> None:
    async def names(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    viewer, editor, admin = (
        served.talk(who, names, mode) for who in ("acme viewer", "acme editor", "other")
    )
    assert "kb_addnote" not in viewer
    assert "kb_addnote" in editor
    assert "kb_bulk_delete" in admin - editor
    assert viewer < editor < admin

    async def add(client: Client) -> Any:
        return await client.call_tool("kb_addnote", {"text": "no"})

    refused = served.talk("acme viewer", add, mode)
    assert refused.is_error
    assert (refused.structured_content["error"], refused.structured_content["permission"]) == (
        "forbidden",
        "documents.write",
    )


def test_a_key_that_may_only_read_documents_is_enough_for_an_agent(served: Served) -> None:
    """The read-only key of docs/access.md: it needs no permission beyond those of its tools."""

    async def use(client: Client) -> tuple[set[str], Any]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, await client.call_tool("kb_search", {"query": "otters"})

    names, found = served.talk("agent", use, MODES[0])

    assert "kb_search" in names
    assert "kb_addnote" not in names
    assert not found.is_error


def test_a_key_that_is_revoked_or_rotated_ends_a_session_that_is_under_way(served: Served) -> None:
    from kb_framework.client import Engine, HttpTransport

    with Engine(HttpTransport(served.server.url, served.keys["root"])) as engine:
        for end in ("revoke", "rotate"):
            made = engine.post("/keys", {"user": "leaving", "role": "viewer"})
            shown = {"Authorization": f"Bearer {made['key']}"}
            status, answered, _ = served.post(HELLO, **shown)
            session = {
                "Mcp-Session-Id": answered["mcp-session-id"],
                "Mcp-Protocol-Version": "2025-06-18",
                **shown,
            }
            assert (
                served.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)[0]
                == 202
            )
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
            assert (status, served.post(listing, **session)[0]) == (200, 200)

            engine.delete(f"/keys/{made['id']}") if end == "revoke" else engine.post(
                f"/keys/{made['id']}/rotate"
            )

            assert served.post(listing, **session)[0] == 401


def test_a_session_belongs_to_the_key_that_began_it(served: Served) -> None:
    mine, other = (f"Bearer {served.keys[who]}" for who in ("acme editor", "other"))
    status, answered, _ = served.post(HELLO, Authorization=mine)
    assert status == 200
    session = {"Mcp-Session-Id": answered["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    assert served.post(ready, Authorization=mine, **session)[0] == 202
    assert served.post(listing, Authorization=other, **session)[0] == 404
    assert served.post(listing, **session)[0] == 401
    assert served.post(listing, Authorization=mine, **session)[0] == 200
