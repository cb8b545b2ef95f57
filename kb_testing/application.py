"""An application in this process, called as a server would call it: HTTP without a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import unquote

from kb_framework.api import Actor
from kb_framework.remote import Reply, Requests, StreamedReply, multipart, target_of

# How many parts of an answer may wait for their reader.
_WAITING = 4
_END = object()


class AsgiTransport(Requests):
    """Sends requests to an application in this process, on an event loop in a thread of its own."""

    def __init__(
        self,
        app: Any = None,
        on_close: Callable[[], None] | None = None,
        *,
        actor: Actor | None = Actor(),  # noqa: B008 - it cannot be changed
        api_key: str | None = None,
    ) -> None:
        """Requests are the actor's; with None, or with a key, the application finds out itself who asks."""
        self._app = app
        self._actor = None if api_key else actor
        self._on_close = on_close
        self._authorization = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kb-engine", daemon=True
        )
        self._thread.start()

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        return asyncio.run_coroutine_threadsafe(
            self._call(method, target, headers, body), self._loop
        ).result()

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] = {},
        body: Any = None,
        fields: Mapping[str, Any] = {},
        files: Sequence[tuple[str, str, bytes]] = (),
    ) -> Reply:
        """Send a request below `/api/v1`, with JSON, or with a form where there are files; return any answer."""
        if files:
            content, media = multipart(fields, files)
        else:
            content, media = b"" if body is None else json.dumps(body).encode(), "application/json"
        return self.send(method, target_of(path, params), {"Content-Type": media}, content)

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]
    ) -> AbstractContextManager[StreamedReply]:
        return _stream(self._app, self._loop, self._scope(method, target, headers), body)

    def _scope(self, method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
        path, _, query = target.partition("?")
        fields = {"host": "localhost", **self._authorization, **headers}
        known = {"kb.actor": self._actor} if self._actor else {}
        return {
            **known,
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in fields.items()
            ],
            "client": ("127.0.0.1", os.getpid()),
            "server": ("localhost", 80),
        }

    async def _call(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Reply:
        scope = self._scope(method, target, {"content-length": str(len(body)), **headers})
        answered = asyncio.Event()
        sent: list[Any] = []
        incoming: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if not incoming:
                # Whoever asks stays until the answer is complete: a file is only sent to someone who is there.
                await answered.wait()
            return incoming.pop(0) if incoming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                answered.set()

        await self._app(scope, receive, send)
        start = next(message for message in sent if message["type"] == "http.response.start")
        payload = b"".join(
            message.get("body", b"") for message in sent if message["type"] == "http.response.body"
        )
        received = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in start["headers"]
        }
        return Reply(start["status"], received, payload)

    async def _abandon(self) -> None:
        """What an interrupted caller left under way."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._abandon(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._on_close:
            self._on_close()


@contextmanager
def _stream(
    app: Callable[..., Any],
    loop: asyncio.AbstractEventLoop,
    scope: Mapping[str, Any],
    body: Iterable[bytes],
) -> Iterator[StreamedReply]:
    """Runs the application on its loop; the reader's pace holds back the writer."""
    waiting: asyncio.Queue[Any] = asyncio.Queue(_WAITING)
    gone = asyncio.Event()
    incoming = iter(body)
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            # An application that streams listens for the client to go away: that is news only when it is true.
            await gone.wait()
            return {"type": "http.disconnect"}
        part = await loop.run_in_executor(None, next, incoming, None)
        sent = part is None
        return {"type": "http.request", "body": part or b"", "more_body": not sent}

    async def send(message: Any) -> None:
        await waiting.put(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            # Nothing more will come: as with a real server, that is when the listening ends.
            gone.set()

    async def run() -> None:
        try:
            await app(scope, receive, send)
            await waiting.put(_END)
        except Exception as error:  # noqa: BLE001 - raised again in the thread of the reader
            await waiting.put(error)

    def take() -> Any:
        message = asyncio.run_coroutine_threadsafe(waiting.get(), loop).result()
        if isinstance(message, Exception):
            raise message
        return message

    def parts() -> Iterator[bytes]:
        while (message := take()) is not _END:
            if message["type"] == "http.response.body" and message.get("body"):
                yield message["body"]

    running = asyncio.run_coroutine_threadsafe(run(), loop)
    try:
        start = take()
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in start["headers"]
        }
        yield StreamedReply(start["status"], headers, parts())
    finally:
        loop.call_soon_threadsafe(gone.set)
        if not running.done():
            running.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            running.exception(timeout=5)
