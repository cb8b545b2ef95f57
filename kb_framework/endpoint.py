"""Asking a model's endpoint over HTTP: bounded in time and size, tried again where that may help, and never with surprises.

Redirects are not followed, so that the key goes nowhere else; what the endpoint says is shown in short and without the key.
"""

from __future__ import annotations

import json
import logging
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ssl import SSLEOFError
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from kb_framework.errors import KBError

log = logging.getLogger("kb.endpoint")

# Seconds before each further attempt, where the endpoint does not say how long to wait.
_PAUSES = (0.25, 0.5, 1.0)
# What an endpoint may ask for in all; beyond it the caller is told to come back.
_PATIENCE = 15.0
_TRANSIENT = {429, 500, 502, 503, 504, 529}
# These are about what was sent; another request may go well.
_REFUSED = {400, 413, 422}
_PART = 1 << 16
_ERROR_BYTES = 1 << 16


class Variables(NamedTuple):
    """How a person sets what an endpoint is, for messages."""

    url: str
    model: str
    key: str
    timeout: str


class _Refusal(NamedTuple):
    status: int
    retry_after: str | None
    body: bytes


class Endpoint:
    """`noun` names it in messages; `failed` is raised for what may pass, `refused` for what was wrong with the request."""

    def __init__(
        self,
        noun: str,
        path: str,
        variables: Variables,
        *,
        url: str | None,
        key: str,
        timeout: float,
        failed: type[KBError],
        refused: type[KBError],
    ) -> None:
        self._noun = noun
        self._path = path
        self._variables = variables
        self._url = url or ""
        self._key = key.strip()
        self._timeout = timeout
        self._failed = failed
        self._refused = refused
        # Connections that are kept open between requests; whoever needs one takes it out.
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)

    @cached_property
    def problem(self) -> str | None:
        """What is wrong with the address or the key, without asking."""
        try:
            parts = urlsplit(self._url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or not _is_plain(self._url):
            return f"{self._variables.url} is not an address like http://127.0.0.1:8080/v1"
        if "@" in urlsplit(self._url).netloc:
            return f"{self._variables.url} holds a name or a password: give a key with {self._variables.key} instead"
        if not _is_plain(self._key):
            return f"{self._variables.key} holds characters that cannot be sent"
        return None

    @cached_property
    def _address(self) -> SplitResult:
        parts = urlsplit(self._url)
        path = parts.path.rstrip("/") or "/v1"
        return parts._replace(path=path if path.endswith(self._path) else f"{path}{self._path}", fragment="")

    @property
    def shown(self) -> str:
        """The address as it may be shown: a query may hold a key."""
        return self._address._replace(netloc=self._address.netloc.lower(), query="").geturl()

    def post(self, body: bytes, limit: int) -> bytes:
        """The whole answer, of at most `limit` bytes."""
        return b"".join(self._attempts(body, limit))

    def lines(self, body: bytes, limit: int) -> Iterator[bytes]:
        """The answer line by line, as it comes."""
        rest = b""
        with closing(self._attempts(body, limit)) as parts:
            for part in parts:
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
        if rest:
            yield rest

    # Asking

    def _attempts(self, body: bytes, limit: int) -> Generator[bytes, None, None]:
        """What may pass is tried again, as long as nothing of an answer has come."""
        waited = 0.0
        for pause in (*_PAUSES, None):
            refusal = yield from self._answer(body, limit)
            if refusal is None:
                return
            wait = _seconds(refusal.retry_after, pause or 0.0)
            if refusal.status not in _TRANSIENT or pause is None or waited + wait > _PATIENCE:
                raise self._refusal(refusal)
            log.info("%s answered %s; asking again in %.2f s", self.shown, refusal.status, wait)
            time.sleep(wait)
            waited += wait

    def _answer(self, body: bytes, limit: int) -> Generator[bytes, None, _Refusal | None]:
        """One request on an open connection, or on a new one; what the answer holds, or how it was refused."""
        try:
            while idle := self._take_idle():
                begun = False
                try:
                    parts = self._exchange(idle, body, limit)
                    while True:
                        try:
                            part = next(parts)
                        except StopIteration as end:
                            return end.value
                        begun = True
                        yield part
                except (ConnectionError, SSLEOFError):
                    if begun:
                        raise
                    # The other side had closed it.
                    continue
            return (yield from self._exchange(self._connection(), body, limit))
        except TimeoutError:
            raise self.failure(f"did not answer within {self._timeout:g} seconds ({self._variables.timeout})") from None
        except OSError as error:
            raise self.failure(f"cannot be reached: {error.strerror or type(error).__name__}") from None
        except HTTPException as error:
            raise self.failure(f"does not speak HTTP: {type(error).__name__}") from None

    def _take_idle(self) -> HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        return kind(self._address.hostname or "", self._address.port, timeout=self._timeout)

    def _exchange(self, connection: HTTPConnection, body: bytes, limit: int) -> Generator[bytes, None, _Refusal | None]:
        """One request. A socket's own time-out starts anew with every byte, so what is left is set for each part."""
        end = time.monotonic() + self._timeout
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        target = self._address.path + (f"?{self._address.query}" if self._address.query else "")
        keep = False
        try:
            if connection.sock:
                connection.sock.settimeout(self._timeout)
            connection.request("POST", target, body, headers)
            socket = connection.sock
            with connection.getresponse() as response:
                parts = self._parts(response, socket, end, limit if response.status == 200 else _ERROR_BYTES)
                if response.status == 200:
                    yield from parts
                    refusal = None
                else:
                    refusal = _Refusal(response.status, response.headers.get("Retry-After"), b"".join(parts))
                response.read()
                keep = not response.will_close
                return refusal
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.close()

    def _parts(self, response: HTTPResponse, socket: object, end: float, limit: int) -> Iterator[bytes]:
        size = 0
        while part := response.read1(_PART):
            size += len(part)
            if size > limit:
                raise self.failure("gave an answer that is too long")
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            socket.settimeout(left)  # type: ignore[attr-defined]
            yield part

    # What is said

    def failure(self, what: str) -> KBError:
        return self._failed(
            f"the {self._noun} endpoint {self.shown} {what}", hint="try again later; kb config shows its settings"
        )

    def _refusal(self, answer: _Refusal) -> KBError:
        words = self._words(answer.body)
        message = f"the {self._noun} endpoint {self.shown} answered {answer.status}" + (f": {words}" if words else "")
        if answer.status in _REFUSED:
            return self._refused(message)
        if answer.status in {401, 403}:
            return self._failed(message, hint=f"check {self._variables.key}")
        if answer.status == 404:
            return self._failed(message, hint=f"check {self._variables.url} and {self._variables.model}")
        if 300 <= answer.status < 400:
            # The key must not follow to wherever an answer points.
            return self._failed(message, hint=f"redirects are not followed: set {self._variables.url} to the final address")
        return self._failed(message, hint="try again later")

    def _words(self, body: bytes) -> str:
        """What the endpoint says is wrong, in short, without the key that some repeat."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            said = None
        if isinstance(said, dict):
            said = said.get("error", said)
        if isinstance(said, dict):
            said = said.get("message") or said.get("detail")
        if not isinstance(said, str):
            return ""
        said = said.replace(self._key, "***") if self._key else said
        return "".join(char for char in " ".join(said.split()) if char.isprintable())[:200]


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _seconds(retry_after: str | None, otherwise: float) -> float:
    """What a Retry-After header asks for, as seconds or as a date."""
    if not retry_after:
        return otherwise
    try:
        if retry_after.strip().isdigit():
            return float(retry_after)
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return otherwise


def _close_all(connections: list[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()
