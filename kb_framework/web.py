"""The HTTP edge: mounts what plugins contribute, and translates errors in one place."""

from __future__ import annotations

import importlib.util
import inspect
import ipaddress
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
from litestar import Litestar, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException, InternalServerException, SerializationException, ValidationException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, SwaggerRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.plugins.pydantic import PydanticPlugin
from litestar.response import Redirect
from litestar.routes import HTTPRoute
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, Empty, Receive, Scope, Send
from pydantic import BaseModel, ValidationError

from kb_framework import __version__, errors
from kb_framework.api import ANY_KEY, PUBLIC, READER_HEADER, Actor, Routes, resolve
from kb_framework.app import KB
from kb_framework.gate import Gate
from kb_framework.hardening import in_time, security_headers
from kb_framework.http import ERROR_MODELS, Answer
from kb_framework.plugins import HOST
from kb_framework.settings import HostSettings
from kb_framework.system import SystemService, handlers
from kb_framework.validation import in_words, invalid

log = logging.getLogger("kb.http")

_BASE = "/api/v1"
_ASSETS = "/assets/swagger"
_KEY_SCHEME = "key"
_OPEN = {"permission": PUBLIC}
# In a route's `opt`, by the host: the names that its query may have.
_QUERY = "query"
_WRAPPING_BYTES = 1_000_000
# What decides who is let in must not be said twice.
_ONCE = {b"host", b"origin", b"authorization", b"content-type"}
_STATUS_ERRORS: dict[int, type[errors.KBError]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    415: errors.UnsupportedMediaType,
}
_DOCUMENTED = {
    400: "The input is wrong; the message names the field",
    401: "No key, or one that is unknown, revoked or expired",
    403: "Not allowed",
    404: "There is no such thing",
    409: "Refused",
    413: "Too large",
    415: "Not a kind of body that this route takes",
    429: "Too many requests; Retry-After says when to come back",
    500: "Unexpected; logged under the id that is given",
    503: "Busy, the database cannot be used, or a plugin has failed",
    507: "The disk is full; nothing was changed",
}


def create_app(
    kb: KB,
    *,
    instance: str = "",
    mcp: ASGIApp | None = None,
    lifespan: Any = None,
    local_secret: str = "",
    any_address: bool = False,
) -> ASGIApp:
    """The application over an open knowledge base.

    Whoever shows `local_secret` is the person at the data folder. With `any_address` it may be reached by any number, not
    only by loopback's; by a name only if KB_ALLOWED_HOSTS has it.
    """
    system = SystemService(kb, instance)
    gate = Gate(kb.access, kb.settings.host.unauthorized_per_minute, local_secret)

    def found(word: str | None = None) -> list[HTTPRouteHandler]:
        return [*_documented(handlers, HOST), *_limited(_plugin_handlers(kb, word), kb)]

    def build(some: list[HTTPRouteHandler], *more: Any, **options: Any) -> Litestar:
        app = Litestar(
            route_handlers=[Router(_BASE, route_handlers=some), *more],
            dependencies={
                "actor": Provide(_actor, sync_to_thread=False),
                "system": Provide(lambda: system, sync_to_thread=False),
                **{name: Provide(_service(kb, name), sync_to_thread=True) for name in kb.services},
            },
            plugins=[PydanticPlugin(validate_strict=True)],
            type_encoders={BaseModel: _as_json},
            exception_handlers={Exception: render_error},
            guards=[gate.authorize],
            before_request=_check_request,
            request_max_body_size=kb.settings.host.max_body_bytes,
            logging_config=None,
            debug=False,
            **options,
        )
        _note_queries(app)
        return app

    def build_whole() -> Litestar:
        return build(found(), *_pages(), *([mcp] if mcp else []), openapi_config=_openapi(), lifespan=lifespan)

    # Whoever does not say where its routes are is asked now: one that cannot be mounted has failed before anybody asks anything.
    found("")
    parts = Parts(found, build_whole, lambda some: build(some, openapi_config=None))
    return Edge(parts, gate, kb.settings.host, any_address=any_address)


class Parts:
    """The application, whole or by the first word of a path.

    Making all routes takes longer than most commands, which ask one or two of them in their own process. So until somebody
    needs the whole (a server does at its start, and so does OpenAPI), each request makes only the part that it asks.
    """

    def __init__(
        self,
        found: Callable[[str], list[HTTPRouteHandler]],
        build_whole: Callable[[], Litestar],
        build_part: Callable[[list[HTTPRouteHandler]], Litestar],
    ) -> None:
        self._found = found
        self._build_whole = build_whole
        self._build_part = build_part
        self._built: dict[str, Litestar] = {}

    @cached_property
    def whole(self) -> Litestar:
        return self._build_whole()

    def answering(self, path: str) -> Litestar:
        """The application that answers to a path."""
        base, _, rest = path.partition(f"{_BASE}/")
        word = rest.split("/")[0]
        if "whole" in self.__dict__ or base or not word:
            return self.whole
        if word not in self._built:
            self._built[word] = self._part(word)
        return self._built[word]

    def _part(self, word: str) -> Litestar:
        some = [handler for handler in self._found(word) if word in _first_words(handler)]
        of_the_whole = any(handler.opt.get("whole") for handler in some)
        return self._build_part(some) if some and not of_the_whole else self.whole


