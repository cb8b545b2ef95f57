"""An engine elsewhere: the HTTP requests of operations, and the engine that serves a data folder."""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode, urlsplit

from kb_framework.api import READER_HEADER, Operation, Reader, Upload, resolve
from kb_framework.errors import EngineError, EngineUnreachable, InvalidInput

_BASE = "/api/v1"
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
_PART = 1 << 18


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamedReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    parts: Iterator[bytes]


class Transport(Protocol):
    """A way to an engine: in this process, or over HTTP."""

    def call(
        self,
        operation: Operation[Any, Any],
        values: Mapping[str, Any],
        content: Any,
        reader: Reader,
    ) -> Any:
        """Return the operation's answer as JSON data; raise `EngineError` for any but 2xx."""
        ...

    def download(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], reader: Reader
    ) -> Iterator[bytes]:
        """Yield the bytes of the operation's answer."""
        ...

    def stream(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], reader: Reader
    ) -> Iterator[Any]:
        """Yield the items of the operation's answer."""
        ...

    def request(
        self, method: str, path: str, params: Mapping[str, Any], body: Any, reader: Reader
    ) -> Any:
        """Call the operation that has this request."""
        ...

    def close(self) -> None:
        """Close what was opened for it."""
        ...


class Requests:
    """Turns operations into HTTP requests. A subclass sends them."""

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        raise NotImplementedError

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]
    ) -> AbstractContextManager[StreamedReply]:
        """Send a request; within the context is its reply. Both bodies go in parts."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is kept open."""

    def call(
        self,
        operation: Operation[Any, Any],
        values: Mapping[str, Any],
        content: Any,
        reader: Reader,
    ) -> Any:
        target, fields = _request_of(operation, values)
        headers = headers_of(reader)
        body = b""
        if operation.http.content == "form":
            body, headers["Content-Type"] = multipart(
                *resolve(operation.http.form)(fields, content)
            )
        elif operation.http.content == "bytes":
            body, headers["Content-Type"] = content, "application/octet-stream"
        elif operation.http.content == "stream":
            return self._upload(operation.http.method, target, headers, content)
        elif operation.http.method not in ("GET", "DELETE"):
            body, headers["Content-Type"] = _json(fields), "application/json"
        return decoded(_successful_reply(self.send(operation.http.method, target, headers, body)))

    def download(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], reader: Reader
    ) -> Iterator[bytes]:
        target, _ = _request_of(operation, values)
        with self.exchange(
            operation.http.method, target, {**headers_of(reader), "Accept": "*/*"}, ()
        ) as reply:
            yield from _successful(reply)

    def stream(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], reader: Reader
    ) -> Iterator[Any]:
        """Yield the lines of an operation's answer as they come."""
        target, fields = _request_of(operation, values)
        content = _json(fields)
        headers = {
            **headers_of(reader),
            "Accept": "application/x-ndjson",
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
        }
        rest = b""
        with self.exchange(operation.http.method, target, headers, (content,)) as reply:
            for part in _successful(reply):
                *whole, rest = (rest + part).split(b"\n")
                for line in map(json.loads, whole):
                    if "error" in line and "status" in line:
                        raise EngineError(line["status"], line["error"])
                    yield line

    def request(
        self, method: str, path: str, params: Mapping[str, Any], body: Any, reader: Reader
    ) -> Any:
        """Send a request by its path."""
        headers = headers_of(reader)
        content = b""
        if body is not None:
            content, headers["Content-Type"] = _json(body), "application/json"
        return decoded(
            _successful_reply(self.send(method, target_of(path, params), headers, content))
        )

    def _upload(self, method: str, target: str, headers: dict[str, str], content: Upload) -> Any:
        headers |= {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(content.length),
        }
        with self.exchange(method, target, headers, content.parts) as reply:
            return json.loads(b"".join(_successful(reply)))


