"""The engine client: the one way in which commands, MCP tools and scripts reach an engine.

The same requests go to an engine in this process (nothing to start), to one that already serves this data folder, or to
`KB_ENGINE_URL`. `kb_framework.client.connect()` chooses.
"""

from __future__ import annotations

import copy
import functools
import http.client
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode, urlsplit

from kb_framework.api import READER_HEADER, Actor, Reader, resolve
from kb_framework.bootstrap import Bootstrap, read_bootstrap
from kb_framework.errors import EngineError, EngineUnreachable
from kb_framework.plugins import Plugins

if TYPE_CHECKING:
    from kb_framework.app import KB
    from kb_framework.streaming import StreamedReply

ADDRESS_FILE = "engine.json"
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 600.0
_PROBE_SECONDS = 2.0
# For what must not be done beside an engine: it may be busy, and where there is none that is known at once.
PATIENT_SECONDS = 60.0


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply: ...

    def stream(
        self, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]
    ) -> AbstractContextManager[StreamedReply]: ...

    def close(self) -> None: ...


class Engine:
    """Sends requests and raises `EngineError` on any answer but 2xx. Plugins add methods: `engine.bulk_delete(tags=["old"])`."""

    def __init__(self, transport: Transport, plugins: Plugins | None = None, reader: Reader = "person") -> None:
        self._transport = transport
        self._plugins = plugins
        self._reader = {READER_HEADER: reader} if reader != "person" else {}

    def read_by(self, reader: Reader) -> Engine:
        """The same engine, asked on behalf of another kind of reader."""
        return Engine(self._transport, self._plugins, reader)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json_body: Any = None,
        content: bytes | None = None,
        fields: Mapping[str, Any] | None = None,
        files: Sequence[tuple[str, str, bytes]] = (),
    ) -> Reply:
        """One request under `/api/v1`. Parameters that are None are not sent; files are (field, name, content)."""
        target = _target(path, params or {})
        headers: dict[str, str] = {"Accept": "application/json", **self._reader}
        body = b""
        if files:
            body, headers["Content-Type"] = _multipart(fields or {}, files)
        elif content is not None:
            body, headers["Content-Type"] = content, "application/octet-stream"
        elif json_body is not None:
            body, headers["Content-Type"] = json.dumps(json_body).encode(), "application/json"
        reply = self._transport.send(method, target, headers, body)
        if not 200 <= reply.status < 300:
            raise EngineError(reply.status, _decoded(reply))
        return reply

    def get(self, path: str, **params: Any) -> Any:
        return _decoded(self.request("GET", path, params=params))

    def post(self, path: str, body: Any = None) -> Any:
        return _decoded(self.request("POST", path, json_body=body))

    def put(self, path: str, body: Any) -> Any:
        return _decoded(self.request("PUT", path, json_body=body))

    def patch(self, path: str, body: Any) -> Any:
        return _decoded(self.request("PATCH", path, json_body=body))

    def delete(self, path: str, **params: Any) -> Any:
        return _decoded(self.request("DELETE", path, params=params))

    def upload(self, path: str, filename: str, data: bytes, fields: Mapping[str, Any]) -> Any:
        return self.upload_files(path, [("file", filename, data)], fields)

    def upload_files(self, path: str, files: Sequence[tuple[str, str, bytes]], fields: Mapping[str, Any]) -> Any:
        """Post a form with files, each with the form's field it is for, its name and its content."""
        return _decoded(self.request("POST", path, fields=fields, files=files))

    def download(self, path: str, **params: Any) -> Iterator[bytes]:
        """The body of an answer, part by part, however large it is."""
        with self._transport.stream("GET", _target(path, params), {"Accept": "*/*", **self._reader}, ()) as reply:
            yield from _successful(reply)

    def send_parts(self, path: str, parts: Iterable[bytes], length: int, **params: Any) -> Any:
        """Post a body part by part, however large it is."""
        headers = {"Accept": "application/json", "Content-Type": "application/octet-stream", "Content-Length": str(length)}
        with self._transport.stream("POST", _target(path, params), headers, parts) as reply:
            return json.loads(b"".join(_successful(reply)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        item = self._plugins.client_methods.get(name) if self._plugins and not name.startswith("_") else None
        if item is None:
            raise AttributeError(name)
        function = resolve(item.target)
        return functools.partial(function(self._plugins, name) if item.build else function, self)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(bootstrap: Bootstrap | None = None, plugins: Plugins | None = None) -> Engine:
    """The engine that is configured, else the one that serves this data folder, else one in this process."""
    bootstrap = bootstrap or read_bootstrap()
    plugins = plugins or Plugins(bootstrap)
    if bootstrap.engine_url:
        return Engine(HttpTransport(bootstrap.engine_url, bootstrap.api_key), plugins)
    running = running_engine(bootstrap)
    if running:
        return Engine(HttpTransport(running.url, bootstrap.api_key or running.secret), plugins)

    from kb_framework.app import open_kb

    # Whoever can open the data folder owns what is in it; a key makes them its user instead.
    return Engine(LocalTransport(open_kb(bootstrap, plugins), bootstrap.api_key), plugins)


class Running(NamedTuple):
    """An engine that serves this data folder; who shows the secret, which lies in the folder, is the folder's owner."""

    url: str
    secret: str | None


def running_engine(bootstrap: Bootstrap, patience: float = _PROBE_SECONDS) -> Running | None:
    """The engine that serves this data folder, if it answers, in so many seconds, as the one that left its address."""
    try:
        left = json.loads((bootstrap.data_dir / ADDRESS_FILE).read_text(encoding="utf-8"))
        url, instance = str(left["url"]), str(left["instance"])
        reply = HttpTransport(url, seconds=patience).send("GET", "/api/v1/health/live", {}, b"")
        return Running(url, left.get("secret")) if json.loads(reply.body).get("instance") == instance else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EngineUnreachable):
        return None


def given(**values: Any) -> dict[str, Any]:
    """Only what was given: None is left out."""
    return {name: value for name, value in values.items() if value is not None}


def _target(path: str, params: Mapping[str, Any]) -> str:
    query = urlencode(given(**params), doseq=True)
    return "/api/v1" + quote(path) + (f"?{query}" if query else "")


def _successful(reply: StreamedReply) -> Iterator[bytes]:
    if not 200 <= reply.status < 300:
        raise EngineError(reply.status, _decoded(Reply(reply.status, reply.headers, b"".join(reply.parts))))
    return reply.parts


class HttpTransport:
    def __init__(self, url: str, api_key: str | None = None, seconds: float = _ANSWER_SECONDS) -> None:
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
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    @contextmanager
    def stream(self, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]) -> Iterator[StreamedReply]:
        from kb_framework.streaming import http_stream

        everything = {**headers, **self._authorization}
        with (
            self._connected() as connection,
            http_stream(connection, method, self._parts.path + target, everything, body) as reply,
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


class AsgiTransport:
    """Calls an application directly, on an event loop in a thread of its own, so that any thread may ask."""

    def __init__(
        self,
        app: Any = None,
        on_close: Callable[[], None] | None = None,
        *,
        actor: Actor | None = Actor(),  # noqa: B008 - it cannot be changed
        api_key: str | None = None,
    ) -> None:
        """Requests are the actor's; with None, or with a key, the application finds out itself who asks."""
        import asyncio

        self._app = app
        self._on_close = on_close
        self._actor = None if api_key else actor
        self._authorization = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kb-engine", daemon=True)
        self._thread.start()

    def use(self, app: Any) -> None:
        """Set the application, for one that is made of parts that need this transport."""
        self._app = app

    @property
    def _application(self) -> Any:
        return self._app

    def acting_as(self, actor: Actor) -> AsgiTransport:
        """The same application, asked by another."""
        other = copy.copy(self)
        other._actor, other._authorization = actor, {}
        return other

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        import asyncio

        return asyncio.run_coroutine_threadsafe(self._call(method, target, headers, body), self._loop).result()

    def stream(
        self, method: str, target: str, headers: Mapping[str, str], body: Iterable[bytes]
    ) -> AbstractContextManager[StreamedReply]:
        from kb_framework.streaming import asgi_stream

        return asgi_stream(self._application, self._loop, self._scope(method, target, headers), body)

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
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()],
            "client": ("127.0.0.1", os.getpid()),
            "server": ("localhost", 80),
        }

    async def _call(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        import asyncio

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

        await self._application(scope, receive, send)
        start = next(message for message in sent if message["type"] == "http.response.start")
        payload = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Reply(start["status"], received, payload)

    async def _abandon(self) -> None:
        """What an interrupted caller left under way."""
        import asyncio

        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self) -> None:
        import asyncio

        asyncio.run_coroutine_threadsafe(self._abandon(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._on_close:
            self._on_close()


class LocalTransport(AsgiTransport):
    """To an engine in this process. Its application is made for the first request that no plugin answers without it."""

    def __init__(self, kb: KB, api_key: str | None = None) -> None:
        super().__init__(on_close=kb.close, api_key=api_key)
        self._kb = kb
        self._making = threading.Lock()

    @property
    def _application(self) -> Any:
        with self._making:
            if self._app is None:
                from kb_framework.web import create_app

                self._app = create_app(self._kb)
        return self._app

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        return self._direct(method, target, headers, body) or super().send(method, target, headers, body)

    def _direct(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """The answer of whoever needs no application for it. Whatever goes wrong is told by the application, in its words."""
        # Who is not the local person may not be allowed to ask: that is for the application to decide.
        if method != "POST" or self._actor != Actor() or READER_HEADER in headers:
            return None
        path = target.removeprefix("/api/v1")
        item = next((item for routes in self._kb.plugins.routes for item in routes.direct if item.path == path), None)
        if item is None:
            return None
        from kb_framework.validation import validate

        try:
            asked = validate(resolve(item.body), json.loads(body))
            answer = getattr(self._kb.services[item.service], item.method)(asked, self._actor)
            return Reply(200, {}, answer.model_dump_json().encode())
        except Exception:  # noqa: BLE001 - it only reads, so it can be asked again
            return None


def _decoded(reply: Reply) -> Any:
    if not reply.body:
        return None
    try:
        return json.loads(reply.body)
    except ValueError:
        return {"message": f"the answer ({reply.status}) is not JSON: is this a kb engine?"}


def _multipart(fields: Mapping[str, Any], files: Sequence[tuple[str, str, bytes]]) -> tuple[bytes, str]:
    boundary = f"kb-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                parts += [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{item}\r\n'.encode()]
    for field, name, content in files:
        filename = name.replace("\\", "/").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{filename}"\r\n'
        parts += [head.encode(errors="replace"), b"Content-Type: application/octet-stream\r\n\r\n", content, b"\r\n"]
    # One join: a file may be large, and every step would copy it.
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
