"""The engine client: the one way in which commands, MCP tools and scripts reach an engine.

The same requests go to an engine in this process (nothing to start), to one that already serves this data folder, or to
`KB_ENGINE_URL`. `kb_framework.client.connect()` chooses.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from kb_framework.api import READER_HEADER, Operation, Reader
from kb_framework.api.operation import In, Out
from kb_framework.bootstrap import Bootstrap, read_bootstrap
from kb_framework.errors import InvalidInput
from kb_framework.plugins import Plugins
from kb_framework.remote import HttpTransport, Transport
from kb_framework.running import ProvenTransport, Running, running_engine
from kb_framework.targets import differences

log = logging.getLogger("kb.client")


class Engine:
    """Calls operations and raises `EngineError` on any answer but 2xx.

    Every operation is a method: `engine.bulk_delete(tags=["old"])` returns the answer as JSON data. `call` is the same with
    models: `engine.call(SEARCH, SearchIn(query="keys"))` returns a `SearchOut`.
    """

    def __init__(
        self, transport: Transport, plugins: Plugins | None = None, reader: Reader = "person"
    ) -> None:
        self._transport = transport
        self._known = plugins
        self._reader: Reader = reader

    def read_by(self, reader: Reader) -> Engine:
        """Return the same engine, called on behalf of another kind of reader."""
        if reader not in ("person", "model"):
            raise InvalidInput(f"{READER_HEADER}: must be person or model", field=READER_HEADER)
        return Engine(self._transport, self._known, reader)

    @property
    def plugins(self) -> Plugins:
        """The plugins whose operations this client calls."""
        if self._known is None:
            raise TypeError("this client was made without plugins")
        return self._known

    def call(self, operation: Operation[In, Out], body: In, content: Any = None) -> Out:
        """Call an operation with its models."""
        from pydantic import TypeAdapter

        from kb_framework.operations import output_type

        values = cast(Any, body).model_dump(mode="json", exclude_unset=True)
        return TypeAdapter(output_type(operation)).validate_python(
            self.run(operation, values, content)
        )

    def run(
        self, operation: Operation[Any, Any], values: Mapping[str, Any], content: Any = None
    ) -> Any:
        """Call an operation with JSON data and return JSON data. Fields that are None are not sent."""
        return self._transport.call(operation, given(**values), content, self._reader)

    def download(self, name: str, **values: Any) -> Iterator[bytes]:
        """Return the bytes of an operation's answer in parts."""
        return self._transport.download(self._operation(name), given(**values), self._reader)

    def stream(self, operation: Operation[Any, Any], values: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the items of an operation's answer as JSON data, each as it comes."""
        return self._transport.stream(operation, given(**values), self._reader)

    def get(self, path: str, **params: Any) -> Any:
        return self._transport.request("GET", path, params, None, self._reader)

    def post(self, path: str, body: Any = None) -> Any:
        return self._transport.request("POST", path, {}, body, self._reader)

    def put(self, path: str, body: Any) -> Any:
        return self._transport.request("PUT", path, {}, body, self._reader)

    def patch(self, path: str, body: Any) -> Any:
        return self._transport.request("PATCH", path, {}, body, self._reader)

    def delete(self, path: str, **params: Any) -> Any:
        return self._transport.request("DELETE", path, params, None, self._reader)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or self._known is None:
            raise AttributeError(name)
        return functools.partial(self._by_name, self._operation(name))

    def _by_name(self, operation: Operation[Any, Any], /, *positional: Any, **values: Any) -> Any:
        """Call an operation with values for the first fields of its input, and for others by name."""
        content = None
        if operation.http.content != "json":
            # What is sent beside the fields comes last.
            positional, content = positional[:-1], positional[-1]
        if positional:
            values = self._named(operation, positional, values)
        if operation.http.lines:
            return self.stream(operation, values)
        if operation.http.download:
            return b"".join(self._transport.download(operation, given(**values), self._reader))
        return self.run(operation, values, content)

    def _named(
        self, operation: Operation[Any, Any], positional: Sequence[Any], values: Mapping[str, Any]
    ) -> dict[str, Any]:
        from kb_framework.operations import input_model

        fields = [
            name for name in input_model(self.plugins, operation).model_fields if name not in values
        ]
        if len(positional) > len(fields):
            raise TypeError(f"{operation.name} takes these fields: {', '.join(fields)}")
        return {**dict(zip(fields, positional, strict=False)), **values}

    def _operation(self, name: str) -> Operation[Any, Any]:
        operation = self._known.operations.get(name) if self._known else None
        if operation is None:
            raise AttributeError(name)
        return operation

    @property
    def url(self) -> str | None:
        """The address of an engine elsewhere; None for one in this process."""
        return getattr(self._transport, "url", None)

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
        _warn_of_differences(running, plugins)
        return Engine(ProvenTransport(running, bootstrap.api_key or running.secret), plugins)

    from kb_framework.app import open_kb
    from kb_framework.in_process import LocalTransport

    # Who can open the data folder owns what is in it. With a key the caller is the key's user instead.
    return Engine(LocalTransport(open_kb(bootstrap, plugins), bootstrap.api_key), plugins)


def _warn_of_differences(running: Running, plugins: Plugins) -> None:
    found = differences(running.plugins, plugins.prints) if running.plugins is not None else {}
    if found:
        listed = "; ".join(f"{name} is {words}" for name, words in found.items())
        log.warning(
            "the running engine has other plugins than this command: %s. Restart kb serve to use these",
            listed,
        )


def given(**values: Any) -> dict[str, Any]:
    """Only what was given: None is left out."""
    return {name: value for name, value in values.items() if value is not None}
