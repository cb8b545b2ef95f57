"""The OpenAPI document: what Litestar makes of routes written by hand, and what the operations state."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args

from litestar import Request
from litestar.app import Litestar
from litestar.openapi.plugins import JsonRenderPlugin, SwaggerRenderPlugin
from pydantic import BaseModel, TypeAdapter

from kb_framework.api import ANY_KEY, PUBLIC, Operation, resolve
from kb_framework.edges.http.params import DOCUMENTED, KEY_SCHEME
from kb_framework.operations import Dispatcher, output_type, path_fields, query_fields
from kb_framework.wire import ERROR_MODELS, REF, Schemas, body_fields, schemas_of

_BASE = "/api/v1"
_TYPES = {"int": {"type": "integer"}, "uuid": {"type": "string", "format": "uuid"}}
_MEDIA = {"bytes": "application/octet-stream", "stream": "application/octet-stream"}


def document(app: Litestar, dispatcher: Dispatcher) -> dict[str, Any]:
    """Return the whole document; it is made once."""
    if "openapi" not in app.state:
        app.state["openapi"] = _with_operations(app.openapi_schema.to_schema(), dispatcher)
    return app.state["openapi"]


def _with_operations(written: dict[str, Any], dispatcher: Dispatcher) -> dict[str, Any]:
    stated = [operation for operation in dispatcher.operations if not operation.http.by_hand]
    schemas, shared = schemas_of(dispatcher)
    paths: dict[str, Any] = {path: dict(item) for path, item in written.get("paths", {}).items()}
    for operation in stated:
        path = _BASE + "/".join(_plain(part) for part in operation.http.path.split("/"))
        paths.setdefault(path, {})[operation.http.method.lower()] = _described(
            operation, dispatcher, schemas
        )
    components = dict(written.get("components", {}))
    components["schemas"] = dict(sorted({**components.get("schemas", {}), **shared}.items()))
    return {**written, "paths": dict(sorted(paths.items())), "components": components}


def _plain(part: str) -> str:
    return "{" + part[1:-1].partition(":")[0] + "}" if part.startswith("{") else part


def _described(
    operation: Operation[Any, Any], dispatcher: Dispatcher, schemas: Schemas
) -> dict[str, Any]:
    model = dispatcher.model(operation)
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.help.partition(". ")[0].rstrip("."),
        "tags": [dispatcher.plugin_of(operation)],
        "deprecated": False,
        "responses": _responses(operation, schemas),
        # Without any key made, none is needed: the scheme is optional.
        "security": []
        if operation.permission == PUBLIC
        else [{KEY_SCHEME: _needed(operation)}, {}],
    }
    if operation.help:
        found["description"] = operation.help
    parameters = [*_parameters(operation, model)]
    if parameters:
        found["parameters"] = parameters
    if body := _body(operation, dispatcher, model, schemas):
        found["requestBody"] = body
    return found


def _needed(operation: Operation[Any, Any]) -> list[str]:
    return [] if operation.permission in ("", ANY_KEY) else [operation.permission]


def _parameters(operation: Operation[Any, Any], model: type[BaseModel]) -> Iterable[dict[str, Any]]:
    properties = (
        model.model_json_schema(ref_template=REF)["properties"] if model.model_fields else {}
    )
    for name, kind in path_fields(operation).items():
        known = {
            key: value
            for key, value in properties.get(name, {}).items()
            if key not in ("title", "description")
        }
        yield _parameter(
            name,
            "path",
            {**known, **_TYPES.get(kind, {"type": "string"})},
            properties.get(name, {}),
            True,
        )
    for name in query_fields(operation, model):
        schema = {
            key: value
            for key, value in properties[name].items()
            if key not in ("title", "description")
        }
        yield _parameter(
            name, "query", schema, properties[name], model.model_fields[name].is_required()
        )


def _parameter(
    name: str, place: str, schema: dict[str, Any], described: dict[str, Any], required: bool
) -> dict[str, Any]:
    words = {"description": described["description"]} if "description" in described else {}
    return {
        "name": name,
        "in": place,
        **words,
        "schema": schema,
        "required": required,
        "deprecated": False,
    }


def _body(
    operation: Operation[Any, Any],
    dispatcher: Dispatcher,
    model: type[BaseModel],
    schemas: Schemas,
) -> dict[str, Any] | None:
    if operation.http.content in _MEDIA:
        return {
            "required": True,
            "content": {
                _MEDIA[operation.http.content]: {"schema": {"type": "string", "format": "binary"}}
            },
        }
    fields = body_fields(operation, dispatcher)
    if not fields:
        return None
    required = any(model.model_fields[name].is_required() for name in fields)
    schema = schemas[model, "validation"]
    if len(fields) < len(model.model_fields):
        schema = _only(model, fields)
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _only(model: type[BaseModel], fields: list[str]) -> dict[str, Any]:
    """Return the schema of some of a model's fields: the others are sent in the path or the query."""
    whole = model.model_json_schema(ref_template=REF)
    required = [name for name in whole.get("required", []) if name in fields]
    kept = {name: whole["properties"][name] for name in fields}
    return {
        **{key: value for key, value in whole.items() if key != "$defs"},
        "properties": kept,
        "required": required,
    }


def _responses(operation: Operation[Any, Any], schemas: Schemas) -> dict[str, Any]:
    error = schemas[ERROR_MODELS[operation.http.errors], "serialization"]
    found = {str(status): _json(words, error) for status, words in DOCUMENTED.items()}
    for status, (target, words) in operation.http.answers.items():
        found[str(status)] = _json(words, schemas[resolve(target), "serialization"])
    output = output_type(operation)
    if operation.http.download:
        content = {operation.http.download: {"schema": {"type": "string", "format": "binary"}}}
        found[str(operation.http.status)] = {
            "description": "Request fulfilled",
            "headers": {},
            "content": content,
        }
    elif operation.http.lines:
        schema = schemas[output, "serialization"]
        found[str(operation.http.status)] = {
            "description": "Lines of JSON",
            "headers": {},
            "content": {"application/x-ndjson": {"schema": schema}},
        }
    elif output is None or output is type(None):
        found[str(operation.http.status)] = {
            "description": "Request fulfilled, nothing follows",
            "headers": {},
        }
    else:
        schema = _schema_of(output, schemas)
        found[str(operation.http.status)] = _json("Request fulfilled, document follows", schema)
    return dict(sorted(found.items()))


def _schema_of(output: Any, schemas: Schemas) -> dict[str, Any]:
    if isinstance(output, UnionType):
        return {"oneOf": [schemas[model, "serialization"] for model in get_args(output)]}
    free = TypeAdapter(output)
    return schemas.get((output, "serialization")) or free.json_schema(
        mode="serialization", ref_template=REF
    )


def _json(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": words,
        "headers": {},
        "content": {"application/json": {"schema": schema}},
    }


class Json(JsonRenderPlugin):
    """Serves the whole document as JSON."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._dispatcher = dispatcher

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return super().render(request, document(request.app, self._dispatcher))


class Swagger(SwaggerRenderPlugin):
    """Serves a page that shows the whole document."""

    def __init__(self, dispatcher: Dispatcher, **options: Any) -> None:
        super().__init__(**options)
        self._dispatcher = dispatcher

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return super().render(request, document(request.app, self._dispatcher))
