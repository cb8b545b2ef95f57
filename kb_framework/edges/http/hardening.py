"""What the edge does to every request and answer, whatever the route: how long a body may take, what a browser may do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from litestar.types import Receive

from kb_framework.errors import RequestTimeout

Header = tuple[bytes, bytes]

# The API's documentation is made of inline script and style; no page here shows what users stored.
_PAGE_POLICY = (
    b"default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_EVERYWHERE: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_ON_PAGES: tuple[Header, ...] = (
    (b"content-security-policy", _PAGE_POLICY),
    (b"x-frame-options", b"DENY"),
)


def security_headers(given: Iterable[Header]) -> list[Header]:
    """The headers that an answer lacks: nothing is guessed from its content, and a page may be framed by nobody."""
    there = {name.lower(): value for name, value in given}
    page = there.get(b"content-type", b"").startswith(b"text/html")
    return [
        (name, value)
        for name, value in (*_EVERYWHERE, *(_ON_PAGES if page else ()))
        if name not in there
    ]


def in_time(receive: Receive, seconds: float) -> Receive:
    """The same stream of a body, given up when nothing more of it arrives for so long. After its end one may wait for ever."""
    ended = False

    async def receive_soon() -> Any:
        nonlocal ended
        if ended:
            return await receive()
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            raise RequestTimeout(f"nothing more of the body arrived for {seconds:g} s") from None
        ended = message["type"] != "http.request" or not message.get("more_body")
        return message

    return receive_soon
