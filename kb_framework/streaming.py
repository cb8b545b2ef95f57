"""Requests and answers that are too large to hold: both bodies go part by part, with either kind of transport."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

_PART = 1 << 18
# How many parts of an answer may wait for their reader.
_WAITING = 4
_END = object()


class StreamedReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    parts: Iterator[bytes]


@contextmanager
def http_stream(
    connection: http.client.HTTPConnection, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]
) -> Iterator[StreamedReply]:
    connection.request(method, target, body=None if method == "GET" else iter(body), headers=dict(headers))
    answer = connection.getresponse()
    parts = iter(lambda: answer.read(_PART), b"")
    yield StreamedReply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, parts)


@contextmanager
def asgi_stream(
    app: Callable[..., Any], loop: asyncio.AbstractEventLoop, scope: Mapping[str, Any], body: Iterable[bytes]
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
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        yield StreamedReply(start["status"], headers, parts())
    finally:
        loop.call_soon_threadsafe(gone.set)
        if not running.done():
            running.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            running.exception(timeout=5)
