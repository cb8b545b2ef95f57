"""The MCP edge: offers what plugins contribute to the caller of each request."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from kb_framework import __version__
from kb_framework.api import Actor, Profile
from kb_framework.api.messages import nearest
from kb_framework.client import Engine
from kb_framework.edges.mcp.asking import Asking, Sampling, Unanswered
from kb_framework.edges.mcp.calls import failure, run_tool
from kb_framework.edges.mcp.tools import bind_tools
from kb_framework.errors import InvalidInput
from kb_framework.plugins import Plugins

INSTRUCTIONS = (
    "A knowledge base of documents made of chunks. Search before you answer, and cite what you used. "
    "Tags select documents; nothing is deleted unless a tool says so in its name."
)


def create_server(
    engine: Callable[[Actor], Engine], plugins: Plugins, profile: Profile
) -> Server[Any]:
    """Return a server whose tools call the engine as the caller of each request."""
    tools = bind_tools(plugins, profile)

    async def list_tools(context: Any, _: Any) -> types.ListToolsResult:
        actor = _caller(context)
        return types.ListToolsResult(
            tools=[bound.description for bound in tools.values() if actor.may(bound.permission)]
        )

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        bound = tools.get(params.name)
        if bound is None:
            near = nearest(params.name, tools)
            meant = f"; did you mean {near}?" if near else ""
            return failure(
                InvalidInput(f"there is no tool {params.name!r}{meant}", field="name").v1()
            )
        as_caller = functools.partial(engine, _caller(context))
        try:
            beside = Sampling(context, params) if bound.tool.samples else Asking(context, params)
            return await anyio.to_thread.run_sync(
                run_tool, bound, as_caller, params.arguments or {}, beside
            )
        except Unanswered as unanswered:
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
