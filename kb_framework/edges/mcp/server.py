"""The MCP edge: offers what plugins contribute as tools, and translates errors in one place."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
import signal
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_jsonable_python

from kb_framework import __version__
from kb_framework.api import ANY_KEY, Actor, Answer, Operation, Profile, Sampled, Tool, resolve
from kb_framework.bootstrap import split_list
from kb_framework.client import Engine
from kb_framework.errors import EngineError, InternalError, InvalidInput, KBError, memory_trouble
from kb_framework.messages import nearest
from kb_framework.operations import input_model, type_of
from kb_framework.pipelines.selection import check_contributions
from kb_framework.plugins import Plugins
from kb_framework.validation import invalid, with_whole_numbers

log = logging.getLogger("kb.mcp")

PROFILES: tuple[Profile, ...] = ("read", "write", "curate", "admin")
INSTRUCTIONS = (
    "A knowledge base of documents made of chunks. Search before you answer, and cite what you used. "
    "Tags select documents; nothing is deleted unless a tool says so in its name."
)
# The one question of a call; accepting it is the answer, there is nothing to fill in.
_QUESTION = "confirm"
_YES: dict[str, Any] = {"type": "object", "properties": {}}
_ASKS_BETWEEN_CALLS = "2026-07-28"
# The one prompt of a call.
_PROMPT = "answer"
# What a token is depends on the model; four characters are close for JSON and English.
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A plugin's function with its parameters as a model and its description for clients."""

    function: Callable[..., Any]
    parameters: type[BaseModel]
    description: types.Tool
    permission: str
    asks: bool = False
    samples: bool = False

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(given)
        for name, info in self.parameters.model_fields.items():
            if isinstance(values.get(name), str) and not _takes_text(info.annotation):
                values[name] = _untexted(values[name], info.annotation)
        parsed = self.parameters.model_validate(
            with_whole_numbers(self.parameters, values), strict=True
        )
        return {name: getattr(parsed, name) for name in parsed.model_fields_set}


