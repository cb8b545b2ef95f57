"""The console's routes: read the request, call the page's function in a thread, answer with a page."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from litestar import Request, Response
from litestar.concurrency import sync_to_thread
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from kb_console.pages import (
    access,
    ask,
    bulk,
    documents,
    engine,
    home,
    jobs,
    knowledge,
    own,
    research,
    search,
    session,
)
from kb_console.service import Console
from kb_console.templates import Templates
from kb_console.view import Go, Html, Lines, Texts, View
from kb_framework.api import ANY_KEY, PUBLIC, Actor, Download, Page
from kb_framework.api.dispatch import explained, unexpected
from kb_framework.api.parts import Plugins
from kb_framework.api.web import SESSIONS
from kb_framework.errors import Forbidden, InvalidInput, NotFound

log = logging.getLogger("kb.console")

Requested = Request[Any, Any, Any]
# The service that recognises sessions, where the access plugin is on.
_SESSIONS = "access_sessions"
# Only a script of the page can send it: a form or a link elsewhere cannot.
HEADER = "kb-console"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Smaller answers fit into one packet.
_WORTH_COMPRESSING = 1_000
_OWN = (home, search, documents, bulk, knowledge, ask, research, jobs, access, engine)


class Sent(NamedTuple):
    """What a request carries: its fields as texts, and its files as (name, content)."""

    fields: Texts
    files: list[tuple[str, bytes]]


def handlers(plugins: Plugins) -> list[HTTPRouteHandler]:
    """Return the handlers of the console's pages and of those that plugins add."""
    refused = _refused_with(Templates(plugins))
    takes = {SESSIONS: _SESSIONS} if plugins.services.get(_SESSIONS) else {}
    found = [
        _handler(method, path, function, {"permission": ANY_KEY, "body": body, **takes}, refused)
        for module in _OWN
        for method, path, function, body in _routes(module)
    ]
    taken = {path for module in _OWN for _, path, _, _ in _routes(module)}
    registry = plugins.registry(Page)
    for page in list(registry):
        if page.path not in taken and registry.plugin_of(page.name) != "console":
            opt = {"permission": page.permission or ANY_KEY, "body": "json", **takes}
            found.append(_handler("GET", page.path, own.shows(page), opt, refused))
    return [*found, *_session_handlers(takes, refused), _asset]


def _routes(module: Any) -> list[tuple[str, str, Callable[[View], Any], str]]:
    return [(*route, "json") if len(route) == 3 else route for route in module.ROUTES]


def _handler(
    method: Any, path: str, function: Callable[[View], Any], opt: dict[str, Any], refused: Any
) -> HTTPRouteHandler:
    async def handle(request: Requested, console: NamedDependency[Console]) -> Response[Any]:
        view: View | None = None
        try:
            if method != "GET":
                _require_own_page(request)
            sent = await _sent(request, opt["body"]) if method != "GET" else Sent({}, [])
            view = _view(request, console, sent)
            answer = await sync_to_thread(function, view)
            return _response(request, answer)
        except Exception as error:  # noqa: BLE001 - the edge of the console
            return _failed(request, console, error, view)

    return HTTPRouteHandler(
        path,
        http_method=method,
        status_code=200,
        name=f"console {method} {path}",
        opt=opt,
        exception_handlers={Exception: refused},
    )(handle)


def _view(request: Requested, console: Console, sent: Sent) -> View:
    actor: Actor = request.scope["state"]["actor"]
    query = parse_qs(request.scope["query_string"].decode(), keep_blank_values=True)
    return View(
        console,
        actor,
        request.path_params,
        query,
        sent.fields,
        sent.files,
        request.cookies,
        current=request.scope["path"].rstrip("/") or "/",
        origin=f"{request.base_url.scheme}://{request.headers.get('host', '')}",
    )


def _require_own_page(request: Requested) -> None:
    """Raise for a change that another page could have asked for."""
    origin = urlsplit(request.headers.get("origin", ""))
    if not origin.netloc or origin.netloc != request.headers.get("host", ""):
        raise Forbidden("changes are made from the console's own pages only", field="Origin")
    if request.headers.get(HEADER) != "1":
        raise Forbidden("changes are made by the console's own script only", field="KB-Console")


async def _sent(request: Requested, body: str) -> Sent:
    if body == "multipart":
        form = await request.form()
        fields: Texts = {}
        files: list[tuple[str, bytes]] = []
        for name, value in form.multi_items():
            if hasattr(value, "filename"):
                files.append((value.filename or "", await value.read()))
            else:
                fields.setdefault(name, []).append(str(value))
        return Sent(fields, files)
    raw = await request.body()
    values = await request.json() if raw else {}
    if not isinstance(values, dict) or not all(
        isinstance(value, list) and all(isinstance(item, str) for item in value)
        for value in values.values()
    ):
        raise InvalidInput("body: must be an object of lists of texts", field="body")
    return Sent(values, [])


# Answers