def _request_of(
    operation: Operation[Any, Any], values: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the target of an operation's request, and the fields of its body."""
    rest = dict(values)
    parts = []
    for part in operation.http.path.split("/"):
        name = part[1:-1].partition(":")[0] if part.startswith("{") else None
        parts.append(part if name is None else quote(str(rest.pop(name, "")), safe=""))
    in_query = (
        rest
        if operation.http.sends_query
        else {name: rest.pop(name) for name in operation.http.query if name in rest}
    )
    return target_of("/".join(parts), in_query, quoted=True), rest


def headers_of(reader: Reader) -> dict[str, str]:
    return {"Accept": "application/json", **({READER_HEADER: reader} if reader != "person" else {})}


def target_of(path: str, params: Mapping[str, Any], *, quoted: bool = False) -> str:
    sent = {name: _query_text(value) for name, value in params.items() if value is not None}
    try:
        query = urlencode(sent, doseq=True)
        return _BASE + (path if quoted else quote(path)) + (f"?{query}" if query else "")
    except UnicodeEncodeError:
        raise not_text([path, sent]) from None


def _query_text(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise not_text(value) from None


def first_broken(value: Any) -> str:
    """Return the first text that cannot be encoded, or an empty one."""
    if isinstance(value, str):
        return value if any("\ud800" <= char <= "\udfff" for char in value) else ""
    parts = (
        [*value, *value.values()]
        if isinstance(value, dict)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return next((found for part in parts if (found := first_broken(part))), "")


def not_text(value: Any) -> InvalidInput:
    """Return the error for bytes that are no characters, as a command line or a file name may hold."""
    return InvalidInput(
        f"{first_broken(value).encode(errors='replace').decode()[:200]!r} is not valid UTF-8"
    )


def _successful_reply(reply: Reply) -> Reply:
    if not 200 <= reply.status < 300:
        raise EngineError(reply.status, decoded(reply))
    return reply


def decoded(reply: Reply) -> Any:
    if not reply.body:
        return None
    try:
        return json.loads(reply.body)
    except ValueError:
        return {"message": f"the answer ({reply.status}) is not JSON: is this a kb engine?"}


def _successful(reply: StreamedReply) -> Iterator[bytes]:
    if not 200 <= reply.status < 300:
        raise EngineError(
            reply.status, decoded(Reply(reply.status, reply.headers, b"".join(reply.parts)))
        )
    return reply.parts


def multipart(
    fields: Mapping[str, Any], files: Sequence[tuple[str, str, bytes]]
) -> tuple[bytes, str]:
    """Return the body of a form with files, and its content type."""
    boundary = f"kb-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                parts += [
                    f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{item}\r\n'.encode()
                ]
    for field, name, content in files:
        filename = (
            name.replace("\\", "/").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        )
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{filename}"\r\n'
        parts += [
            head.encode(errors="replace"),
            b"Content-Type: application/octet-stream\r\n\r\n",
            content,
            b"\r\n",
        ]
    # One join: a file may be large, and every step would copy it.
    return b"".join(
        [*parts, f"--{boundary}--\r\n".encode()]
    ), f"multipart/form-data; boundary={boundary}"


@contextmanager
def _streamed(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: Iterable[bytes],
) -> Iterator[StreamedReply]:
    connection.request(
        method, target, body=None if method == "GET" else iter(body), headers=dict(headers)
    )
    answer = connection.getresponse()
    # Pass on what has arrived; `read` would wait until a part is full.
    parts = iter(lambda: answer.read1(_PART), b"")
    yield StreamedReply(
        answer.status, {name.lower(): value for name, value in answer.getheaders()}, parts
    )


class HttpTransport(Requests):
    """Sends operations to an engine over HTTP."""

    def __init__(
        self, url: str, api_key: str | None = None, seconds: float = _ANSWER_SECONDS
    ) -> None:
        self.url = url.rstrip("/")
        self._seconds = seconds
        parts = urlsplit(self.url)
        self._parts = parts
        self._authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        with self._connected() as connection:
            connection.request(
                method,
                self._parts.path + target,
                body=body or None,
                headers={**headers, **self._authorization},
            )
            answer = connection.getresponse()
            return Reply(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )

    @contextmanager
    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]
    ) -> Iterator[StreamedReply]:
        everything = {**headers, **self._authorization}
        with (
            self._connected() as connection,
            _streamed(connection, method, self._parts.path + target, everything, body) as reply,
        ):
            yield reply

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=_CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(self._seconds)
            yield connection
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise EngineUnreachable(
                f"the engine at {self.url} cannot be reached: {reason}",
                hint="start it with kb serve, or unset KB_ENGINE_URL",
            ) from error
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is kept open."""
