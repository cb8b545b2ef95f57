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
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
from litestar import Litestar, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import (
    HTTPException,
    InternalServerException,
    SerializationException,
    ValidationException,
)
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.plugins.pydantic import PydanticPlugin
from litestar.response import Redirect
from litestar.routes import HTTPRoute
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, Empty, Receive, Scope, Send
from pydantic import BaseModel, ValidationError

from kb_framework import __version__, errors
from kb_framework.api import ANY_KEY, PUBLIC, resolve
from kb_framework.app import KB
from kb_framework.edges.http.auth import NOBODY_LOCAL, Authenticator, Local
from kb_framework.edges.http.hardening import in_time, security_headers
from kb_framework.edges.http.health import HealthService, handlers
from kb_framework.edges.http.openapi import Json, Swagger
from kb_framework.edges.http.operations import caller, handlers_of, not_json
from kb_framework.edges.http.params import DOCUMENTED, ERROR_MODELS, KEY_SCHEME, Answer
from kb_framework.messages import parameter_words, unknown
from kb_framework.operations import Dispatcher, explained, not_an_id, unexpected
from kb_framework.plugins import HOST, Plugins
from kb_framework.settings import HostSettings
from kb_framework.validation import invalid, takes_text

log = logging.getLogger("kb.http")

_BASE = "/api/v1"
_ASSETS = "/assets/swagger"
_DOCS = "/schema/swagger"
_OPEN = {"permission": PUBLIC}
# In a route's `opt`, by the host: the names that its query may have.
_QUERY = "query"
# Those of them that are texts.
_TEXTS = "texts"
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
_CLIENT_CLOSED = 499


def create_app(
    kb: KB,
    *,
    instance: str = "",
    mcp: ASGIApp | None = None,
    lifespan: Any = None,
    local: Local = NOBODY_LOCAL,
    any_address: bool = False,
) -> ASGIApp:
    """The application over an open knowledge base.

    `local` says how the person at the data folder is recognised. With `any_address` it may be reached by any number, not
    only by loopback's; by a name only if KB_ALLOWED_HOSTS has it.
    """
    system = HealthService(kb, instance, secret=local.secret)
    authenticator = Authenticator(
        kb.access, kb.settings.host.unauthorized_per_minute, local, kb.services
    )

    dispatcher = kb.dispatcher
    mounted = _plugin_handlers(kb)
    found = [
        *_documented(handlers, HOST),
        *_limited(mounted.pop(_BASE, []), kb),
        *handlers_of(dispatcher, kb.plugins.operations),
    ]
    beside = [
        Router(base, route_handlers=_limited(items, kb), include_in_schema=False)
        for base, items in mounted.items()
    ]
    app = Litestar(
        route_handlers=[
            Router(_BASE, route_handlers=found),
            *beside,
            *_pages(next(iter(mounted), _DOCS)),
            *([mcp] if mcp else []),
        ],
        dependencies={
            "actor": Provide(caller, sync_to_thread=False),
            "system": Provide(lambda: system, sync_to_thread=False),
            **{name: Provide(_service(kb, name), sync_to_thread=True) for name in kb.services},
        },
        plugins=[PydanticPlugin(validate_strict=True)],
        type_encoders={BaseModel: _as_json},
        exception_handlers={Exception: render_error},
        guards=[authenticator.authorize],
        before_request=_check_request,
        request_max_body_size=kb.settings.host.max_body_bytes,
        logging_config=None,
        debug=False,
        openapi_config=_openapi(dispatcher),
        lifespan=lifespan,
    )
    _note_queries(app)
    return Edge(app, authenticator, kb.settings.host, any_address=any_address)


def _as_json(model: BaseModel) -> msgspec.Raw:
    """Return a model as JSON. Pydantic writes it twice as fast as it makes dictionaries."""
    return msgspec.Raw(model.model_dump_json().encode())


def _service(kb: KB, name: str) -> Callable[[], Any]:
    return lambda: kb.services[name]


