"""Routes made of operations: read the request, dispatch, write the answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs

import msgspec
from litestar import Request, Response
from litestar.concurrency import sync_to_thread
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from litestar.status_codes import HTTP_204_NO_CONTENT
from litestar.types import Empty
from pydantic import BaseModel

from kb_framework.api import READER_HEADER, Actor, Download, Operation, Upload
from kb_framework.errors import InvalidInput, KBError
from kb_framework.operations import Dispatcher, from_texts, path_fields, query_fields

Requested = Request[Any, Any, Any]


def handlers_of(
    dispatcher: Dispatcher, operations: Iterable[Operation[Any, Any]]
) -> list[HTTPRouteHandler]:
    """Return a handler for each operation whose route is not written by hand."""
    return [
        _handler(dispatcher, operation) for operation in operations if not operation.http.by_hand
    ]


def _handler(dispatcher: Dispatcher, operation: Operation[Any, Any]) -> HTTPRouteHandler:
    http = operation.http
    model = dispatcher.model(operation)
    in_query = query_fields(operation, model)
    in_parts = http.content == "stream"

    async def handle(request: Requested) -> Response[Any]:
        values, content = await _sent(operation, model, request)
        output = await sync_to_thread(
            _answer, dispatcher, operation, values, caller(request), content
        )
        return _response(operation, output)

    # The types themselves: to find them by their names takes a third of the time in which an application is made. Litestar
    # wants to know where nothing follows.
    answer = Response[None] if http.status == HTTP_204_NO_CONTENT else Response[Any]
    handle.__annotations__ = {"request": Request[Any, Any, Any], "return": answer}
    return HTTPRouteHandler(
        http.path,
        http_method=http.method,
        status_code=http.status,
        name=operation.name,
        include_in_schema=False,
        request_max_body_size=None if in_parts else http.max_body_bytes or Empty,
        opt={
            "permission": operation.permission,
            "errors": http.errors,
            "body": "bytes" if in_parts else http.content,
            "failure": http.failure,
            "query": frozenset(in_query),
            "operation": operation,
            "model": model,
        },
    )(handle)


def caller(request: Requested) -> Actor:
    """Return who asks, as the gate found out; a caller that names a model as the reader is shown less, never more."""
    reader = request.headers.get(READER_HEADER, "person").strip().lower()
    if reader not in ("person", "model"):
        raise InvalidInput(f"{READER_HEADER}: must be person or model", field=READER_HEADER)
    actor: Actor = request.scope["state"]["actor"]
    return actor._replace(reader="model") if reader == "model" else actor


def _answer(
    dispatcher: Dispatcher, operation: Operation[Any, Any], values: Any, actor: Actor, content: Any
) -> Any:
    """Dispatch; make the first part of an answer in parts now, so that an error in it has a status."""
    output = dispatcher.dispatch(operation, values, actor, content)
    if isinstance(output, Download):
        return output._replace(parts=_begun(output.parts))
    if operation.http.lines:
        return Download(_json_lines(_begun(output)), "application/x-ndjson")
    return output


def _begun(parts: Iterator[Any]) -> Iterator[Any]:
    return itertools.chain([*itertools.islice(parts, 1)], parts)


def _json_lines(items: Iterator[BaseModel]) -> Iterator[bytes]:
    try:
        for item in items:
            yield item.model_dump_json().encode() + b"\n"
    except KBError as error:
        said = {"error": error.v1(), "status": error.http_status}
        yield json.dumps(said, ensure_ascii=False).encode() + b"\n"


async def _sent(
    operation: Operation[Any, Any], model: type[BaseModel], request: Requested
) -> tuple[dict[str, Any], bytes | Upload | None]:
    """Return the fields of a request, and what came beside them."""
    texts = parse_qs(request.scope["query_string"].decode(), keep_blank_values=True)
    values = from_texts(model, texts) | {
        name: request.path_params[name] for name in path_fields(operation)
    }
    if operation.http.content == "stream":
        length = int(request.headers.get("content-length", "0"))
        return values, Upload(_arriving(request, asyncio.get_running_loop()), length)
    raw = await request.body()
    if operation.http.content == "bytes":
        return values, raw
    if operation.http.method in ("GET", "DELETE"):
        return values, None
    body = decoded(raw) if raw else {}
    if not isinstance(body, dict):
        raise InvalidInput("body: must be an object", field="body")
    for name in body.keys() & {*path_fields(operation), *operation.http.query}:
        raise InvalidInput(f"{name}: is not a field of this request's body", field=name)
    return {**body, **values}, None


def _arriving(request: Requested, loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """Yield a body as it arrives, to a service in a thread."""
    parts = request.stream()

    async def following() -> bytes | None:
        return await anext(parts, None)

    while (part := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield part


def decoded(raw: bytes) -> Any:
    """Return a JSON body as Python's own objects."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise InvalidInput("body: is nested too deeply", field="body") from None
    except UnicodeDecodeError:
        raise InvalidInput("body: must be valid UTF-8", field="body") from None
    except msgspec.DecodeError as error:
        raise not_json(str(error)) from None


_JSON_PLACE = re.compile(r"\(byte (\d+)\)")


def not_json(detail: str) -> InvalidInput:
    if "surrogate" in detail:
        return InvalidInput("body: must not contain a lone surrogate", field="body")
    place = _JSON_PLACE.search(detail)
    return InvalidInput(
        "body: is not valid JSON" + (f" at byte {place[1]}" if place else ""), field="body"
    )


def _response(operation: Operation[Any, Any], output: Any) -> Response[Any]:
    if isinstance(output, Download):
        return Stream(output.parts, media_type=output.media, headers=dict(output.headers))
    status = getattr(output, "http_status", None) or operation.http.status
    if output is None:
        return Response(None, status_code=status)
    body = (
        output.model_dump_json().encode()
        if isinstance(output, BaseModel)
        else json.dumps(output, ensure_ascii=False).encode()
    )
    return Response(body, status_code=status, media_type="application/json")
