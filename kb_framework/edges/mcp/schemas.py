"""JSON Schemas as a model reads them: no references, no titles, no bounds that say nothing."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

# Bounds are shown if they are within these.
_BOUNDS = {"minimum": (1, 2**63), "maximum": (0, 10_000), "maxItems": (0, 100)}


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's parameters.

    A parameter that is left out is not given, so `null` and defaults of `null` are not in it.
    """
    return _plain(model.model_json_schema(), optional=True)


def output_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's answer. What may be null says so."""
    return _plain(model.model_json_schema(mode="serialization"), optional=False)


def _plain(schema: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    definitions = schema.pop("$defs", {})

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        return put_object(value) if isinstance(value, dict) else value

    def put_object(value: dict[str, Any]) -> dict[str, Any]:
        value = _without_null(value) if optional else value
        # Some clients do not follow references.
        if isinstance(name := value.get("$ref"), str):
            beside = {key: item for key, item in value.items() if key != "$ref"}
            return put({**definitions[name.rpartition("/")[2]], **beside})
        return {
            key: {name: put(item) for name, item in part.items()}
            if key == "properties"
            else put(part)
            for key, part in value.items()
            if _tells(key, part)
        }

    return put(schema)


def _tells(key: str, item: Any) -> bool:
    """Return whether a model needs to know this: no titles, empty defaults, or bounds that no call comes near."""
    if key == "title":
        return not isinstance(item, str)
    if key == "default":
        return item is not None and item is not False and item not in ([], {})
    if key in ("maxLength", "minLength"):
        return not isinstance(item, int)
    if key in _BOUNDS:
        least, most = _BOUNDS[key]
        return not isinstance(item, int) or least < item < most
    return not (key == "additionalProperties" and item is True)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    left = [item for item in choices if item != {"type": "null"}]
    rest = {key: item for key, item in schema.items() if key != "anyOf"}
    return {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}
