"""The hooks `kb_authenticate` and `kb_keys_used`: plugins recognise who sends a request, and follow the use of keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kb_framework.app import open_kb
from kb_framework.edges.http.app import create_app
from kb_framework.edges.http.auth import Local
from kb_framework.remote import Reply
from kb_testing.application import AsgiTransport
from kb_testing.fixtures import Install

SINGLE_SIGN_ON = """
from kb_framework import api, hookimpl
from kb_framework.errors import Unauthorized

ANN = "5a2ff3a1-4b39-4c51-9b3c-7c1f7a0a3f10"

@hookimpl
def kb_authenticate(credentials, permissions):
    name = credentials.headers.get("x-signed-in")
    if name == "ann":
        viewer = frozenset(item.name for item in permissions if item.role == "viewer")
        return api.Actor(user_id=ANN, permissions=viewer)
    if name == "ben":
        raise Unauthorized("ben has left")
    if name == "bug":
        raise RuntimeError("secret detail")
    if name == "text":
        return "ann"

@hookimpl
def kb_keys_used(times, tx):
    with open(NAME, "a") as file:
        file.write(f"{min(times)}\\n")
"""
DOCUMENTS = "/api/v1/documents"
# A connection over a socket whose user the system does not tell.
OVER_A_SOCKET = Local(users=frozenset({4242}))


@contextmanager
def served(local: Local = OVER_A_SOCKET) -> Iterator[Any]:
    kb = open_kb()
    transport = AsgiTransport(create_app(kb, local=local), kb.close, actor=None)

    def ask(method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content = json.dumps(body).encode() if body is not None else b""
        return transport.send(method, path, {"Content-Type": "application/json", **sent}, content)

    try:
        yield ask
    finally:
        transport.close()


@pytest.fixture
def signed_in(kb_home, kb_plugin: Install) -> Any:
    kb_plugin("sso", SINGLE_SIGN_ON.replace("NAME", repr(str(kb_home / "used"))))
    return kb_home


def test_a_plugin_recognises_who_sends_a_request_and_what_it_may_do(signed_in) -> None:
    with served() as ask:
        assert ask("GET", DOCUMENTS, x_signed_in="ann").status == 200
        refused = ask("POST", "/api/v1/notes", {"text": "a note"}, x_signed_in="ann")
        assert (refused.status, json.loads(refused.body)["permission"]) == (403, "documents.write")
        who = json.loads(ask("GET", "/api/v1/whoami", x_signed_in="ann").body)
        assert who["local"] is False
        assert "documents.read" in who["permissions"]
        assert "documents.write" not in who["permissions"]


def test_whom_no_plugin_recognises_is_not_let_in_over_a_socket_of_another_user(signed_in) -> None:
    with served() as ask:
        assert ask("GET", DOCUMENTS).status == 401


@pytest.mark.parametrize(("name", "status"), [("ben", 401), ("bug", 503), ("text", 503)])
def test_a_refusal_or_an_exception_refuses_the_request(signed_in, name: str, status: int) -> None:
    with served(Local()) as ask:
        refused = ask("GET", DOCUMENTS, x_signed_in=name)

    assert refused.status == status
    assert b"secret" not in refused.body


def test_keys_are_recognised_beside_another_plugin_and_their_use_is_told(signed_in) -> None:
    with served(Local()) as ask:
        made = json.loads(ask("POST", "/api/v1/keys", {"user": "cleo", "role": "admin"}).body)
        bearer = f"Bearer {made['key']}"
        assert ask("GET", DOCUMENTS).status == 401
        assert ask("GET", DOCUMENTS, Authorization=bearer).status == 200
        listed = json.loads(ask("GET", "/api/v1/keys", Authorization=bearer).body)["data"]
        assert ask("GET", DOCUMENTS, x_signed_in="ann").status == 200

    assert listed[0]["last_used_at"]
    assert set((signed_in / "used").read_text().split()) == {made["id"]}


def test_where_there_are_keys_and_no_plugin_recognises_them_everything_is_refused(
    kb_home, monkeypatch
) -> None:
    with served(Local()) as ask:
        key = json.loads(ask("POST", "/api/v1/keys", {"user": "cleo", "role": "admin"}).body)["key"]
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "access")

    with served(Local()) as ask:
        assert ask("GET", DOCUMENTS).status == 401
        assert ask("GET", DOCUMENTS, Authorization=f"Bearer {key}").status == 401


def test_a_new_knowledge_base_without_the_access_plugin_is_the_local_persons(
    kb_home, monkeypatch
) -> None:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "access")

    with served(Local()) as ask:
        assert ask("GET", DOCUMENTS).status == 200
        assert ask("GET", DOCUMENTS, Authorization="Bearer kb_x").status == 401
