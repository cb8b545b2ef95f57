"""Requests to a model's endpoint over HTTP: bounded in time and size, and retried where that may help.

They go through httpx's transport, not its client: redirects are not followed, `.netrc` and proxy variables are not read, and
no address is logged, so that a key reaches nobody else. What the endpoint says is shown in short and without the key.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from kb_framework.errors import KBError

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("kb.endpoint")

# Seconds before each further attempt, where the endpoint does not say how long to wait.
_PAUSES = (0.25, 0.5, 1.0)
# Seconds of waiting in all; where an endpoint asks for more, the caller decides.
_PATIENCE = 15.0
_TRANSIENT = {429, 500, 502, 503, 504, 529}
# The request itself was wrong; another one may succeed.
_REFUSED = {400, 413, 422}
_ERROR_BYTES = 1 << 16


class Variables(NamedTuple):
    """The settings of an endpoint, as messages name them."""

    url: str
    model: str
    key: str
    timeout: str


class _Refusal(NamedTuple):
    status: int
    retry_after: str | None
    body: bytes


class _TimeLeft(dict[str, float]):
    """httpx's time-outs of one request: each phase may take what is left of the whole."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def get(self, key: str, default: object = None) -> float:
        return max(0.001, self._end - time.monotonic())


class Endpoint:
    """`noun` names it in messages; `failed` is raised for what may pass, `refused` for a request that was wrong."""

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

    @cached_property
    def problem(self) -> str | None:
        """Say what is wrong with the address or the key, without sending anything."""
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
        return parts._replace(
            path=path if path.endswith(self._path) else f"{path}{self._path}", fragment=""
        )

    @property
    def shown(self) -> str:
        """The address without its query, which may hold a key."""
        return self._address._replace(netloc=self._address.netloc.lower(), query="").geturl()

    def post(self, body: bytes, limit: int) -> bytes:
        """Return the whole answer, of at most `limit` bytes."""
        return b"".join(self._attempts(body, limit))

    def lines(self, body: bytes, limit: int) -> Iterator[bytes]:
        """Yield the answer line by line, as it comes."""
        rest = b""
        with closing(self._attempts(body, limit)) as parts:
            for part in parts:
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
        if rest:
            yield rest

    # Requests

    def _attempts(self, body: bytes, limit: int) -> Generator[bytes, None, None]:
        """Retry what may pass, as long as nothing of an answer has come."""
        waited = 0.0
        for pause in (*_PAUSES, None):
            refusal = yield from self._attempt(body, limit)
            if refusal is None:
                return
            wait = _seconds(refusal.retry_after, pause or 0.0)
            if refusal.status not in _TRANSIENT or pause is None or waited + wait > _PATIENCE:
                raise self._refusal(refusal)
            log.info("%s answered %s; asking again in %.2f s", self.shown, refusal.status, wait)
            time.sleep(wait)
            waited += wait

    def _attempt(self, body: bytes, limit: int) -> Generator[bytes, None, _Refusal | None]:
        """Yield the parts of an answer, or return how the endpoint refused."""
        import httpx

        end = time.monotonic() + self._timeout
        try:
            with closing(self._response(body, end)) as response:
                parts = self._parts(
                    response, end, limit if response.status_code == 200 else _ERROR_BYTES
                )
                if response.status_code == 200:
                    yield from parts
                    return None
                return _Refusal(
                    response.status_code, response.headers.get("Retry-After"), b"".join(parts)
                )
        except (httpx.TimeoutException, TimeoutError):
            raise self.failure(
                f"did not answer within {self._timeout:g} seconds ({self._variables.timeout})"
            ) from None
        except httpx.ProtocolError as error:
            raise self.failure(f"does not speak HTTP: {type(error).__name__}") from None
        except httpx.TransportError as error:
            raise self.failure(f"cannot be reached: {str(error) or type(error).__name__}") from None

    def _response(self, body: bytes, end: float) -> httpx.Response:
        """Send the request. A connection that the other side closed meanwhile is replaced once."""
        import httpx

        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        timeouts = {"timeout": _TimeLeft(end)}
        request = httpx.Request(
            "POST", self._address.geturl(), headers=headers, content=body, extensions=timeouts
        )
        try:
            return self._transport.handle_request(request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            return self._transport.handle_request(request)

    @cached_property
    def _transport(self) -> httpx.HTTPTransport:
        """Keeps connections open between requests. Certificates are those that the system trusts."""
        import httpx

        verify = ssl.create_default_context() if self._address.scheme == "https" else False
        transport = httpx.HTTPTransport(verify=verify, trust_env=False)
        weakref.finalize(self, transport.close)
        return transport

    def _parts(self, response: httpx.Response, end: float, limit: int) -> Iterator[bytes]:
        size = 0
        for part in response.iter_raw():
            size += len(part)
            if size > limit:
                raise self.failure("gave an answer that is too long")
            # An answer that drips must not take longer than one that is silent.
            if time.monotonic() > end:
                raise TimeoutError
            yield part

    # Messages

    def failure(self, what: str) -> KBError:
        return self._failed(
            f"the {self._noun} endpoint {self.shown} {what}",
            hint="try again later; kb config shows its settings",
        )

    def _refusal(self, answer: _Refusal) -> KBError:
        words = self._words(answer.body)
        message = f"the {self._noun} endpoint {self.shown} answered {answer.status}" + (
            f": {words}" if words else ""
        )
        if answer.status in _REFUSED:
            return self._refused(message)
        if answer.status in {401, 403}:
            return self._failed(message, hint=f"check {self._variables.key}")
        if answer.status == 404:
            return self._failed(
                message, hint=f"check {self._variables.url} and {self._variables.model}"
            )
        if 300 <= answer.status < 400:
            # The key must not follow to wherever an answer points.
            return self._failed(
                message,
                hint=f"redirects are not followed: set {self._variables.url} to the final address",
            )
        return self._failed(message, hint="try again later")

    def _words(self, body: bytes) -> str:
        """Return what the endpoint says is wrong, in short, without the key that some repeat."""
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
    """Return what a Retry-After header asks for, in seconds or as a date."""
    if not retry_after:
        return otherwise
    try:
        if retry_after.strip().isdigit():
            return float(retry_after)
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return otherwise