def _plugin_handlers(kb: KB) -> dict[str, list[HTTPRouteHandler]]:
    """Return the handlers that plugins wrote by hand, by the path below which they are mounted.

    A plugin whose routes cannot be mounted has failed; the rest is mounted.
    """
    plugins = kb.plugins
    while True:
        mounted: dict[str, list[HTTPRouteHandler]] = {}
        claimed = dict.fromkeys(_paths(handlers), HOST) | _claimed_by_operations(plugins)
        for name, routes in sorted(
            plugins.routes.items(),
            key=lambda pair: plugins.load_order(plugins.routes.plugin_of(pair[0])),
        ):
            plugin = plugins.routes.plugin_of(name)
            try:
                target = resolve(routes.target)
                found = _documented(target(plugins) if routes.build else target, plugin)
                _claim(
                    claimed, {(verb, routes.base + path) for verb, path in _paths(found)}, plugin
                )
                mounted.setdefault(routes.base or _BASE, []).extend(found)
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
        raise errors.PluginFailed(
            f"{method} {path} is claimed by both {claimed[method, path]!r} and {plugin!r}"
        )
    claimed |= dict.fromkeys(paths, plugin)


def _claimed_by_operations(plugins: Plugins) -> dict[tuple[str, str], str]:
    return {
        (
            operation.http.method,
            re.sub(r"\{[^}:]*", "{", operation.http.path),
        ): plugins.operations.plugin_of(operation.name)
        for operation in plugins.operations
        if not operation.http.by_hand
    }


def _paths(found: Iterable[HTTPRouteHandler]) -> set[tuple[str, str]]:
    """What handlers answer to; the name of a path's parameter makes no difference."""
    every = (
        (str(method), path)
        for handler in found
        for path in handler.paths
        for method in handler.http_methods
    )
    return {(method, re.sub(r"\{[^}:]*", "{", path)) for method, path in every}


def _documented(
    found: HTTPRouteHandler | Iterable[HTTPRouteHandler], plugin: str
) -> list[HTTPRouteHandler]:
    """The handlers, described for OpenAPI: in words, by plugin, and with the errors that any route may answer."""
    items = [found] if isinstance(found, BaseRouteHandler) else list(found)
    for handler in items:
        model = ERROR_MODELS[handler.opt.get("errors", "flat")]
        common = {status: Answer(model, words) for status, words in DOCUMENTED.items()}
        handler.responses = {**common, **(handler.responses or {})}
        words = inspect.getdoc(handler.fn) or ""
        handler.summary = handler.summary or words.split("\n")[0].rstrip(".") or None
        handler.tags = handler.tags or [plugin]
        permission = handler.opt.get("permission", "")
        # Without any key made, none is needed: so it is said to be optional.
        needed = [] if permission in ("", ANY_KEY) else [permission]
        handler.security = [] if permission == PUBLIC else [{KEY_SCHEME: needed}, {}]
    return items


def _note_queries(app: Litestar) -> None:
    """Leave with every route of the API the names that its query may have; one that asks for the whole `query` takes any."""
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith(_BASE):
            for handler, parameters in route.route_handler_map.values():
                if (
                    "query" not in parameters.expected_reserved_kwargs
                    and "operation" not in handler.opt
                ):
                    names = {item.field_alias for item in parameters.expected_query_params}
                    # What is a part of the path here may be a parameter on another path of the same handler.
                    handler.opt[_QUERY] = handler.opt.get(_QUERY, frozenset()) | names
                    types = {
                        name: item.annotation
                        for name, item in handler.parsed_fn_signature.parameters.items()
                    }
                    handler.opt[_TEXTS] = handler.opt.get(_TEXTS, frozenset()) | {
                        item.field_alias.encode()
                        for item in parameters.expected_query_params
                        if not item.is_required and takes_text(types.get(item.field_name))
                    }