def _response(request: Requested, answer: Any) -> Response[Any]:
    if isinstance(answer, Go):
        headers = {"KB-Location": answer.path, "KB-Said": quote(answer.said), **_HEADERS}
        return Response(b"", headers=headers, media_type="text/html")
    if isinstance(answer, Download):
        return Stream(
            answer.parts,
            media_type=answer.media,
            headers={
                **dict(answer.headers),
                "X-Content-Type-Options": "nosniff",
                "Content-Security-Policy": "sandbox; default-src 'none'",
                "Cache-Control": "no-store",
            },
        )
    if isinstance(answer, Lines):
        lines = (json.dumps(part, ensure_ascii=False).encode() + b"\n" for part in answer.parts)
        return Stream(lines, media_type="application/x-ndjson", headers=_HEADERS)
    if isinstance(answer, Html):
        return _page(request, answer.text, answer.status)
    return Response(answer, headers=_HEADERS, media_type="application/json")


def _page(request: Requested, text: str, status: int = 200) -> Response[Any]:
    return _compressed(request, text.encode(), "text/html; charset=utf-8", status, _HEADERS)


def _compressed(
    request: Requested, content: bytes, media: str, status: int, headers: dict[str, str]
) -> Response[Any]:
    if len(content) > _WORTH_COMPRESSING and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, compresslevel=5)
        headers = {**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(content, status_code=status, media_type=media, headers=headers)


def _failed(
    request: Requested, console: Console, error: Exception, view: View | None
) -> Response[Any]:
    """Return the page that says what went wrong."""
    found = explained(error) or unexpected(
        error, request.scope.get("state", {}).get("request_id", "")
    )
    if view is None:
        return _page(request, console.render("bare_error.html", error=found), found.http_status)
    shown = view.show("error.html", "That did not work", status=found.http_status, error=found)
    return _page(request, shown.text, shown.status)


def _refused_with(templates: Templates) -> Callable[[Requested, Exception], Response[Any]]:
    """Return what answers a request that the gate refused: without a session, the page to sign in on."""

    def refused(request: Requested, error: Exception) -> Response[Any]:
        found = explained(error) or unexpected(
            error, request.scope.get("state", {}).get("request_id", "")
        )
        name = "sign_in.html" if found.http_status == 401 else "bare_error.html"
        return _page(request, templates.render(name, error=found), found.http_status)

    return refused


# Sessions


def _session_handlers(takes: dict[str, Any], refused: Any) -> list[HTTPRouteHandler]:
    if not takes:
        return []

    def route(path: str, permission: str) -> Callable[[Any], HTTPRouteHandler]:
        return HTTPRouteHandler(
            path,
            http_method="POST",
            status_code=200,
            opt={"permission": permission, "body": "json"},
            exception_handlers={Exception: refused},
        )

    async def open_link(request: Requested, console: NamedDependency[Console]) -> Response[Any]:
        """Open a session by a link's token, once."""
        _require_own_page(request)
        sent = await _sent(request, "json")
        token = (sent.fields.get("token") or [""])[-1]
        secret = await sync_to_thread(console.sessions.open, token)
        return _signed_in(request, console, secret)

    async def sign_in(request: Requested, console: NamedDependency[Console]) -> Response[Any]:
        """Open a session by a key, which the gate took from the Authorization header."""
        _require_own_page(request)
        actor: Actor = request.scope["state"]["actor"]
        secret = await sync_to_thread(console.sessions.start, actor)
        return _signed_in(request, console, secret)

    async def sign_out(request: Requested, console: NamedDependency[Console]) -> Response[Any]:
        """End the session of the cookie."""
        _require_own_page(request)
        await sync_to_thread(console.sessions.end_of, dict(request.cookies))
        answer = _response(request, Go("/console/signed-out"))
        answer.delete_cookie(session.COOKIE, path="/console")
        return answer

    async def pages(request: Requested, console: NamedDependency[Console]) -> Response[Any]:
        name = request.scope["path"].rstrip("/").rpartition("/")[2]
        return _page(request, console.render(f"{name.replace('-', '_')}.html"))

    shown = HTTPRouteHandler(
        ["/open", "/sign-in", "/signed-out"],
        http_method="GET",
        status_code=200,
        opt={"permission": PUBLIC},
    )(pages)
    return [
        route("/session/link", PUBLIC)(open_link),
        route("/session/key", ANY_KEY)(sign_in),
        route("/session/end", PUBLIC)(sign_out),
        shown,
    ]


def _signed_in(request: Requested, console: Console, secret: str) -> Response[Any]:
    answer = _response(request, Go("/console"))
    answer.set_cookie(
        key=session.COOKIE,
        value=secret,
        path="/console",
        max_age=console.sessions.seconds,
        httponly=True,
        samesite="strict",
        secure=request.base_url.scheme == "https",
    )
    return answer


# Assets


async def _serve_asset(request: Requested, console: NamedDependency[Console]) -> Response[Any]:
    asset = console.templates.assets.get(request.scope["path"])
    if asset is None:
        raise NotFound("there is no such asset")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return _compressed(request, asset.content, asset.media, 200, headers)


_asset = HTTPRouteHandler(
    "/assets/{digest:str}/{name:str}",
    http_method="GET",
    status_code=200,
    opt={"permission": PUBLIC},
)(_serve_asset)
