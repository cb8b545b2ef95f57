"""The tools of a profile: what plugins contribute, with parameters as a model and a description for clients."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic_core import to_jsonable_python

from kb_framework.api import Operation, Profile, Seldom, Tool, resolve
from kb_framework.api.models import Question
from kb_framework.client import Engine
from kb_framework.edges.mcp.arguments import parsed
from kb_framework.edges.mcp.schemas import input_schema
from kb_framework.edges.mcp.seldom import described, seldom
from kb_framework.operations import input_model, type_of
from kb_framework.pipelines.selection import Filtered, check_contributions
from kb_framework.plugins import Plugins

# Each has the tools of those before it.
PROFILES: tuple[Profile, ...] = ("read", "write", "curate", "admin")
# What a token is depends on the model; four characters are close for JSON and English.
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A plugin's function with its parameters as a model and its description for clients."""

    function: Callable[..., Any]
    parameters: type[BaseModel]
    description: types.Tool
    tool: Tool

    @property
    def permission(self) -> str:
        return self.tool.permission

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return parsed(self.parameters, given, {}, seldom(self.parameters))


def bind_tools(plugins: Plugins, profile: Profile) -> dict[str, BoundTool]:
    """Return the profile's tools. One that cannot be imported costs its plugin, not the others."""
    check_contributions(plugins)
    allowed = PROFILES[: PROFILES.index(profile) + 1]
    while True:
        bound: dict[str, BoundTool] = {}
        for tool in plugins.tools:
            if tool.profile not in allowed:
                continue
            try:
                bound[tool.name] = _bind(plugins, tool)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                plugins.fail(plugins.tools.plugin_of(tool.name), error)
                break
        else:
            return bound


def _bind(plugins: Plugins, tool: Tool) -> BoundTool:
    operation = plugins.operation_of_tool.get(tool.name)
    if operation:
        model = _parameters_of(tool, input_model(plugins, operation))
        model = _with_own(tool, model) if tool.target else model
        function = (
            functools.partial(_run_target, operation, tool)
            if tool.target
            else functools.partial(_run_operation, operation, tool)
        )
        words = resolve(tool.describe)(operation) if tool.describe else tool.help or operation.help
    else:
        function = resolve(tool.target)
        model = _signature_of(tool, function)
        words = inspect.getdoc(function) or ""
    return BoundTool(function, model, _description(tool, model, words), tool)


def _signature_of(tool: Tool, function: Callable[..., Any]) -> type[BaseModel]:
    """Return the model of the parameters of a tool's function, less the engine and what it asks with."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[
        2 if tool.asks or tool.samples else 1 :
    ]
    fields: dict[str, Any] = {
        item.name: (
            item.annotation,
            ... if item.default is inspect.Parameter.empty else item.default,
        )
        for item in parameters
    }
    return create_model(tool.name, __config__=ConfigDict(extra="forbid"), **fields)


def _parameters_of(tool: Tool, model: type[BaseModel]) -> type[BaseModel]:
    """Return the model of a tool's parameters: the fields of the operation's input that a model may set."""
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        if name not in tool.omit:
            default = tool.defaults.get(name, ... if info.is_required() else info.default)
            kind = dict[str, Any] if name in tool.brief else type_of(info)
            fields[name] = (
                Annotated[kind, Seldom()] if name in tool.seldom else kind,
                Field(
                    default,
                    description=info.description,
                    json_schema_extra=info.json_schema_extra,
                ),
            )
    # What searches and lists take as 'not given' is not given here either.
    base = next((base for base in (Filtered, Question) if issubclass(model, base)), None)
    if base:
        return create_model(tool.name, __base__=base, **fields)
    return create_model(tool.name, __config__=ConfigDict(extra="forbid"), **fields)


def _with_own(tool: Tool, model: type[BaseModel]) -> type[BaseModel]:
    """Return the model with those parameters of the tool's target that are no fields of the operation."""
    fields: dict[str, Any] = {
        item.name: (item.annotation, ... if item.default is item.empty else item.default)
        for item in inspect.signature(resolve(tool.target), eval_str=True).parameters.values()
        if item.kind is item.KEYWORD_ONLY and item.name not in model.model_fields
    }
    return create_model(tool.name, __base__=model, **fields) if fields else model


def _run_target(
    operation: Operation[Any, Any], tool: Tool, engine: Engine, /, *beside: Any, **values: Any
) -> Any:
    given = {**tool.defaults, **to_jsonable_python(values)}
    return resolve(tool.target)(engine, operation, *beside, **given)


def _run_operation(
    operation: Operation[Any, Any], tool: Tool, engine: Engine, /, **values: Any
) -> Any:
    answer = engine.run(operation, {**tool.defaults, **to_jsonable_python(values)})
    return resolve(tool.shape)(answer) if tool.shape else answer


def _description(tool: Tool, model: type[BaseModel], words: str) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=words,
        input_schema=input_schema(described(model)),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def tool_costs(plugins: Plugins, profile: Profile) -> dict[str, int]:
    """Return what each tool's description costs a model, in tokens."""
    tools = bind_tools(plugins, profile)
    return {
        name: len(read_by_models(tool.description)) // _CHARACTERS_PER_TOKEN
        for name, tool in tools.items()
    }


def read_by_models(description: types.Tool) -> str:
    """Return the part of a description that clients show to models; the rest is for clients."""
    shown = {
        "name": description.name,
        "description": description.description,
        "inputSchema": description.input_schema,
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
