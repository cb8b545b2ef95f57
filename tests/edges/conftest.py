"""What the tests of the edges share: a server per module, and plain HTTP without a client's good manners."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kb_testing.fixtures import RunningServer, StoreOf, start_server, stop_server


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str,
    method: str,
    path: str,
    body: bytes | list[bytes] | None = None,
    headers: Mapping[str, str | None] | None = None,
) -> Answer:
    """One request as it is given: a header that is None is not sent; a body that is a list is sent in chunks."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    try:
        length = None if body is None or isinstance(body, list) else str(len(body))
        chunked = "chunked" if isinstance(body, list) else None
        fields = {
            "Host": parts.netloc,
            "Content-Length": length,
            "Transfer-Encoding": chunked,
            **(headers or {}),
        }
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in fields.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        try:
            if isinstance(body, list):
                for part in [*body, b""]:
                    connection.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            elif body:
                connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            # The server has answered before it read everything.
            pass
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


Ask = Callable[..., Answer]


def stop(server: RunningServer) -> int:
    code = stop_server(server) if server.process.poll() is None else server.process.returncode
    assert server.process.stderr is not None
    server.process.stderr.close()
    return code


@pytest.fixture(scope="session", name="ask")
def _ask() -> Ask:
    return ask


@pytest.fixture(scope="session", name="stop")
def _stop() -> Callable[[RunningServer], int]:
    return stop


@pytest.fixture
def serve(kb_home: Path) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers on the test's data folder; those that still run in the end are stopped."""
    started: list[RunningServer] = []

    def start(*arguments: str, **environment: str) -> RunningServer:
        started.append(start_server(*arguments, **environment))
        return started[-1]

    yield start
    for server in started:
        stop(server)


@pytest.fixture(scope="module")
def server_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "kb-home"


@pytest.fixture(scope="module")
def server(server_home: Path, kb_store_of: StoreOf) -> Iterator[RunningServer]:
    """A server that the tests of a module share: for tests that do not mind what others have added."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("KB_")]:
            patch.delenv(name)
        # Many tests share it, so that it has to bear more than one user may ask of it.
        limits = {
            f"KB_RESEARCH_{name}": "0"
            for name in ("SEARCH_PER_MINUTE", "ADD_PER_MINUTE", "ADD_PER_DAY")
        }
        running = start_server(KB_DATA_DIR=str(server_home), **limits, **kb_store_of())
    yield running
    stop(running)
