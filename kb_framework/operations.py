"""Operations: the models of their inputs, and the dispatcher that every edge calls."""

from __future__ import annotations

import functools
import inspect
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from kb_framework.api import ANY_KEY, PUBLIC, Actor, Operation, resolve
from kb_framework.api.models import (
    Question,
    invalid,
    takes_choice,
    takes_list,
    takes_text,
    validate,
)
from kb_framework.bootstrap import split_list
from kb_framework.errors import InternalError, KBError, NotFound, disk_trouble, memory_trouble
from kb_framework.plugins import Plugins

log = logging.getLogger("kb.operations")

Method = Callable[..., Any]


def is_function(operation: Operation[Any, Any]) -> bool:
    """Return whether the operation calls a function, not a service's method."""
    return ":" in operation.call


def input_model(plugins: Plugins, operation: Operation[Any, Any]) -> type[BaseModel]:
    """Return the model of an operation's input."""
    if operation.input:
        found = resolve(operation.input)
        if isinstance(found, type):
            return found
        return found(plugins) if operation.subject is None else found(plugins, operation.subject)
    return _signature_model(operation.name, operation.call) if is_function(operation) else _Nothing


def output_type(operation: Operation[Any, Any]) -> Any:
    """Return the type of an operation's answer; None where it has none."""
    if operation.output:
        return resolve(operation.output)
    if is_function(operation):
        return get_type_hints(resolve(operation.call)).get("return")
    return None


class _Nothing(Question):
    """The input of an operation that takes none."""


@functools.lru_cache(maxsize=256)
def _signature_model(name: str, target: str) -> type[BaseModel]:
    function = resolve(target)
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        item.name: (hints.get(item.name, Any), ... if item.default is item.empty else item.default)
        for item in inspect.signature(function).parameters.values()
        if item.kind is item.KEYWORD_ONLY
    }
    return create_model(
        name.title().replace("_", "") + "In",
        __base__=Question,
        __doc__=inspect.getdoc(function),
        **fields,
    )


# Requests


def path_fields(operation: Operation[Any, Any]) -> dict[str, str]:
    """Return the parameters of an operation's path, in order, with their types."""
    parts = [
        part[1:-1].partition(":") for part in operation.http.path.split("/") if part.startswith("{")
    ]
    return {name: kind or "str" for name, _, kind in parts}


def query_fields(operation: Operation[Any, Any], model: type[BaseModel]) -> list[str]:
    """Return the fields of the input that are sent in the query."""
    if not operation.http.sends_query:
        return [*operation.http.query]
    in_path = path_fields(operation)
    return [name for name in model.model_fields if name not in in_path]


