"""What runs around the application: host and origin, request ids, security headers, one line in the log."""

from __future__ import annotations

import ipaddress
import json
import logging
import time
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from litestar import Litestar
from litestar.types import Receive, Scope, Send

from kb_framework import errors
from kb_framework.edges.http.auth import Authenticator
from kb_framework.edges.http.hardening import in_time, security_headers
from kb_framework.settings import HostSettings

log = logging.getLogger("kb.http")

# What decides who is let in must not be said twice.
_ONCE = {b"host", b"origin", b"authorization", b"content-type"}


class Edge:
    """Around the application: who may reach it, a request id, and one line in the log per request."""

    def __init__(
        self,
        app: Litestar,
        authenticator: Authenticator,
        host_settings: HostSettings,
        *,
        any_address: bool = False,
    ) -> None:
        self.app = app
        self._authenticator = authenticator
        self._allowed = {host.lower() for host in host_settings.allowed_hosts}
        self._any_address = any_address
        self._body_seconds = host_settings.body_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex[:16]
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        started = time.perf_counter()
        status = 500

        async def send_marked(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [
                    (b"x-request-id", request_id.encode()),
                    *security_headers(message["headers"]),
                ]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        refusal = self._refusal(scope["path"], scope["headers"])
        if refusal is not None:
            body = json.dumps(refusal.flat()).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ]
            await send_marked(
                {"type": "http.response.start", "status": refusal.http_status, "headers": headers}
            )
            await send_marked({"type": "http.response.body", "body": body, "more_body": False})
        else:
            await self.app(scope, in_time(receive, self._body_seconds), send_marked)
            await self._authenticator.remember_use()
        log.info(
            "%s %s %s",
            scope["method"],
            scope["path"],
            status,
            extra={
                "request_id": request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "ms": round((time.perf_counter() - started) * 1000, 1),
            },
        )

    def _refusal(self, path: str, given: Iterable[tuple[bytes, bytes]]) -> errors.KBError | None:
        """A page that reached this port by a name of its own (DNS rebinding), or that posts from elsewhere, is refused."""
        if "\x00" in path or "\ufffd" in path:
            return errors.InvalidInput("path: must be valid UTF-8 without NUL", field="path")
        headers: dict[bytes, bytes] = {}
        for name, value in given:
            if name in _ONCE and name in headers:
                # A proxy in front may have looked at the other.
                shown = name.decode()
                return errors.InvalidInput(
                    f"{shown}: there must be only one such header", field=shown
                )
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_allowed(host):
            return errors.Forbidden(
                f"the Host header {host!r} is not one of this engine's names",
                hint="add the name to KB_ALLOWED_HOSTS",
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and not (self._is_allowed(urlsplit(origin).netloc) and _same_port(origin, host)):
            return errors.Forbidden(f"requests from {origin!r} are not allowed")
        return None

    def _is_allowed(self, netloc: str) -> bool:
        try:
            name = "" if "@" in netloc else urlsplit(f"//{netloc}").hostname or ""
        except ValueError:
            return False
        if name == "localhost" or name in self._allowed:
            return True
        try:
            # A page elsewhere can make its own name lead here, never a number.
            return ipaddress.ip_address(name).is_loopback or self._any_address
        except ValueError:
            return False


def _same_port(origin: str, host: str) -> bool:
    """Another port of the same machine is another program."""
    try:
        page, engine = urlsplit(origin), urlsplit(f"//{host}")
        usual = {"http": 80, "https": 443}.get(page.scheme)
        return (page.port or usual) == (engine.port or usual)
    except ValueError:
        return False
