"""What these tests share: an embeddings endpoint that behaves, or misbehaves, as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Answer = tuple[int, dict[str, str], bytes]


def vector_of(text: str, dimensions: int = 8) -> list[float]:
    """Counts of letters, by their place in the alphabet: not of unit length."""
    return [
        1.0 + sum(ord(char) % dimensions == place for char in text) for place in range(dimensions)
    ]


def embeddings(texts: list[str], dimensions: int = 8) -> Answer:
    """What an endpoint should answer; out of order, as the format allows."""
    rows = [
        {"object": "embedding", "index": n, "embedding": vector_of(text, dimensions)}
        for n, text in enumerate(texts)
    ]
    return 200, {}, json.dumps({"object": "list", "data": rows[::-1]}).encode()


@dataclass
class Endpoint:
    url: str = ""
    # What to do instead of a proper answer: one for each of the next requests, from the request's body.
    next: list[Callable[[dict[str, Any]], Answer | None]] = field(default_factory=list)
    always: Callable[[dict[str, Any]], Answer | None] | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    # Set when the test is over, so that nobody who waits outlives it.
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, body: dict[str, Any]) -> Answer | None:
        self.bodies.append(body)
        if self.next:
            return self.next.pop(0)(body)
        return self.always(body) if self.always else embeddings(body["input"])


def status(code: int, message: str = "", **headers: str) -> Callable[[dict[str, Any]], Answer]:
    """An error as such endpoints word it."""
    body = json.dumps({"error": {"message": message, "type": "error"}}).encode()
    return lambda _: (
        code,
        {name.replace("_", "-"): value for name, value in headers.items()},
        body,
    )


def raw(body: bytes) -> Callable[[dict[str, Any]], Answer]:
    return lambda _: (200, {}, body)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An OpenAI-compatible server on this machine."""
    found = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.paths.append(self.path)
            found.keys.append(self.headers["Authorization"])
            found.connections.add(self.client_address)
            answer = found.answer(body)
            if answer is None:
                self.close_connection = True
                return
            code, headers, data = answer
            self.send_response(code)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that went away is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield found
    found.over.set()
    server.shutdown()
    thread.join()
    server.server_close()