def _pages(home: str) -> list[Any]:
    @get("/", include_in_schema=False, sync_to_thread=False, opt=_OPEN)
    def root() -> Redirect:
        return Redirect(home)

    @get("/docs", include_in_schema=False, sync_to_thread=False, opt=_OPEN)
    def docs() -> Redirect:
        return Redirect(_DOCS)

    spec = importlib.util.find_spec("swagger_ui")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "") / "static"
    assets = create_static_files_router(
        _ASSETS, directories=[folder], include_in_schema=False, opt=_OPEN
    )
    return [root, docs, assets]


_BEARER = SecurityScheme(
    type="http",
    scheme="bearer",
    description="A key (`kb keys create`) with the permission that the route lists. As long as no key was made, none is needed.",
)


def _openapi(dispatcher: Dispatcher) -> OpenAPIConfig:
    swagger = Swagger(
        dispatcher,
        js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        css_url=f"{_ASSETS}/swagger-ui.css",
        standalone_preset_js_url=f"{_ASSETS}/swagger-ui-standalone-preset.js",
        favicon=f"<link rel='icon' href='{_ASSETS}/favicon-32x32.png'>",
    )
    return OpenAPIConfig(
        title="kb",
        version=__version__,
        openapi_router=Router("/schema", route_handlers=[], opt=_OPEN, include_in_schema=False),
        render_plugins=[swagger, Json(dispatcher)],
        use_handler_docstrings=True,
        components=Components(security_schemes={KEY_SCHEME: _BEARER}),
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
    if request.method in {"GET", "HEAD"} and (texts := request.route_handler.opt.get(_TEXTS)):
        # Where something is only read, a text without letters was not given.
        parts = request.scope["query_string"].split(b"&")
        request.scope["query_string"] = b"&".join(
            part for part in parts if not (part[-1:] == b"=" and part[:-1] in texts)
        )
    known = request.route_handler.opt.get(_QUERY)
    if query and known is not None:
        _check_names(request.query_params.keys(), known)
    expected = request.route_handler.opt.get("body", "json")
    has_body = (
        request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    )
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
            message, hint = unknown(name, sorted(known), "a parameter of this request")
            raise errors.InvalidInput(message, hint=hint, field=name)


class Edge:
    """Around the application: who may reach it, a request id, and one line in the log per request."""

    def __init__(
        self,
        app: Litestar,
        authenticator: Authenticator,
        host_settings: HostSettings,
        *,
        any_address: bool = False,
    ) -> None:
        self.app = app
        self._authenticator = authenticator
        self._allowed = {host.lower() for host in host_settings.allowed_hosts}
        self._any_address = any_address
        self._body_seconds = host_settings.body_timeout

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
                own = [
                    (b"x-request-id", request_id.encode()),
                    *security_headers(message["headers"]),
                ]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        refusal = self._refusal(scope["path"], scope["headers"])
        if refusal is not None:
            body = json.dumps(refusal.flat()).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ]
            await send_marked(
                {"type": "http.response.start", "status": refusal.http_status, "headers": headers}
            )
            await send_marked({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self.app(scope, in_time(receive, self._body_seconds), send_marked)
            await self._authenticator.remember_use()
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
                return errors.InvalidInput(
                    f"{shown}: there must be only one such header", field=shown
                )
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
    if _is_hang_up(error):
        # Nobody is there to read it; the log has the status that others use for this.
        return Response(None, status_code=_CLIENT_CLOSED)
    found = _translate(error, request, handler)
    if found is None:
        found = unexpected(
            error, request.scope.get("state", {}).get("request_id", ""), opt.get("failure", "")
        )
    dialect = opt.get("errors", "flat")
    body = found.in_dialect(dialect)
    headers = {"WWW-Authenticate": "Bearer"} if found.http_status == 401 else {}
    if found.http_status in (429, 503):
        headers["Retry-After"] = str(found.details.get("retry_after", 1))
    return Response(
        body, status_code=found.http_status, headers=headers, media_type="application/json"
    )


def _is_hang_up(error: Exception) -> bool:
    """Whether the caller went away while its body was read."""
    return (
        isinstance(error, InternalServerException)
        and error.detail == "client disconnected prematurely"
    )


def _translate(
    error: Exception, request: Request[Any, Any, Any], handler: Any
) -> errors.KBError | None:
    if isinstance(error, HTTPException):
        of_body = getattr(error.__cause__, "__cause__", None)
        # Litestar takes a field that is named like a dependency for that, and its being wrong for a mistake in here.
        if isinstance(error, ValidationException | InternalServerException) and isinstance(
            of_body, ValidationError
        ):
            return invalid(of_body, _body_of(handler))
        if isinstance(error, ValidationException):
            return _invalid_parameter(error, request, handler)
        if error.status_code == 400 and isinstance(error.__cause__, SerializationException):
            return not_json(error.detail)
        if error.status_code == errors.NotFound.http_status:
            return _not_served(request)
        if error.status_code == errors.MethodNotAllowed.http_status:
            return errors.MethodNotAllowed(
                f"{request.method} is not possible at {request.scope['path']}"
            )
        if error.status_code == errors.PayloadTooLarge.http_status:
            return errors.PayloadTooLarge("Request payload too large")
        kind = _STATUS_ERRORS.get(error.status_code)
        if kind is None and error.status_code >= 500:
            return None
        return (kind or errors.InvalidInput)(
            str(error.detail) or "the request cannot be understood"
        )
    if isinstance(
        error, UnicodeDecodeError | RecursionError | LookupError
    ) and _raised_while_parsing(error):
        reason = "must be valid UTF-8"
        if isinstance(error, RecursionError):
            reason = "is nested too deeply"
        elif isinstance(error, LookupError):
            reason = "a part names a charset that does not exist; UTF-8 needs none"
        return errors.InvalidInput(f"body: {reason}", field="body")
    return explained(error)


def _body_of(handler: Any) -> type[BaseModel] | None:
    parameter = handler.parsed_fn_signature.parameters.get("data") if handler else None
    kind = parameter.annotation if parameter else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _invalid_parameter(
    error: ValidationException, request: Request[Any, Any, Any], handler: Any
) -> errors.InvalidInput:
    extra: list[Any] = error.extra if isinstance(error.extra, list) else []
    first = extra[0] if extra and isinstance(extra[0], dict) else {}
    field = str(first.get("key") or "body")
    parameter = handler.parsed_fn_signature.parameters.get(field) if handler else None
    given = request.query_params.get(field, request.path_params.get(field, ...))
    words = parameter_words(
        str(first.get("message") or error.detail),
        given,
        _choices(parameter.annotation if parameter else None),
    )
    return errors.InvalidInput(f"{field}: {words}", field=field)


def _choices(annotation: Any) -> list[str]:
    """The values of a `Literal`, also of an optional one."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return next((found for part in get_args(annotation) if (found := _choices(part))), [])


def _not_served(request: Request[Any, Any, Any]) -> errors.NotFound:
    """A path that no route has, or whose id cannot be one."""
    path = request.scope["path"].rstrip("/")
    words = path.split("/")[1:]
    for route in request.app.routes:
        parts = route.path_components
        ids = [
            (part, word)
            for part, word in zip(parts, words, strict=False)
            if not isinstance(part, str)
        ]
        if len(parts) != len(words) or any(
            part != word for part, word in zip(parts, words, strict=True) if isinstance(part, str)
        ):
            continue
        for part, word in ids:
            if part.type in (int, uuid.UUID) and not _can_be(part.type, word):
                return not_an_id(part.name, "int" if part.type is int else "uuid", word)
    return errors.NotFound(f"nothing is served at {path or '/'}", hint="/docs lists the routes")


def _can_be(kind: type, word: str) -> bool:
    try:
        kind(word)
    except ValueError:
        return False
    return True


def _raised_while_parsing(error: Exception) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("litestar._kwargs"):
            return True
        trace = trace.tb_next
    return False