def _actor(request: Request[Any, Any, Any]) -> Actor:
    """Who asks, as the gate found out. Whoever says that a model reads the answer is given less, never more."""
    reader = request.headers.get(READER_HEADER, "person").strip().lower()
    if reader not in ("person", "model"):
        raise errors.InvalidInput(f"{READER_HEADER}: must be person or model", field=READER_HEADER)
    actor: Actor = request.scope["state"]["actor"]
    return actor._replace(reader="model") if reader == "model" else actor


def _as_json(model: BaseModel) -> msgspec.Raw:
    """A model as it is sent. Pydantic writes JSON twice as fast as it makes the dictionaries that JSON could be made of."""
    return msgspec.Raw(model.model_dump_json().encode())


def _service(kb: KB, name: str) -> Callable[[], Any]:
    return lambda: kb.services[name]


def _plugin_handlers(kb: KB, word: str | None) -> list[HTTPRouteHandler]:
    """Every plugin's handlers; a plugin whose routes cannot be mounted has failed, and the rest is mounted without it.

    With a word, without those of plugins that say that no path of theirs begins with it.
    """
    plugins = kb.plugins
    while True:
        mounted: list[HTTPRouteHandler] = []
        claimed = dict.fromkeys(_paths(handlers), HOST)
        for name, routes in sorted(
            plugins.routes.items(), key=lambda pair: plugins.load_order(plugins.routes.plugin_of(pair[0]))
        ):
            plugin = plugins.routes.plugin_of(name)
            if word is not None and routes.under and word not in routes.under:
                continue
            try:
                target = resolve(routes.target)
                found = _documented(target(plugins) if routes.build else target, plugin)
                _check_words(routes, found)
                _claim(claimed, _paths(found), plugin)
                mounted += found
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                plugins.fail(plugin, error)
                break
        else:
            return mounted


def _limited(found: list[HTTPRouteHandler], kb: KB) -> list[HTTPRouteHandler]:
    """The handlers; those that take a file, and set no limit of their own, take as much as a file may have, and its wrapping."""
    for handler in found:
        if handler.opt.get("body", "json") != "json" and handler.request_max_body_size is Empty:
            handler.request_max_body_size = kb.settings.host.max_file_bytes + _WRAPPING_BYTES
    return found


def _claim(claimed: dict[tuple[str, str], str], paths: set[tuple[str, str]], plugin: str) -> None:
    for method, path in sorted(paths & claimed.keys()):
        raise errors.PluginFailed(f"{method} {path} is claimed by both {claimed[method, path]!r} and {plugin!r}")
    claimed |= dict.fromkeys(paths, plugin)


def _check_words(routes: Routes, found: Iterable[HTTPRouteHandler]) -> None:
    """What is not found under the words that a plugin declared would be found by a server, and not by a command."""
    for word in sorted({word for handler in found for word in _first_words(handler)} - set(routes.under)):
        if routes.under:
            raise errors.PluginFailed(f"the routes {routes.name!r} are said to be under {', '.join(routes.under)}, not {word!r}")


def _first_words(handler: HTTPRouteHandler) -> set[str]:
    return {path.strip("/").split("/")[0] for path in handler.paths}


def _paths(found: Iterable[HTTPRouteHandler]) -> set[tuple[str, str]]:
    """What handlers answer to; the name of a path's parameter makes no difference."""
    every = ((str(method), path) for handler in found for path in handler.paths for method in handler.http_methods)
    return {(method, re.sub(r"\{[^}:]*", "{", path)) for method, path in every}


def _documented(found: HTTPRouteHandler | Iterable[HTTPRouteHandler], plugin: str) -> list[HTTPRouteHandler]:
    """The handlers, described for OpenAPI: in words, by plugin, and with the errors that any route may answer."""
    items = [found] if isinstance(found, BaseRouteHandler) else list(found)
    for handler in items:
        model = ERROR_MODELS[handler.opt.get("errors", "flat")]
        common = {status: Answer(model, words) for status, words in _DOCUMENTED.items()}
        handler.responses = {**common, **(handler.responses or {})}
        words = inspect.getdoc(handler.fn) or ""
        handler.summary = handler.summary or words.split("\n")[0].rstrip(".") or None
        handler.tags = handler.tags or [plugin]
        permission = handler.opt.get("permission", "")
        # Without any key made, none is needed: so it is said to be optional.
        needed = [] if permission in ("", ANY_KEY) else [permission]
        handler.security = [] if permission == PUBLIC else [{_KEY_SCHEME: needed}, {}]
    return items


