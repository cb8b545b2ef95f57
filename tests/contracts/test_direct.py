"""Routes that commands in the engine's own process call without HTTP: the same answers, and what they spare."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb_framework.api import Direct
from kb_framework.app import KB, open_kb
from kb_framework.client import AsgiTransport, Engine, LocalTransport
from kb_framework.errors import EngineError
from kb_framework.testing import Install
from kb_framework.web import create_app

BODIES: dict[str, list[Any]] = {
    "/search": [
        {"query": "how often are keys rotated"},
        {"query": "keys", "mode": "lexical", "k": 1, "trace": False, "facets": True},
        {"query": "", "k": 1},
        {"query": "keys", "k": "1"},
        {"query": "keys", "nosuch": 1},
        {"query": "keys", "cursor": "nonsense"},
        {"query": '"', "syntax": True},
        ["keys"],
        None,
    ],
    "/search/bulk": [
        {"queries": [{"query": "keys"}, {"query": ""}, 1]},
        {"queries": [{"query": "keys"}], "max_tokens": 200},
        {"queries": 1},
    ],
    "/sources/compare": [
        {"files": [{"source": "/a.md", "size": 1, "modified_ns": 1}]},
        {"files": [], "root": "/nowhere"},
        {"files": [{"source": "/a.md", "size": -1, "modified_ns": 1}]},
    ],
}


@pytest.fixture
def kb(kb_home: Path) -> Iterator[KB]:
    opened = open_kb()
    yield opened
    opened.close()


def answer(transport: AsgiTransport, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    sent = {"Content-Type": "application/json", **(headers or {})}
    reply = transport.send("POST", f"/api/v1{path}", sent, b"" if body is None else json.dumps(body).encode())
    return reply.status, json.loads(reply.body)


def declared(kb: KB) -> list[Direct]:
    return [item for routes in kb.plugins.routes for item in routes.direct]


def test_every_one_is_tried_here_and_is_a_route_that_only_reads(kb: KB) -> None:
    app = create_app(kb).app
    routes = {(route.path, handler) for route in app.routes for handler in getattr(route, "route_handlers", ())}

    for item in declared(kb):
        (handler,) = [handler for path, handler in routes if path == f"/api/v1{item.path}" and "POST" in handler.http_methods]
        assert handler.status_code == 200
        assert handler.opt["permission"].endswith(".read")
    assert {item.path for item in declared(kb)} == set(BODIES)


def test_the_answers_are_the_same(kb: KB) -> None:
    local, over_http = LocalTransport(kb), AsgiTransport(create_app(kb))
    with Engine(over_http, kb.plugins) as engine:
        for number in range(5):
            engine.post("/notes", {"text": f"# Note {number}\n\nThe keys of door {number} are rotated often.", "tags": ["a"]})
        for path, bodies in BODIES.items():
            for body in bodies:
                assert answer(local, path, body) == answer(over_http, path, body), (path, body)
    local._on_close = None
    local.close()


def test_a_model_is_given_what_a_model_may_see(kb: KB) -> None:
    with Engine(LocalTransport(kb), kb.plugins) as engine:
        chunk = engine.post("/notes", {"text": "never to be generated from"})["document"]["id"]
        chunk_id = engine.get(f"/documents/{chunk}/chunks")["data"][0]["id"]
        engine.post(f"/knowledge/chunks/{chunk_id}/set-policy", {"usage_policy": "never_generate"})

        assert engine.search("generated")["hits"]
        assert not engine.read_by("model").search("generated")["hits"]


def test_a_key_is_looked_up(kb: KB) -> None:
    with Engine(LocalTransport(kb, "kb_nobody"), kb.plugins) as engine, pytest.raises(EngineError) as refused:
        engine.search("anything")

    assert refused.value.http_status == 401


AFTER = """
import contextlib, io, sys
from kb_framework.cli import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
print(code, "litestar" in sys.modules)
"""


@pytest.mark.parametrize("command", ["add", "search"])
def test_what_is_answered_directly_imports_no_http(kb_home: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("of keys", encoding="utf-8")
    arguments = [command, str(tmp_path / "notes") if command == "add" else "keys"]

    said = [
        subprocess.run([sys.executable, "-c", AFTER, *words], capture_output=True, text=True, check=True).stdout.split()
        for words in (["add", str(tmp_path / "notes")], arguments)
    ]

    assert said == [["0", "True"], ["0", "False"]]


PLUGIN = """
from litestar import post
from litestar.status_codes import HTTP_200_OK
from kb_framework import api, hookimpl
from kb_framework.validation import Body, Model

class Asked(Body):
    name: str

class Told(Model):
    greeting: str
    actor: str

class Greetings:
    def greet(self, asked, actor):
        return Told(greeting=f"hello {asked.name}", actor=actor.user_id)

@hookimpl
def kb_services():
    return [api.Service("greetings", "kb_greeter:Greetings")]

@hookimpl
def kb_routes():
    direct = api.Direct("/greet", "greetings", "greet", "kb_greeter:Asked")
    return [api.Routes("greet", "kb_greeter:handlers_that_are_not_there", under=("greet",), direct=(direct,))]
"""


def test_a_plugin_of_others_may_do_so_too(kb_home: Path, kb_plugin: Install) -> None:
    kb_plugin("greeter", PLUGIN, module="kb_greeter")
    opened = open_kb()

    with Engine(LocalTransport(opened), opened.plugins) as engine:
        assert engine.post("/greet", {"name": "you"})["greeting"] == "hello you"
        # What is wrong is for its handlers to say, and they cannot be mounted.
        with pytest.raises(EngineError):
            engine.post("/greet", {"name": 1})
