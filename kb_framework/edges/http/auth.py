"""Authentication and permissions of HTTP requests, checked before the body is read and in no route."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from anyio import to_thread
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from kb_framework.access import Access
from kb_framework.api import ANY_KEY, LOCAL_USER, PUBLIC, Actor, Credentials
from kb_framework.api.times import now
from kb_framework.edges.http.login_throttle import Failures
from kb_framework.errors import Forbidden, KBError, Unauthorized
from kb_framework.local import PEER, Peer

log = logging.getLogger("kb.http")

# In a route's `opt`: the name of a service that recognises sessions. A route without it takes no cookie.
SESSIONS = "sessions"
# In the scope of a request that comes from this process: who asks. Nothing that arrives over a network can set it.
IN_PROCESS_ACTOR = "kb.actor"
# Of an ISO time: up to the minute. A key's use is noted once a minute, since every note is a write.
_MINUTE = 16


_KEY_HINT = "the owner can make a key for you: kb keys create --user NAME --role viewer"
_SECRET_HINT = "send it as: Authorization: Bearer SECRET; it is in engine.json of the data folder"


class Sessions(Protocol):
    """A service that recognises sessions."""

    def actor(self, cookies: Mapping[str, str]) -> Actor | None:
        """Return whose session these cookies name; None where they name none in force."""
        ...


class Local(NamedTuple):
    """How the person at the data folder is recognised.

    `users` are the user ids that are let in without a key while there are none; empty where this system does not say whose a
    connection is, and None where requests do not come over a socket.
    """

    secret: str = ""
    users: frozenset[int] | None = None
    secret_required: bool = False


NOBODY_LOCAL = Local()


class Authenticator:
    """Finds out who sends a request and requires the route's permission.

    A route that names no permission is open to the local person alone.
    """

    def __init__(
        self,
        access: Access,
        failures_per_minute: int,
        local: Local = NOBODY_LOCAL,
        services: Mapping[str, Any] = {},
    ) -> None:
        self._access = access
        self._services = services
        self._local = local
        self._failures = Failures(failures_per_minute)
        self._local_secret = local.secret.encode()
        self._used: dict[str, str] = {}
        self._noted: dict[str, str] = {}
        self._writing = False

    async def authorize(
        self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> None:
        permission = handler.opt.get("permission")
        if permission == PUBLIC:
            return
        actor = await self._of_session(connection, handler) or await self._actor(connection)
        if permission is None:
            if actor.key_id is not None or actor.user_id != LOCAL_USER:
                log.error(
                    "the route %s names no permission, so it is closed to keys",
                    handler.handler_name,
                )
                raise Forbidden("this route names no permission, so no key opens it")
        elif permission != ANY_KEY:
            actor.require(permission)
        connection.scope["state"]["actor"] = actor

    async def _of_session(
        self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> Actor | None:
        """Return whose session a cookie names, on routes that take sessions; None without one."""
        service = handler.opt.get(SESSIONS)
        if service is None or not connection.cookies:
            return None
        sessions: Sessions = self._services[service]
        actor = await to_thread.run_sync(sessions.actor, dict(connection.cookies))
        if actor is not None:
            self._note_use(actor.key_id)
        return actor

    async def _actor(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Actor:
        known = connection.scope.get(IN_PROCESS_ACTOR)
        if known is not None:
            return known  # type: ignore[return-value]
        key = _bearer(connection.headers.get("authorization"))
        if (
            key is not None
            and self._local_secret
            and hmac.compare_digest(key.encode(), self._local_secret)
        ):
            return Actor()
        address = connection.client.host if connection.client else ""
        try:
            credentials = Credentials(key, dict(connection.headers), address)
            actor = await to_thread.run_sync(self._access.actor, credentials)
        except Unauthorized:
            # The key comes first: wrong keys of others at this address must not lock out a right one.
            if key is not None:
                self._failures.check(address)
                self._failures.add(address)
            raise
        if actor is None:
            if self._local.users is not None:
                await to_thread.run_sync(self._require_owner, connection.scope.get(PEER))
            return Actor()
        self._note_use(actor.key_id)
        return actor

    def _require_owner(self, peer: Any) -> None:
        """Raise for a connection of another user. Without keys the caller would be admin."""
        if self._local.secret_required:
            raise Unauthorized(
                "the data folder's secret is needed (KB_LOCAL_SECRET=required)", hint=_SECRET_HINT
            )
        if not self._local.users:
            # This system does not say whose connection it is.
            return
        user = peer.user if isinstance(peer, Peer) else None
        if user not in self._local.users:
            whose = "" if user is None else f", not user {user}"
            raise Unauthorized(
                f"without keys this engine serves only the owner of its data folder{whose}",
                hint=_KEY_HINT,
            )

    def _note_use(self, key_id: str | None) -> None:
        time = now()
        if key_id is not None and self._noted.get(key_id) != time[:_MINUTE]:
            self._noted[key_id] = time[:_MINUTE]
            self._used[key_id] = time

    async def remember_use(self) -> None:
        """Note which keys were used, after an answer was sent. One write at a time, so that a busy database delays no request."""
        if self._writing or not self._used:
            return
        self._writing = True
        try:
            used, self._used = self._used, {}
            await to_thread.run_sync(self._access.used, used)
        except KBError as error:
            log.warning("it could not be noted which keys were used: %s", error.message)
        finally:
            self._writing = False


def _bearer(header: str | None) -> str | None:
    """The key of an Authorization header; None without one."""
    if header is None:
        return None
    scheme, _, key = header.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("the Authorization header must be: Bearer KEY")
    return key.strip()