def _note_queries(app: Litestar) -> None:
    """Leave with every route of the API the names that its query may have; one that asks for the whole `query` takes any."""
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith(_BASE):
            for handler, parameters in route.route_handler_map.values():
                if "query" not in parameters.expected_reserved_kwargs:
                    names = {item.field_alias for item in parameters.expected_query_params}
                    # What is a part of the path here may be a parameter on another path of the same handler.
                    handler.opt[_QUERY] = handler.opt.get(_QUERY, frozenset()) | names


def _pages() -> list[Any]:
    @get("/", include_in_schema=False, sync_to_thread=False, opt=_OPEN)
    def root() -> Redirect:
        return Redirect("/schema/swagger")

    @get("/docs", include_in_schema=False, sync_to_thread=False, opt=_OPEN)
    def docs() -> Redirect:
        return Redirect("/schema/swagger")

    spec = importlib.util.find_spec("swagger_ui")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "") / "static"
    assets = create_static_files_router(_ASSETS, directories=[folder], include_in_schema=False, opt=_OPEN)
    return [root, docs, assets]


_BEARER = SecurityScheme(
    type="http",
    scheme="bearer",
    description="A key (`kb keys create`) with the permission that the route lists. As long as no key was made, none is needed.",
)


def _openapi() -> OpenAPIConfig:
    swagger = SwaggerRenderPlugin(
        js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        css_url=f"{_ASSETS}/swagger-ui.css",
        standalone_preset_js_url=f"{_ASSETS}/swagger-ui-standalone-preset.js",
        favicon=f"<link rel='icon' href='{_ASSETS}/favicon-32x32.png'>",
    )
    return OpenAPIConfig(
        title="kb",
        version=__version__,
        openapi_router=Router("/schema", route_handlers=[], opt=_OPEN, include_in_schema=False),
        render_plugins=[swagger, JsonRenderPlugin()],
        use_handler_docstrings=True,
        components=Components(security_schemes={_KEY_SCHEME: _BEARER}),
    )


# Requests


def _check_request(request: Request[Any, Any, Any]) -> None:
    """What is wrong with a request whatever its route."""
    try:
        query = unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise errors.InvalidInput("query: must be valid UTF-8", field="query") from None
    if "\x00" in query:
        raise errors.InvalidInput("query: must not contain NUL", field="query")
    known = request.route_handler.opt.get(_QUERY)
    if query and known is not None:
        _check_names(request.query_params.keys(), known)
    expected = request.route_handler.opt.get("body", "json")
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if expected == "bytes" or request.method in {"GET", "HEAD", "DELETE"} or not has_body:
        return
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    wanted = {"json": "application/json", "multipart": "multipart/form-data"}[expected]
    if content_type != wanted:
        # A page elsewhere can make a browser post text/plain or a form without asking; JSON it cannot.
        raise errors.UnsupportedMediaType(f"content-type: must be {wanted}", field="content-type")


def _check_names(given: Iterable[str], known: frozenset[str]) -> None:
    """A filter whose name is misspelt would be no filter."""
    for name in given:
        if name not in known:
            takes = ", ".join(sorted(known)) or "no parameters"
            raise errors.InvalidInput(f"{name}: is not a parameter of this request", hint=f"it takes {takes}", field=name)


