"""Errors as answers: the one place where the HTTP edge translates them."""

from __future__ import annotations

import uuid
from typing import Any, Literal, get_args, get_origin

from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    InternalServerException,
    SerializationException,
    ValidationException,
)
from pydantic import BaseModel, ValidationError

from kb_framework import errors
from kb_framework.api.messages import parameter_words
from kb_framework.api.models import invalid
from kb_framework.edges.http.operations import not_json
from kb_framework.operations import explained, not_an_id, unexpected

_STATUS_ERRORS: dict[int, type[errors.KBError]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    415: errors.UnsupportedMediaType,
}


_CLIENT_CLOSED = 499


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
