"""Requests over the wire whose head must be short and arrive soon: whoever has no key is not given memory or a connection."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kb_framework.local import PEER, Peer

_MOST_BYTES = 65_536
_SECONDS = 30.0


class HeaderLimits(HttpToolsProtocol):
    """uvicorn's own protocol, which would read a head of any length for any time."""

    # Of the head that is arriving, as it came over the wire; and what was found in it, since all of it may come at once.
    _head_bytes = 0
    _found_bytes = 0
    _in_time: asyncio.TimerHandle | None = None
    _peer: Peer | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._peer = Peer(transport)
        self._in_time = self.loop.call_later(_SECONDS, transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # Of the connection itself: what a proxy says of its clients is not in it.
        self.scope[PEER] = self._peer  # type: ignore[typeddict-unknown-key]
        self._head_bytes = 1
        self._found_bytes = 0
        if self._in_time is None:
            # A further request on the same connection.
            self._in_time = self.loop.call_later(_SECONDS, self.transport.close)

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        self._arrived()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_bytes:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_BYTES:
                self.send_400_response("The headers are too long.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _count(self, *found: bytes) -> None:
        self._found_bytes += sum(map(len, found))
        if self._found_bytes > _MOST_BYTES:
            # The parser stops, and the protocol answers 400.
            raise ValueError("the head is too long")

    def _arrived(self) -> None:
        if self._in_time is not None:
            self._in_time.cancel()
            self._in_time = None
