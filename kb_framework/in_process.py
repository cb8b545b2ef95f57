"""An engine in this process: operations are called without HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from kb_framework.api import Actor, Credentials, Download, Operation, Reader
from kb_framework.api.models import takes_list
from kb_framework.api.times import now
from kb_framework.bootstrap import split_list
from kb_framework.errors import EngineError, KBError, NotFound
from kb_framework.operations import explained, from_texts, unexpected
from kb_framework.remote import first_broken, not_text

if TYPE_CHECKING:
    from kb_framework.app import KB


class LocalTransport:
    """Calls the dispatcher of an open knowledge base, as the local person or as the user of a key."""

    def __init__(self, kb: KB, api_key: str | None = None, actor: Actor | None = None) -> None:
        self._kb = kb
        self._key = api_key
        self._known = actor or (None if api_key else Actor())
        self._used: dict[str, str] = {}

    def call(
        self,
        operation: Operation[Any, Any],
        values: Mapping[str, Any],
        content: Any,
        reader: Reader,
    ) -> Any:
        return _as_json(self._dispatch(operation, values, content, reader))

    def download(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], reader: Reader
    ) -> Iterator[bytes]:
        output: Download = self._dispatch(operation, values, None, reader)
        return self._each(operation, output.parts)

    def stream(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], reader: Reader
    ) -> Iterator[Any]:
        return map(_as_json, self._each(operation, self._dispatch(operation, values, None, reader)))

    def request(
        self, method: str, path: str, params: Mapping[str, Any], body: Any, reader: Reader
    ) -> Any:
        """Call the operation that has this request."""
        matching = [
            (operation, found)
            for operation in self._kb.plugins.operations
            if operation.http.content == "json"
            and (found := _matched(operation, method, path)) is not None
        ]
        if not matching:
            unknown = NotFound(f"nothing is served at /api/v1{path}", hint="/docs lists the routes")
            raise EngineError(unknown.http_status, unknown.flat())
        # `/documents/facets` is a path of its own, and not that of a document.
        operation, found = min(matching, key=lambda pair: len(pair[1]))
        texts = {name: _texts(value) for name, value in params.items() if value is not None}
        try:
            values = from_texts(self._kb.dispatcher.model(operation), texts)
        except KBError as error:
            raise _failed(error, operation) from None
        return self.call(operation, {**(body or {}), **values, **found}, None, reader)

    def close(self) -> None:
        if self._used:
            self._kb.access.used(self._used)
        self._kb.close()

    def _dispatch(
        self,
        operation: Operation[Any, Any],
        values: Mapping[str, Any],
        content: Any,
        reader: Reader,
    ) -> Any:
        if first_broken(values):
            raise not_text(values)
        with _translated(operation):
            if operation.http.sends_query:
                values = _with_lists(self._kb.dispatcher.model(operation), values)
            return self._kb.dispatcher.dispatch(operation, values, self._actor(reader), content)

    def _each(self, operation: Operation[Any, Any], items: Iterator[Any]) -> Iterator[Any]:
        with _translated(operation):
            yield from items

    def _actor(self, reader: Reader) -> Actor:
        actor = self._known or self._kb.access.actor(Credentials(self._key, {}, "")) or Actor()
        if actor.key_id:
            self._used[actor.key_id] = now()
        return actor._replace(reader=reader) if reader != "person" else actor


class BorrowedTransport(LocalTransport):
    """A transport over a knowledge base that somebody else closes."""

    def close(self) -> None:
        """Leave the knowledge base open."""


@contextmanager
def _translated(operation: Operation[Any, Any]) -> Iterator[None]:
    """Raise what the client of an engine elsewhere would raise."""
    try:
        yield
    except KBError as error:
        raise _failed(error, operation) from error
    except Exception as error:
        request_id = uuid.uuid4().hex[:16]
        found = explained(error) or unexpected(error, request_id, operation.http.failure)
        raise _failed(found, operation) from error


def _failed(error: KBError, operation: Operation[Any, Any]) -> EngineError:
    return EngineError(error.http_status, error.in_dialect(operation.http.errors))


def _as_json(output: Any) -> Any:
    return output.model_dump(mode="json") if isinstance(output, BaseModel) else output


def _with_lists(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with lists that were given as text, `a,b`, as a query has them."""
    fields = model.model_fields
    return {
        name: split_list(value)
        if isinstance(value, str) and name in fields and takes_list(fields[name].annotation)
        else value
        for name, value in values.items()
    }


def _texts(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return [("true" if value else "false") if isinstance(value, bool) else str(value)]


def _matched(operation: Operation[Any, Any], method: str, path: str) -> dict[str, str] | None:
    """Return the values of the path's parameters where the operation has this request."""
    parts, words = operation.http.path.split("/"), path.split("/")
    if operation.http.method != method or len(parts) != len(words):
        return None
    found: dict[str, str] = {}
    for part, word in zip(parts, words, strict=True):
        if part.startswith("{") and word:
            found[part[1:-1].partition(":")[0]] = word
        elif part != word:
            return None
    return found
