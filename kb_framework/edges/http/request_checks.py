"""Checks of every request: the names in its query, its texts, its body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from litestar import Litestar, Request
from litestar.routes import HTTPRoute

from kb_framework import errors
from kb_framework.api.messages import unknown
from kb_framework.api.models import takes_text

BASE = "/api/v1"


# In a route's `opt`, by the host: the names that its query may have.
_QUERY = "query"


# Those of them that are texts.
_TEXTS = "texts"


def note_queries(app: Litestar) -> None:
    """Leave with every route of the API the names that its query may have; one that asks for the whole `query` takes any."""
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith(BASE):
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


def check_request(request: Request[Any, Any, Any]) -> None:
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
