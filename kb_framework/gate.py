"""The gate of the HTTP edge: every request passes it before its body is read, and no route decides for itself."""

from __future__ import annotations

import hmac
import logging
from typing import Any

from anyio import to_thread
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from kb_framework.access import Access
from kb_framework.api import ANY_KEY, PUBLIC, Actor
from kb_framework.errors import Forbidden, KBError, Unauthorized
from kb_framework.limits import Failures
from kb_framework.store.tables import now

log = logging.getLogger("kb.http")

# In the scope of a request that comes from this process: who asks. Nothing that arrives over a network can set it.
IN_PROCESS_ACTOR = "kb.actor"
# Of an ISO time: up to the minute. A key's use is noted once a minute, since every note is a write.
_MINUTE = 16


class Gate:
    """Authenticates the caller, then asks for the permission that the route names. A route that names none is closed to keys."""

    def __init__(self, access: Access, failures_per_minute: int, local_secret: str = "") -> None:
        self._access = access
        self._failures = Failures(failures_per_minute)
        self._local_secret = local_secret.encode()
        self._used: dict[str, str] = {}
        self._noted: dict[str, str] = {}
        self._writing = False

    async def authorize(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        permission = handler.opt.get("permission")
        if permission == PUBLIC:
            return
        actor = await self._actor(connection)
        if permission is None:
            if actor.key_id is not None:
                log.error("the route %s names no permission, so it is closed to keys", handler.handler_name)
                raise Forbidden("this route names no permission, so no key opens it")
        elif permission != ANY_KEY:
            actor.require(permission)
        connection.scope["state"]["actor"] = actor

    async def _actor(self, connection: ASGIConnection[Any, Any, Any, Any]) -> Actor:
        known = connection.scope.get(IN_PROCESS_ACTOR)
        if known is not None:
            return known  # type: ignore[return-value]
        key = _bearer(connection.headers.get("authorization"))
        if key is not None and self._local_secret and hmac.compare_digest(key.encode(), self._local_secret):
            return Actor()
        address = connection.client.host if connection.client else ""
        self._failures.check(address)
        try:
            actor = await to_thread.run_sync(self._access.actor, key)
        except Unauthorized:
            if key is not None:
                self._failures.add(address)
            raise
        self._note_use(actor.key_id)
        return actor

    def _note_use(self, key_id: str | None) -> None:
        time = now()
        if key_id is not None and self._noted.get(key_id) != time[:_MINUTE]:
            self._noted[key_id] = time[:_MINUTE]
            self._used[key_id] = time

    async def remember_use(self) -> None:
        """After an answer was sent: note which keys were used. One write at a time, so that a busy database holds up nobody."""
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
