"""The HTTP edge: mounts what plugins contribute, and translates errors in one place."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from litestar import Litestar, Router
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.plugins.pydantic import PydanticPlugin
from litestar.types import ASGIApp, Empty
from pydantic import BaseModel

from kb_framework import errors
from kb_framework.api import ANY_KEY, PUBLIC, resolve
from kb_framework.app import KB
from kb_framework.edges.http.auth import NOBODY_LOCAL, Authenticator, Local
from kb_framework.edges.http.edge import Edge
from kb_framework.edges.http.health import live_handler
from kb_framework.edges.http.operations import caller, handlers_of
from kb_framework.edges.http.pages import DOCS, openapi, pages
from kb_framework.edges.http.params import DOCUMENTED, KEY_SCHEME, Answer
from kb_framework.edges.http.rendering import render_error
from kb_framework.edges.http.request_checks import BASE, check_request, note_queries
from kb_framework.plugins import HOST, Plugins
from kb_framework.wire import ERROR_MODELS

log = logging.getLogger("kb.http")

_WRAPPING_BYTES = 1_000_000


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
    live = live_handler(instance, local.secret)
    authenticator = Authenticator(
        kb.access, kb.settings.host.unauthorized_per_minute, local, kb.services
    )

    dispatcher = kb.dispatcher
    mounted = _plugin_handlers(kb, live)
    # Only what is written by hand takes these: an application is made a fifth faster.
    dependencies = {
        "actor": Provide(caller, sync_to_thread=False),
        **{name: Provide(_service(kb, name), sync_to_thread=True) for name in kb.services},
    }
    # A handler is the same object in every application of a process, so they are the router's and not its own.
    by_hand = Router(
        "/", route_handlers=_limited(mounted.pop(BASE, []), kb), dependencies=dependencies
    )
    found = [
        *_documented(live, HOST),
        by_hand,
        *_limited(handlers_of(dispatcher, kb.plugins.operations), kb),
    ]
    beside = [
        Router(
            base,
            route_handlers=_limited(items, kb),
            dependencies=dependencies,
            include_in_schema=False,
        )
        for base, items in mounted.items()
    ]
    app = Litestar(
        route_handlers=[
            Router(BASE, route_handlers=found),
            *beside,
            *pages(next(iter(mounted), DOCS)),
            *([mcp] if mcp else []),
        ],
        plugins=[PydanticPlugin(validate_strict=True)],
        type_encoders={BaseModel: _as_json},
        exception_handlers={Exception: render_error},
        guards=[authenticator.authorize],
        before_request=check_request,
        request_max_body_size=kb.settings.host.max_body_bytes,
        logging_config=None,
        debug=False,
        openapi_config=openapi(dispatcher),
        lifespan=lifespan,
    )
    note_queries(app)
    return Edge(app, authenticator, kb.settings.host, any_address=any_address)


def _as_json(model: BaseModel) -> msgspec.Raw:
    """Return a model as JSON. Pydantic writes it twice as fast as it makes dictionaries."""
    return msgspec.Raw(model.model_dump_json().encode())


def _service(kb: KB, name: str) -> Callable[[], Any]:
    return lambda: kb.services[name]


def _plugin_handlers(kb: KB, own: HTTPRouteHandler) -> dict[str, list[HTTPRouteHandler]]:
    """Return the handlers that plugins wrote by hand, by the path below which they are mounted.

    A plugin whose routes cannot be mounted has failed; the rest is mounted.
    """
    plugins = kb.plugins
    while True:
        mounted: dict[str, list[HTTPRouteHandler]] = {}
        claimed = dict.fromkeys(_paths([own]), HOST) | _claimed_by_operations(plugins)
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
                mounted.setdefault(routes.base or BASE, []).extend(found)
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


# Requests


# Errors
