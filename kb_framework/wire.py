"""What goes over the wire, published as JSON Schemas: the versioned objects by their names, and every model of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kb_framework.api import Operation, WireObject, resolve
from kb_framework.api.models import ErrorV1, Model
from kb_framework.operations import Dispatcher, output_type, path_fields
from kb_framework.plugins import Plugins

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COMPONENT = "#/components/schemas/"
REF = _COMPONENT + "{model}"

Mode = Literal["validation", "serialization"]
# By model and mode.
Schemas = Mapping[Any, dict[str, Any]]


class FlatError(Model):
    """`error` is from the closed list of codes; further fields depend on it."""

    error: str
    message: str


class EnvelopeDetail(Model):
    code: str
    message: str
    details: dict[str, Any]


class EnvelopeError(Model):
    success: bool
    error: EnvelopeDetail


ERROR_MODELS = {"flat": FlatError, "v1": ErrorV1, "envelope": EnvelopeError}


def schemas_of(dispatcher: Dispatcher) -> tuple[Schemas, dict[str, Any]]:
    """Return the schema of every model that operations take or give, and the components that they refer to."""
    stated = [each for each in dispatcher.operations if not each.http.by_hand]
    models = [item for each in stated for item in _models(each, dispatcher)]
    found, shared = models_json_schema(list(dict.fromkeys(models)), ref_template=REF)
    return found, shared.get("$defs", {})


def _models(
    operation: Operation[Any, Any], dispatcher: Dispatcher
) -> Iterable[tuple[type[BaseModel], Mode]]:
    if body_fields(operation, dispatcher):
        yield dispatcher.model(operation), "validation"
    answers = (resolve(target) for target, _ in operation.http.answers.values())
    output = output_type(operation)
    for model in (*(get_args(output) or (output,)), *answers):
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield model, "serialization"
    yield ERROR_MODELS[operation.http.errors], "serialization"


def body_fields(operation: Operation[Any, Any], dispatcher: Dispatcher) -> list[str]:
    """Return the fields of an operation's input that are sent in the body of its request."""
    if operation.http.sends_query:
        return []
    elsewhere = {*path_fields(operation), *operation.http.query}
    return [name for name in dispatcher.model(operation).model_fields if name not in elsewhere]


def versioned(plugins: Plugins) -> dict[str, dict[str, Any]]:
    """The schema of every object that carries its version, `search_response.v1`, complete in itself."""
    models = {
        "error.v1": ErrorV1,
        **{item.name: _model(item, plugins) for item in plugins.wire_objects},
    }
    return {
        name: {"$schema": DIALECT, "$id": name, **model.model_json_schema()}
        for name, model in models.items()
    }


def _model(item: WireObject, plugins: Plugins) -> type[BaseModel]:
    found = resolve(item.target)
    return found if isinstance(found, type) else found(plugins)


def standing_alone(name: str, components: Mapping[str, Any]) -> dict[str, Any]:
    """A model of the API with all that it refers to."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found[current] = _rewritten(components[current], waiting)
    return {"$schema": DIALECT, "$id": name, "$ref": f"#/$defs/{name}", "$defs": found}


def _rewritten(value: Any, named: list[str]) -> Any:
    if isinstance(value, list):
        return [_rewritten(item, named) for item in value]
    if not isinstance(value, dict):
        return value
    target = value.get("$ref")
    if isinstance(target, str) and target.startswith(_COMPONENT):
        named.append(target.removeprefix(_COMPONENT))
        return {**value, "$ref": f"#/$defs/{named[-1]}"}
    return {key: _rewritten(item, named) for key, item in value.items()}
