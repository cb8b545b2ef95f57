"""`kb mcp`: MCP over standard input and output."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import anyio
from mcp.server.stdio import stdio_server

from kb_framework.api import Profile
from kb_framework.client import Engine
from kb_framework.edges.mcp.server import create_server
from kb_framework.plugins import Plugins


def serve_stdio(engine: Callable[[], Engine], plugins: Plugins, profile: Profile) -> None:
    """Serve until standard input ends."""
    server = create_server(lambda _: engine(), plugins, profile)
    # The thread that waits for input cannot be interrupted, and whatever is written is written in transactions.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)