class Edge:
    """Around the application: who may reach it, a request id, and one line in the log per request."""

    def __init__(self, parts: Parts, gate: Gate, host_settings: HostSettings, *, any_address: bool = False) -> None:
        self._parts = parts
        self._gate = gate
        self._allowed = {host.lower() for host in host_settings.allowed_hosts}
        self._any_address = any_address
        self._body_seconds = host_settings.body_timeout

    @property
    def app(self) -> Litestar:
        """All of it, with every route."""
        return self._parts.whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex[:16]
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        started = time.perf_counter()
        status = 500

        async def send_marked(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *security_headers(message["headers"])]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        refusal = self._refusal(scope["path"], scope["headers"])
        if refusal is not None:
            body = json.dumps(refusal.flat()).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send_marked({"type": "http.response.start", "status": refusal.http_status, "headers": headers})
            await send_marked({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self._parts.answering(scope["path"])(scope, in_time(receive, self._body_seconds), send_marked)
            await self._gate.remember_use()
        log.info(
            "%s %s %s",
            scope["method"],
            scope["path"],
            status,
            extra={
                "request_id": request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "ms": round((time.perf_counter() - started) * 1000, 1),
            },
        )

    def _refusal(self, path: str, given: Iterable[tuple[bytes, bytes]]) -> errors.KBError | None:
        """A page that reached this port by a name of its own (DNS rebinding), or that posts from elsewhere, is refused."""
        if "\x00" in path or "\ufffd" in path:
            return errors.InvalidInput("path: must be valid UTF-8 without NUL", field="path")
        headers: dict[bytes, bytes] = {}
        for name, value in given:
            if name in _ONCE and name in headers:
                # A proxy in front may have looked at the other.
                shown = name.decode()
                return errors.InvalidInput(f"{shown}: there must be only one such header", field=shown)
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_allowed(host):
            return errors.Forbidden(
                f"the Host header {host!r} is not one of this engine's names",
                hint="add the name to KB_ALLOWED_HOSTS",
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and not (self._is_allowed(urlsplit(origin).netloc) and _same_port(origin, host)):
            return errors.Forbidden(f"requests from {origin!r} are not allowed")
        return None

    def _is_allowed(self, netloc: str) -> bool:
        try:
            name = "" if "@" in netloc else urlsplit(f"//{netloc}").hostname or ""
        except ValueError:
            return False
        if name == "localhost" or name in self._allowed:
            return True
        try:
            # A page elsewhere can make its own name lead here, never a number.
            return ipaddress.ip_address(name).is_loopback or self._any_address
        except ValueError:
            return False


def _same_port(origin: str, host: str) -> bool:
    """Another port of the same machine is another program."""
    try:
        page, engine = urlsplit(origin), urlsplit(f"//{host}")
        usual = {"http": 80, "https": 443}.get(page.scheme)
        return (page.port or usual) == (engine.port or usual)
    except ValueError:
        return False


# Errors


def render_error(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """The one place where an exception becomes an HTTP answer, in the route's dialect."""
    handler = request.scope.get("route_handler")
    opt = handler.opt if handler else {}
    found = _translate(error)
    if found is None:
        request_id = request.scope.get("state", {}).get("request_id", "")
        log.error("request %s failed", request_id, exc_info=error, extra={"request_id": request_id})
        words = opt.get("failure") or f"something went wrong; it was logged as {request_id}"
        found = errors.InternalError(words, id=request_id)
    dialect = opt.get("errors", "flat")
    body = {"flat": found.flat, "v1": found.v1, "envelope": found.envelope}[dialect]()
    headers = {"WWW-Authenticate": "Bearer"} if found.http_status == 401 else {}
    if found.http_status in (429, 503):
        headers["Retry-After"] = str(found.details.get("retry_after", 1))
    return Response(body, status_code=found.http_status, headers=headers, media_type="application/json")


def _translate(error: Exception) -> errors.KBError | None:
    if isinstance(error, errors.KBError):
        return error
    if isinstance(error, ValidationError):
        return invalid(error)
    if isinstance(error, ValidationException):
        return _invalid_parameter(error)
    if isinstance(error, HTTPException):
        of_body = getattr(error.__cause__, "__cause__", None)
        if isinstance(error, InternalServerException) and isinstance(of_body, ValidationError):
            # Litestar takes a field that is named like a dependency for that, and its being wrong for a mistake in here.
            return invalid(of_body)
        if error.status_code == 400 and isinstance(error.__cause__, SerializationException):
            return errors.InvalidInput(f"body: is not valid JSON: {error.detail}", field="body")
        if error.status_code == errors.PayloadTooLarge.http_status:
            return errors.PayloadTooLarge("Request payload too large")
        kind = _STATUS_ERRORS.get(error.status_code)
        if kind is None and error.status_code >= 500:
            return None
        return (kind or errors.InvalidInput)(str(error.detail) or "the request cannot be understood")
    if isinstance(error, UnicodeDecodeError | RecursionError) and _raised_while_parsing(error):
        reason = "is nested too deeply" if isinstance(error, RecursionError) else "must be valid UTF-8"
        return errors.InvalidInput(f"body: {reason}", field="body")
    return errors.disk_trouble(error) if isinstance(error, OSError) else None


def _invalid_parameter(error: ValidationException) -> errors.InvalidInput:
    extra: list[Any] = error.extra if isinstance(error.extra, list) else []
    first = extra[0] if extra and isinstance(extra[0], dict) else {}
    field = str(first.get("key") or "body")
    return errors.InvalidInput(f"{field}: {in_words(str(first.get('message') or error.detail))}", field=field)


def _raised_while_parsing(error: Exception) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("litestar._kwargs"):
            return True
        trace = trace.tb_next
    return False
