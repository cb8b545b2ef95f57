"""An embedder behind any OpenAI-compatible `/v1/embeddings` endpoint.

An endpoint that fails is an error, never a document without vectors: whoever adds one is told to try again. What is
waited for is bounded, because a search waits too.
"""

from __future__ import annotations

import json
import logging
import math
import struct
import time
import weakref
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import SSLEOFError
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from kb_embeddings.errors import EndpointFailed
from kb_embeddings.settings import EmbeddingsSettings
from kb_framework.errors import EmbedderUnavailable

log = logging.getLogger("kb.embeddings")

# Seconds before each further attempt, where the endpoint does not say how long to wait.
_PAUSES = (0.25, 0.5, 1.0)
# What an endpoint may ask for in all; beyond it the caller is told to come back.
_PATIENCE = 15.0
_TRANSIENT = {429, 500, 502, 503, 504, 529}
# These are about the texts that were sent; another request may go well.
_REFUSED_TEXT = {400, 413, 422}
_MAX_DIMENSIONS = 8192
# A number written out in JSON, at most.
_NUMBER_BYTES = 32
_PART = 1 << 16


class _Answer(NamedTuple):
    status: int
    retry_after: str | None
    body: bytes


class OpenAI:
    def __init__(self, settings: EmbeddingsSettings) -> None:
        self._settings = settings
        self._found_dimensions = settings.dimensions
        # Connections that are kept open between requests; whoever needs one takes it out.
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)

    @cached_property
    def problem(self) -> str | None:
        """What is wrong with the settings, without asking the endpoint."""
        url, model = self._settings.url, self._settings.model
        if not url or not model:
            return "the embedder 'openai' needs KB_EMBEDDINGS_URL and KB_EMBEDDINGS_MODEL"
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or not _is_plain(url):
            return "KB_EMBEDDINGS_URL is not an address like http://127.0.0.1:8080/v1"
        if "@" in urlsplit(url).netloc:
            return "KB_EMBEDDINGS_URL holds a name or a password: give a key with KB_EMBEDDINGS_API_KEY instead"
        if not _is_plain(self._key):
            return "KB_EMBEDDINGS_API_KEY holds characters that cannot be sent"
        return None

    @property
    def model(self) -> str:
        """Where the vectors come from: another endpoint, model or length is another space."""
        length = f":{self._settings.dimensions}" if self._settings.dimensions else ""
        return f"openai:{self._endpoint}:{self._settings.model}{length}"

    @property
    def dimensions(self) -> int:
        if self._found_dimensions is None:
            self._ask(["length"])
        assert self._found_dimensions is not None
        return self._found_dimensions

    def encode(self, texts: list[str]) -> list[bytes]:
        """A unit vector per text, in batches; zeros for a text without content, which endpoints refuse."""
        filled = [number for number, text in enumerate(texts) if text.strip()]
        found: dict[int, bytes] = {}
        for begin in range(0, len(filled), self._settings.batch):
            batch = filled[begin : begin + self._settings.batch]
            found.update(zip(batch, self._ask([texts[number] for number in batch]), strict=True))
        empty = bytes(4 * self.dimensions) if len(found) < len(texts) else b""
        return [found.get(number, empty) for number in range(len(texts))]

    # The address

    @cached_property
    def _address(self) -> SplitResult:
        parts = urlsplit(self._settings.url or "")
        path = parts.path.rstrip("/") or "/v1"
        return parts._replace(path=path if path.endswith("/embeddings") else f"{path}/embeddings", fragment="")

    @property
    def _endpoint(self) -> str:
        """The address as it may be shown: a query may hold a key."""
        return self._address._replace(netloc=self._address.netloc.lower(), query="").geturl()

    @property
    def _key(self) -> str:
        key = self._settings.api_key
        return key.get_secret_value().strip() if key else ""

    # Asking

    def _ask(self, texts: list[str]) -> list[bytes]:
        """Vectors for one batch; what may pass is tried again."""
        asked: dict[str, Any] = {"model": self._settings.model, "input": texts}
        if self._settings.dimensions:
            asked["dimensions"] = self._settings.dimensions
        body = json.dumps(asked).encode()
        limit = _PART + len(texts) * _MAX_DIMENSIONS * _NUMBER_BYTES
        waited = 0.0
        for pause in (*_PAUSES, None):
            answer = self._post(body, limit)
            if answer.status == 200:
                return self._vectors(answer.body, len(texts))
            wait = _seconds(answer.retry_after, pause or 0.0)
            if answer.status not in _TRANSIENT or pause is None or waited + wait > _PATIENCE:
                raise self._refused(answer)
            log.info("%s answered %s; asking again in %.2f s", self._endpoint, answer.status, wait)
            time.sleep(wait)
            waited += wait
        raise AssertionError("the last attempt returns or raises")

    def _post(self, body: bytes, limit: int) -> _Answer:
        try:
            while idle := self._take_idle():
                try:
                    return self._exchange(idle, body, limit)
                except (ConnectionError, SSLEOFError):
                    # The other side had closed it.
                    continue
            return self._exchange(self._connection(), body, limit)
        except TimeoutError:
            seconds = f"{self._settings.timeout:g} seconds (KB_EMBEDDINGS_TIMEOUT)"
            raise self._failed(f"did not answer within {seconds}") from None
        except OSError as error:
            raise self._failed(f"cannot be reached: {error.strerror or type(error).__name__}") from None
        except HTTPException as error:
            raise self._failed(f"does not speak HTTP: {type(error).__name__}") from None

    def _take_idle(self) -> HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        return kind(self._address.hostname or "", self._address.port, timeout=self._settings.timeout)

    def _exchange(self, connection: HTTPConnection, body: bytes, limit: int) -> _Answer:
        """One request. A socket's own time-out starts anew with every byte, so what is left is set for each part."""
        end = time.monotonic() + self._settings.timeout
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        target = self._address.path + (f"?{self._address.query}" if self._address.query else "")
        keep = False
        try:
            if connection.sock:
                connection.sock.settimeout(self._settings.timeout)
            connection.request("POST", target, body, headers)
            socket = connection.sock
            with connection.getresponse() as response:
                data = bytearray()
                while part := response.read1(_PART):
                    data += part
                    if len(data) > limit:
                        raise self._failed("gave an answer that is too long")
                    left = end - time.monotonic()
                    if left <= 0:
                        raise TimeoutError
                    socket.settimeout(left)
                response.read()
                keep = not response.will_close
                return _Answer(response.status, response.headers.get("Retry-After"), bytes(data))
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.close()

    # Understanding the answer

    def _vectors(self, body: bytes, count: int) -> list[bytes]:
        try:
            rows = json.loads(body)["data"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._failed("gave an answer that is not a list of embeddings") from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._failed("gave an answer that is not a list of embeddings")
        if len(rows) != count:
            raise self._failed(f"gave {len(rows)} vectors for {count} texts")
        if any("index" in row for row in rows):
            places = [row.get("index") for row in rows]
            if not all(type(place) is int for place in places) or set(places) != set(range(count)):
                raise self._failed("gave vectors whose indexes do not name each text once")
            rows = sorted(rows, key=lambda row: row["index"])
        return [self._vector(row.get("embedding")) for row in rows]

    def _vector(self, numbers: Any) -> bytes:
        """The vector at unit length. A length that is not the expected one is never stored beside others."""
        try:
            usable = isinstance(numbers, list) and all(map(math.isfinite, numbers))
            norm = math.hypot(*numbers) if usable else math.inf
        except (TypeError, OverflowError):
            usable, norm = False, math.inf
        if not usable or not math.isfinite(norm):
            raise self._failed("gave a vector that is not made of finite numbers")
        if self._found_dimensions is None and 0 < len(numbers) <= _MAX_DIMENSIONS:
            self._found_dimensions = len(numbers)
        if len(numbers) != self._found_dimensions:
            expected = self._found_dimensions or f"1 to {_MAX_DIMENSIONS}"
            raise self._failed(f"gave a vector of {len(numbers)} numbers instead of {expected}")
        return struct.pack(f"<{len(numbers)}f", *(number / (norm or 1.0) for number in numbers))

    # What is said

    def _failed(self, what: str) -> EndpointFailed:
        return EndpointFailed(
            f"the embeddings endpoint {self._endpoint} {what}", hint="try again later; kb config shows its settings"
        )

    def _refused(self, answer: _Answer) -> EmbedderUnavailable:
        words = self._words(answer.body)
        message = f"the embeddings endpoint {self._endpoint} answered {answer.status}" + (f": {words}" if words else "")
        if answer.status in _REFUSED_TEXT:
            return EmbedderUnavailable(message)
        if answer.status in {401, 403}:
            return EndpointFailed(message, hint="check KB_EMBEDDINGS_API_KEY")
        if answer.status == 404:
            return EndpointFailed(message, hint="check KB_EMBEDDINGS_URL and KB_EMBEDDINGS_MODEL")
        if 300 <= answer.status < 400:
            # The key must not follow to wherever an answer points.
            return EndpointFailed(message, hint="redirects are not followed: set KB_EMBEDDINGS_URL to the final address")
        return EndpointFailed(message, hint="try again later")

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
