"""`kb serve`: one process, HTTP and MCP, a structured log, and its address left for other commands to find."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import logging
import os
import secrets
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from kb_framework.app import open_kb
from kb_framework.bootstrap import Bootstrap
from kb_framework.client import ADDRESS_FILE, AsgiTransport, Engine
from kb_framework.errors import ConfigInvalid, EngineUnreachable
from kb_framework.mcp_server import http_app
from kb_framework.plugins import Plugins
from kb_framework.store.tables import now
from kb_framework.web import create_app

_REQUEST = ("request_id", "method", "path", "status", "ms")
_AUDIT = ("action", "subject", "user_id", "key_id", "organization_id")
_FIELDS = (*_REQUEST, *_AUDIT)
_GRACE_SECONDS = 10
_THREADS = 64
# How many more objects than before there must be until circles among them are looked for.
_GARBAGE = 20_000


def serve(bootstrap: Bootstrap, plugins: Plugins, host: str, port: int) -> None:
    kb = open_kb(bootstrap, plugins)
    beyond_loopback = not _is_loopback(host)
    if beyond_loopback and not kb.access.is_on():
        kb.close()
        raise ConfigInvalid(
            f"refusing to listen on {host}: without keys, anyone who can reach it could read and delete everything",
            hint="make a key first: kb keys create --user NAME --role admin; or listen on 127.0.0.1",
        )
    configure_logging(kb.settings.host.log_level)
    plugins.serving(kb.settings, kb.services)
    instance, secret = uuid.uuid4().hex, secrets.token_urlsafe(32)
    transport = AsgiTransport()
    mcp, mcp_lifespan = http_app(lambda actor: Engine(transport.acting_as(actor), plugins), plugins)
    lifespan = [_threads, mcp_lifespan]
    app = create_app(kb, instance=instance, mcp=mcp, lifespan=lifespan, local_secret=secret, any_address=beyond_loopback)
    transport.use(app)
    listening = _listen(host, port)
    url = f"http://{_in_url(host)}:{listening.getsockname()[1]}"
    proxies = kb.settings.host.trusted_proxies
    address = kb.settings.host.data_dir / ADDRESS_FILE
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=_protocol(),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            lifespan="on",
            server_header=False,
            # Who sends X-Forwarded-For can claim any address: nobody is believed unless a setting names them.
            proxy_headers=bool(proxies),
            forwarded_allow_ips=proxies,
        )
    )

    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        # Before uvicorn listens for signals itself one must not be lost; after a graceful stop it raises the signal again, and
        # what is below must still run.
        signal.signal(number, stop)
    _leave_address(address, url, instance, secret)
    kb.upkeep.start()
    sys.stderr.write(f"kb: serving {kb.settings.host.data_dir} on {url} (API docs at /docs, MCP at /mcp)\n")
    sys.stderr.flush()
    # What is loaded now stays: whoever answers a large question need not wait while all of it is searched for garbage.
    gc.collect()
    gc.freeze()
    # An answer is made of thousands of objects, none in a circle: looking for circles every 700 takes a tenth of its time.
    gc.set_threshold(_GARBAGE)
    try:
        server.run(sockets=[listening])
    finally:
        _remove_address(address, instance)
        transport.close()
        kb.close()


@asynccontextmanager
async def _threads(_: object) -> AsyncIterator[None]:
    """Enough threads for handlers: those that wait for the one writer must leave some to readers."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="kb-handler"))
    yield


def _protocol() -> Any:
    try:
        from kb_framework.heads import BoundedHeads
    except ImportError:
        # Where httptools is not installed uvicorn takes h11, which has a limit of its own.
        return "h11"
    return BoundedHeads


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        raise EngineUnreachable(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
            hint="choose another --port",
        ) from None
    return listening


def _in_url(host: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _leave_address(path: Path, url: str, instance: str, secret: str) -> None:
    left = {"url": url, "instance": instance, "pid": os.getpid(), "started_at": now(), "secret": secret}
    temporary = path.with_suffix(f".{instance}")
    # Readable by the owner alone: who has the secret is the owner.
    temporary.touch(mode=0o600, exist_ok=False)
    temporary.write_text(json.dumps(left) + "\n", encoding="utf-8")
    temporary.replace(path)


def _remove_address(path: Path, instance: str) -> None:
    try:
        if json.loads(path.read_text(encoding="utf-8")).get("instance") == instance:
            path.unlink()
    except (OSError, ValueError):
        # Someone else's address, or none: not ours to remove.
        return


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the fields of a request where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": now(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logging(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("kb").setLevel(level.upper())