def check_path(operation: Operation[Any, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the path's parameters as their types; NotFound for one that cannot be an id."""
    checked: dict[str, Any] = {}
    for name, kind in path_fields(operation).items():
        if name in values:
            checked[name] = _path_value(name, kind, values[name])
    return checked


def _path_value(name: str, kind: str, value: Any) -> Any:
    try:
        if kind == "uuid":
            return str(value if isinstance(value, uuid.UUID) else uuid.UUID(str(value)))
        return int(value) if kind == "int" and not isinstance(value, bool) else value
    except ValueError:
        raise not_an_id(name, kind, str(value)) from None


def not_an_id(name: str, kind: str, word: str) -> NotFound:
    """Return the error for a path whose parameter cannot be an id."""
    noun = name.removesuffix("_id").replace("_", " ")
    like = (
        "are whole numbers" if kind == "int" else "look like 6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    )
    return NotFound(f"there is no {noun} {word!r}: ids {like}", field=name)


def from_texts(model: type[BaseModel], texts: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the values of fields that were sent as text, in a query or on a command line."""
    values: dict[str, Any] = {}
    for name, given in texts.items():
        field = model.model_fields.get(name)
        if field is None:
            values[name] = given[-1]
            continue
        listed = takes_list(field.annotation)
        value: Any = [part for text in given for part in split_list(text)] if listed else given[-1]
        chosen = takes_text(field.annotation) or takes_choice(field.annotation)
        if value == "" and not field.is_required() and chosen:
            # An empty text in a query is a parameter that was not given.
            continue
        values[name] = _converted(model, name, value)
    return values


def _converted(model: type[BaseModel], name: str, value: Any) -> Any:
    try:
        return _adapter(model, name).validate_python(value, strict=False)
    except ValidationError as error:
        raise invalid(error, None, prefix=(name,)) from None


@functools.lru_cache(maxsize=1024)
def _adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    # Bounds are checked later, where messages show the value as its type.
    annotation: Any = model.model_fields[name].annotation
    return TypeAdapter(annotation)


def type_of(info: FieldInfo) -> Any:
    """Return a field's type with its bounds."""
    return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation  # pyright: ignore


# Calls


class Dispatcher:
    """Runs operations: validates the input, requires the permission, calls the service."""

    def __init__(
        self, plugins: Plugins, part: Callable[[str, str], Any], services: Mapping[str, Any]
    ) -> None:
        """`part` returns a part of the host for a plugin, by the name of a parameter."""
        self._plugins = plugins
        self._part = part
        self._services = services
        self._models: dict[str, type[BaseModel]] = {}

    @property
    def operations(self) -> Iterable[Operation[Any, Any]]:
        return self._plugins.operations

    def plugin_of(self, operation: Operation[Any, Any]) -> str:
        return self._plugins.operations.plugin_of(operation.name)

    def model(self, operation: Operation[Any, Any]) -> type[BaseModel]:
        if operation.name not in self._models:
            self._models[operation.name] = input_model(self._plugins, operation)
        return self._models[operation.name]

    def dispatch(
        self,
        operation: Operation[Any, Any],
        values: Mapping[str, Any] | BaseModel,
        actor: Actor,
        content: Any = None,
    ) -> Any:
        """Return the operation's answer for an actor; `content` is what was sent beside the fields."""
        if operation.permission not in (PUBLIC, ANY_KEY):
            actor.require(operation.permission)
        model = self.model(operation)
        if not isinstance(values, BaseModel):
            values = validate(model, {**values, **check_path(operation, values)})
        if is_function(operation):
            return self._call_function(operation, values, actor)
        subject = () if operation.subject is None else (operation.subject,)
        beside = () if content is None else (content,)
        return self._method(operation)(*subject, values, actor, *beside)

    def _method(self, operation: Operation[Any, Any]) -> Method:
        service, _, name = operation.call.partition(".")
        return getattr(self._services[service], name)

    def _call_function(
        self, operation: Operation[Any, Any], values: BaseModel, actor: Actor
    ) -> Any:
        function = resolve(operation.call)
        plugin = self.plugin_of(operation)
        given = {name: getattr(values, name) for name in type(values).model_fields}
        names = [
            item.name
            for item in inspect.signature(function).parameters.values()
            if item.kind is not item.KEYWORD_ONLY
        ]
        parts = {name: self._part(plugin, name) for name in names if name not in ("tx", "actor")}
        if "actor" in names:
            parts["actor"] = actor
        if "tx" not in names:
            return function(**parts, **given)
        return self._part(plugin, "store").look(
            actor.organization_id, lambda tx: function(**parts, **given, tx=tx)
        )


def explained(error: Exception, model: type[BaseModel] | None = None) -> KBError | None:
    """Return what an exception means for the caller; None for one that nobody expected."""
    if isinstance(error, KBError):
        return error
    if isinstance(error, ValidationError):
        return invalid(error, model)
    return (disk_trouble(error) if isinstance(error, OSError) else None) or memory_trouble(error)


def unexpected(error: Exception, request_id: str, words: str = "") -> KBError:
    """Log an exception that nobody expected; return the error that names its entry in the log."""
    log.error("request %s failed", request_id, exc_info=error, extra={"request_id": request_id})
    return InternalError(
        words or f"something went wrong; it was logged as {request_id}", id=request_id
    )
