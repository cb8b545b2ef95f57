"""MCP over HTTP: `/mcp?profile=…`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, get_args
from urllib.parse import parse_qsl

from litestar import asgi
from litestar.types import Receive, Scope, Send
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from kb_framework.api import ANY_KEY, Actor, Profile
from kb_framework.api.messages import unknown
from kb_framework.client import Engine
from kb_framework.edges.mcp.server import create_server
from kb_framework.errors import InvalidInput
from kb_framework.plugins import Plugins

DEFAULT_PROFILE: Profile = "curate"


def http_app(engine: Callable[[Actor], Engine], plugins: Plugins) -> tuple[Any, Any]:
    """Return an ASGI handler for `/mcp`, and the lifespan that it needs.

    Host, Origin and key are checked by the application around it, permissions by the operations that tools call. A session
    belongs to the key and the profile that began it.
    """
    managers = {name: _manager(engine, plugins, name) for name in get_args(Profile)}

    @asgi("/mcp", copy_scope=True, opt={"permission": ANY_KEY})
    async def mcp_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        actor: Actor = scope["state"]["actor"]
        owner = AccessToken(
            token="", client_id=actor.key_id or "", scopes=[], subject=actor.user_id
        )
        scope["user"] = AuthenticatedUser(owner)
        await managers[_profile(scope)].asgi_app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for manager in managers.values():
                await stack.enter_async_context(manager.run())
            yield

    return mcp_endpoint, lifespan


def _manager(engine: Callable[[Actor], Engine], plugins: Plugins, profile: Profile) -> Any:
    server = create_server(engine, plugins, profile)
    server.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server.session_manager


def _profile(scope: Scope) -> Profile:
    """Return the profile that a request names."""
    given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    name = given.pop("profile", DEFAULT_PROFILE)
    for other in given:
        message, hint = unknown(other, ["profile"], "a parameter of this request")
        raise InvalidInput(message, hint=hint, field=other)
    if name not in get_args(Profile):
        raise InvalidInput(
            f"profile: must be one of {', '.join(get_args(Profile))}", field="profile"
        )
    return name  # type: ignore[return-value]