def _untexted(text: str, annotation: Any) -> Any:
    """Return the list or object that a client sent as text: as JSON, or a list of texts as `a,b`."""
    if _lists_text(annotation) and text.strip() and not text.lstrip().startswith("["):
        return split_list(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _lists_text(annotation: Any) -> bool:
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is list:
        return _takes_text(parts[0])
    return any(_lists_text(part) for part in parts)


def _takes_text(annotation: Any) -> bool:
    parts = typing.get_args(annotation) if typing.get_origin(annotation) not in (list, dict) else ()
    return (
        annotation is str
        or typing.get_origin(annotation) is typing.Literal
        or any(_takes_text(part) for part in parts)
    )


def bind_tools(plugins: Plugins, profile: Profile) -> dict[str, BoundTool]:
    """The profile's tools. One that cannot be imported costs its plugin, not the others."""
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
    if operation and not tool.target:
        model = _parameters_of(tool, input_model(plugins, operation))
        function = functools.partial(_run_operation, operation, tool)
        return BoundTool(
            function, model, _description(tool, model, tool.help or operation.help), tool.permission
        )
    target = resolve(tool.target)
    function = target(plugins, tool.name) if tool.build else target
    model = (
        _parameters_of(tool, input_model(plugins, operation))
        if operation
        else _signature_of(tool, function)
    )
    description = _description(tool, model, inspect.getdoc(function) or "")
    return BoundTool(function, model, description, tool.permission, tool.asks, tool.samples)


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
            fields[name] = (type_of(info), Field(default, description=info.description))
    return create_model(tool.name, __config__=ConfigDict(extra="forbid"), **fields)


def _run_operation(
    operation: Operation[Any, Any], tool: Tool, engine: Engine, /, **values: Any
) -> Any:
    answer = engine.run(operation, {**tool.defaults, **to_jsonable_python(values)})
    return resolve(tool.shape)(answer) if tool.shape else answer


def _without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its definitions in the places that refer to them: some clients do not follow references."""
    definitions = schema.pop("$defs", {})

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(name := value.get("$ref"), str):
            beside = {key: item for key, item in value.items() if key != "$ref"}
            return put({**definitions[name.rpartition("/")[2]], **beside})
        # Titles repeat the names, and what is optional need not say that it is null without a value.
        kept = {
            key: item for key, item in value.items() if key != "title" or not isinstance(item, str)
        }
        return {
            key: put(item) for key, item in kept.items() if key != "default" or item is not None
        }

    return put(schema)


def _description(tool: Tool, model: type[BaseModel], words: str) -> types.Tool:
    schema = _without_references(model.model_json_schema())
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=words,
        input_schema=schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def tool_costs(plugins: Plugins, profile: Profile) -> dict[str, int]:
    """What each tool's description costs a model, in tokens."""
    tools = bind_tools(plugins, profile)
    return {
        name: len(_wire(tool.description)) // _CHARACTERS_PER_TOKEN for name, tool in tools.items()
    }


def _wire(description: types.Tool) -> str:
    return description.model_dump_json(by_alias=True, exclude_none=True)


def create_server(
    engine: Callable[[Actor], Engine], plugins: Plugins, profile: Profile
) -> Server[Any]:
    """A server whose tools ask the engine as the caller, whoever that is in each request."""
    tools = bind_tools(plugins, profile)

    async def list_tools(context: Any, _: Any) -> types.ListToolsResult:
        actor = _caller(context)
        return types.ListToolsResult(
            tools=[tool.description for tool in tools.values() if actor.may(tool.permission)]
        )

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = tools.get(params.name)
        if tool is None:
            near = nearest(params.name, tools)
            meant = f"; did you mean {near}?" if near else ""
            return _failure(
                InvalidInput(f"there is no tool {params.name!r}{meant}", field="name").v1()
            )
        as_caller = functools.partial(engine, _caller(context))
        try:
            beside = Sampling(context, params) if tool.samples else Asking(context, params)
            return await anyio.to_thread.run_sync(
                _call, tool, as_caller, params.arguments or {}, beside
            )
        except _Unanswered as unanswered:
            return types.InputRequiredResult(
                input_requests=unanswered.requests, request_state=unanswered.state
            )

    return Server(
        "kb",
        version=__version__,
        title="kb knowledge base",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _caller(context: Any) -> Actor:
    """Over HTTP the authenticated actor; on standard input the person who started the program."""
    request = context.request
    return request.scope["state"]["actor"] if request is not None else Actor()


class _Unanswered(BaseException):
    """A question that the client answers by calling again. Not an error: no tool may catch it as one."""

    def __init__(self, requests: dict[str, Any], state: str) -> None:
        self.requests = requests
        self.state = state


class Asking:
    """The `Ask` of one call."""

    def __init__(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> None:
        self._context = context
        capabilities = context.session.client_capabilities
        offered = capabilities.elicitation if capabilities else None
        # Before there were modes, every client that could ask could show a form.
        self.possible = offered is not None and (offered.form is not None or offered.url is None)
        self.answer: Answer | None = None
        said = (params.input_responses or {}).get(_QUESTION)
        if isinstance(said, types.ElicitResult) and params.request_state is not None:
            self.answer = Answer(said.action, params.request_state)

    def __call__(self, question: str, state: str) -> Answer:
        if is_version_at_least(self._context.protocol_version, _ASKS_BETWEEN_CALLS):
            form = types.ElicitRequestFormParams(message=question, requested_schema=_YES)
            raise _Unanswered({_QUESTION: types.ElicitRequest(params=form)}, state)
        result = anyio.from_thread.run(
            self._context.session.elicit_form, question, _YES, self._context.request_id
        )
        return Answer(result.action, state)


class Sampling:
    """The `Sample` of one call."""

    def __init__(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> None:
        self._context = context
        capabilities = context.session.client_capabilities
        self.possible = capabilities is not None and capabilities.sampling is not None
        said = (params.input_responses or {}).get(_PROMPT)
        state = params.request_state
        self.answer = (
            _sampled(said, state)
            if isinstance(said, types.CreateMessageResult) and state is not None
            else None
        )

    def __call__(self, prompt: str, max_tokens: int, state: str) -> Sampled:
        message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
        request = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
        )
        if is_version_at_least(self._context.protocol_version, _ASKS_BETWEEN_CALLS):
            raise _Unanswered({_PROMPT: request}, state)
        result = anyio.from_thread.run(
            self._context.session.send_request, request, types.CreateMessageResult
        )
        return _sampled(result, state)


def _sampled(result: types.CreateMessageResult, state: str) -> Sampled:
    return Sampled(getattr(result.content, "text", ""), result.model, state)


def _call(
    tool: BoundTool,
    engine: Callable[[], Engine],
    arguments: Mapping[str, Any],
    beside: Asking | Sampling | None = None,
) -> types.CallToolResult:
    """The one place where an error becomes a tool's answer: an engine's error with its own body, any other as error.v1."""
    try:
        # Whatever a tool answers is read by a model.
        given = tool.arguments(arguments)
        reading = engine().read_by("model")
        both = (reading, beside) if tool.asks or tool.samples else (reading,)
        result = tool.function(*both, **given)
    except EngineError as error:
        return _failure(error.body)
    except ValidationError as error:
        return _failure(invalid(error, tool.parameters).v1())
    except KBError as error:
        return _failure(error.v1())
    except Exception as error:
        if lacking := memory_trouble(error):
            return _failure(lacking.v1())
        log.error("tool %s failed", tool.description.name, exc_info=error)
        return _failure(
            InternalError(
                f"the tool failed ({type(error).__name__}); the server's log has more"
            ).v1()
        )
    return types.CallToolResult(
        content=[_text(result)],
        structured_content=result if isinstance(result, dict) else {"data": result},
    )


def _failure(body: Any) -> types.CallToolResult:
    structured = body if isinstance(body, dict) else {"message": str(body)}
    return types.CallToolResult(
        content=[_text(structured)], structured_content=structured, is_error=True
    )


def _text(value: Any) -> types.TextContent:
    return types.TextContent(text=json.dumps(value, ensure_ascii=False))


def serve_stdio(engine: Callable[[], Engine], plugins: Plugins, profile: Profile) -> None:
    """Serve until standard input ends."""
    server = create_server(lambda _: engine(), plugins, profile)
    # The thread that waits for input cannot be interrupted, and whatever is written is written in transactions.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)


def http_app(engine: Callable[[Actor], Engine], plugins: Plugins) -> tuple[Any, Any]:
    """An ASGI handler for `/mcp`, and the lifespan that it needs.

    Host, Origin and key are checked by the application around it, permissions by the routes that tools ask. A session
    belongs to the key that began it.
    """
    from litestar import asgi
    from litestar.types import Receive, Scope, Send

    server = create_server(engine, plugins, "admin")
    server.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    manager = server.session_manager

    @asgi("/mcp", copy_scope=True, opt={"permission": ANY_KEY})
    async def mcp_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        actor: Actor = scope["state"]["actor"]
        owner = AccessToken(
            token="", client_id=actor.key_id or "", scopes=[], subject=actor.user_id
        )
        scope["user"] = AuthenticatedUser(owner)
        await manager.asgi_app(scope, receive, send)  # type: ignore[arg-type]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return mcp_endpoint, lifespan
