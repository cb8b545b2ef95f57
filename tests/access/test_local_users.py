"""Other users of the same machine: who is let in while there are no keys, and what they can read of the data folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kb_framework.client import connect
from kb_framework.local import tells_users, user_by_netlink, user_by_tables
from kb_testing.fixtures import Run, RunningServer, start_server, stop_server

OWNER, OTHER = 4242, 12345

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="user ids of connections are told on Linux"
)
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as another user"
)

# Everything is imported before the user changes, who may not be able to read the interpreter's files.
AS_USER = """
import os, socket, sys
user, host, port, ending, text = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
host.encode("idna")
os.setgroups([])
os.setgid(user)
os.setuid(user)
connection = socket.create_connection((host, port))
connection.settimeout(60)
connection.sendall(text.encode())
answer = b""
while ending == "answered" and (part := connection.recv(65536)):
    answer += part
os.write(1, answer)
"""


def ask_as(
    user: int,
    server: RunningServer,
    method: str,
    path: str,
    body: str = "",
    ending: str = "answered",
) -> str:
    """Send a request as a user of this machine; the answer as it came, or nothing where the connection is closed at once."""
    parts = urlsplit(server.url)
    head = f"{method} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
    text = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    command = [
        sys.executable,
        "-c",
        AS_USER,
        str(user),
        str(parts.hostname),
        str(parts.port),
        ending,
        text,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


Serve = Callable[..., RunningServer]


@pytest.fixture
def serve(kb_home: Path) -> Iterator[Serve]:
    started: list[RunningServer] = []

    def begin(*arguments: str, **environment: str) -> RunningServer:
        started.append(start_server(*arguments, **environment))
        return started[-1]

    yield begin
    for server in started:
        stop_server(server)


@pytest.mark.new_database
@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_without_keys_only_the_owner_of_the_data_folder_is_let_in(
    serve: Serve, kb_home: Path, host: str
) -> None:
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    kb_home.mkdir()
    os.chown(kb_home, OWNER, OWNER)
    server = serve("--host", host)

    assert ask_as(OWNER, server, "GET", "/api/v1/whoami").startswith("HTTP/1.1 200")
    assert ask_as(0, server, "GET", "/api/v1/whoami").startswith("HTTP/1.1 200")
    for method, path in (
        ("GET", "/api/v1/whoami"),
        ("POST", "/api/v1/notes"),
        ("POST", "/mcp"),
        ("GET", "/mcp"),
    ):
        refused = ask_as(
            OTHER, server, method, path, '{"text": "mine"}' if method == "POST" else ""
        )
        assert refused.startswith("HTTP/1.1 401"), path
        assert "kb keys create" in refused
    assert ask_as(OTHER, server, "GET", "/api/v1/health/live").startswith("HTTP/1.1 200")


@needs_root
def test_a_connection_that_is_closed_at_once_is_not_taken_for_roots(serve: Serve) -> None:
    server = serve()
    for number in range(20):
        ask_as(
            OTHER,
            server,
            "POST",
            "/api/v1/notes",
            json.dumps({"text": f"smuggled {number}"}),
            ending="closed",
        )
    until = time.monotonic() + 600
    while (
        sum('"/api/v1/notes"' in line for line in list(server.log)) < 1 and time.monotonic() < until
    ):
        time.sleep(0.05)

    assert server.engine.get("/documents")["meta"]["total"] == 0


@needs_root
def test_a_key_lets_another_user_in(serve: Serve, kb_run: Run) -> None:
    server = serve()
    key = json.loads(
        kb_run("keys", "create", "--user", "ann", "--role", "viewer", "--json").stdout
    )["key"]

    answer = ask_as(
        OTHER, server, "GET", f"/api/v1/whoami HTTP/1.1\r\nAuthorization: Bearer {key}\r\nX-Rest:"
    )

    assert answer.startswith("HTTP/1.1 200")
    assert '"user":"ann"' in answer


def test_the_secret_can_be_asked_of_everybody(serve: Serve, kb_home: Path, kb_run: Run) -> None:
    server = serve(KB_LOCAL_SECRET="required")
    secret = json.loads((kb_home / "engine.json").read_text())["secret"]

    refused = ask_as(os.geteuid(), server, "GET", "/api/v1/whoami")
    let_in = ask_as(
        os.geteuid(),
        server,
        "GET",
        f"/api/v1/whoami HTTP/1.1\r\nAuthorization: Bearer {secret}\r\nX-Rest:",
    )

    assert refused.startswith("HTTP/1.1 401")
    assert "engine.json" in refused
    assert let_in.startswith("HTTP/1.1 200")
    assert kb_run("note", "by a command", KB_LOCAL_SECRET="required").returncode == 0


@pytest.mark.parametrize(
    ("listen", "call"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("127.0.0.1", "::ffff:127.0.0.1")],
)
@pytest.mark.parametrize("look", [user_by_netlink, user_by_tables])
def test_the_user_of_a_connection_is_found(listen: str, call: str, look: Any) -> None:
    if not tells_users():
        pytest.skip("this system does not tell")
    try:
        listening = socket.create_server(
            (listen, 0), family=socket.AF_INET6 if ":" in listen else socket.AF_INET
        )
    except OSError:
        pytest.skip("no IPv6 here")
    with listening, socket.create_connection((call, listening.getsockname()[1])):
        accepted, theirs = listening.accept()
        with accepted:
            assert look(theirs, accepted.getsockname()) == os.geteuid()
            assert look(("127.0.0.1", 1), accepted.getsockname()) is None


# The data folder


def lax(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.lstat().st_mode & 0o077
    ]


@pytest.mark.new_database
@pytest.mark.sqlite_only("a backup is a copy of the file")
def test_everything_in_the_data_folder_is_its_owners_alone(
    kb_home: Path, kb_run: Run, tmp_path: Path
) -> None:
    kb_home.mkdir(mode=0o755)
    kb_home.chmod(0o755)
    (tmp_path / "notes.md").write_text("# Notes\n\nA text.", encoding="utf-8")
    before = os.umask(0o022)
    try:
        with connect() as engine:
            engine.add_note("a note of a library")
            inside = lax(kb_home)
        for command in (
            ["add", "notes.md"],
            ["search", "text"],
            ["config", "set", "log_level", "info"],
            ["plugins", "disable", "quickstart"],
            ["backup", "everything.zip"],
            ["export", "everything.kbz"],
            ["import", "everything.kbz", "--yes"],
            ["doctor", "--repair"],
        ):
            assert kb_run(*command).returncode == 0, command
    finally:
        os.umask(before)

    assert inside == []
    assert lax(kb_home) == []
    assert [
        name
        for name in ("everything.zip", "everything.kbz")
        if (tmp_path / name).stat().st_mode & 0o077
    ] == []


@pytest.mark.sqlite_only("the database is a file there")
def test_what_an_earlier_version_left_open_is_closed(kb_home: Path) -> None:
    with connect() as engine:
        engine.add_note("a note")
    for path in (kb_home / "kb.sqlite", kb_home / "files"):
        path.chmod(0o755)

    with connect():
        pass

    assert lax(kb_home) == []
