"""A knowledge base with two organizations, asked as over a network: every request shows a key, or none."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from kb_framework.app import KB, open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_framework.plugins import Plugins
from kb_framework.remote import Reply
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import StoreOf

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Operation:
    """What the OpenAPI document says of a route."""

    method: str
    path: str
    permission: str
    public: bool
    described: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Base:
    """An open knowledge base, and ways to ask it."""

    def __init__(self) -> None:
        self.plugins = Plugins(read_bootstrap())
        self.kb: KB = open_kb(read_bootstrap(), self.plugins)
        self.app = create_app(self.kb)
        self.owner = Engine(AsgiTransport(self.app), self.plugins)
        self.network = AsgiTransport(self.app, actor=None)

    def key(self, role: str, org: str = "default", user: str = "", **fields: Any) -> str:
        """A new key, made by the person at the data folder."""
        wanted = {"user": user or f"{role} of {org}", "role": role, "organization": org, **fields}
        return self.owner.post("/keys", wanted)["key"]

    def engine(self, key: str) -> Engine:
        return Engine(AsgiTransport(self.app, api_key=key), self.plugins)

    def ask(
        self,
        key: str | None,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        fields = {"Content-Type": "application/json"} if body is not None else {}
        fields |= {"Authorization": f"Bearer {key}"} if key is not None else {}
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        if method == "GET":
            # An answer that is streamed is only sent to who listens.
            with self.network.exchange(method, path, {**fields, **(headers or {})}, ()) as reply:
                return Reply(reply.status, reply.headers, b"".join(reply.parts))
        return self.network.send(method, path, {**fields, **(headers or {})}, data)

    @cached_property
    def openapi(self) -> dict[str, Any]:
        return json.loads(self.network.send("GET", "/schema/openapi.json", {}, b"").body)

    def operations(self) -> list[Operation]:
        found = []
        for path, methods in self.openapi["paths"].items():
            for method, described in methods.items():
                security = described.get("security") or []
                named = [scopes for item in security for scopes in item.values()]
                permission = named[0][0] if named and named[0] else ""
                found.append(Operation(method.upper(), path, permission, not security, described))
        return found

    def close(self) -> None:
        self.owner.close()
        self.network.close()
        self.kb.close()


@pytest.fixture
def base(kb_home: Path) -> Iterator[Base]:
    opened = Base()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, kb_store_of: StoreOf) -> Iterator[Base]:
    """One for all tests of a module, with a key of every role in the first organization and in another."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("KB_")]:
            patch.delenv(name)
        patch.setenv("KB_DATA_DIR", str(tmp_path_factory.mktemp("shared") / "kb-home"))
        for name, value in kb_store_of().items():
            patch.setenv(name, value)
        for name in ("SEARCH_PER_MINUTE", "ADD_PER_MINUTE", "ADD_PER_DAY"):
            patch.setenv(f"KB_RESEARCH_{name}", "0")
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        opened = Base()
        yield opened
        opened.close()


MakeKey = Callable[..., str]
