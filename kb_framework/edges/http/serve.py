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

from kb_framework.api.times import now
from kb_framework.app import open_kb
from kb_framework.bootstrap import Bootstrap, write_private
from kb_framework.client import Engine
from kb_framework.edges.http.app import create_app
from kb_framework.edges.http.auth import Local
from kb_framework.edges.mcp.streamable import http_app
from kb_framework.errors import ConfigInvalid, EngineUnreachable, disk_trouble
from kb_framework.in_process import BorrowedTransport
from kb_framework.local import owners, pid_namespace, tells_users
from kb_framework.logs import JsonFormatter, LogFile
from kb_framework.plugins import Plugins
from kb_framework.running import ADDRESS_FILE
from kb_framework.settings import HostSettings

log = logging.getLogger("kb")

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
    configure_logging(kb.settings.host.log_level, kb.settings.host.data_dir)
    plugins.serving()
    instance, secret = uuid.uuid4().hex, secrets.token_urlsafe(32)
    mcp, mcp_lifespan = http_app(
        lambda actor: Engine(BorrowedTransport(kb, actor=actor), plugins), plugins
    )
    lifespan = [_threads, mcp_lifespan]
    local = Local(
        secret, _local_users(kb.settings.host), kb.settings.host.local_secret == "required"
    )
    app = create_app(
        kb, instance=instance, mcp=mcp, lifespan=lifespan, local=local, any_address=beyond_loopback
    )
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
    for info in plugins.failed:
        log.error("plugin %s failed, so documents cannot be changed: %s", info.name, info.reason)
    try:
        _leave_address(address, url, instance, secret, plugins.prints)
    except OSError as error:
        # What serves must be able to write its address and its secret.
        raise disk_trouble(error) or error from None
    kb.upkeep.start()
    sys.stderr.write(
        f"kb: serving {kb.settings.host.data_dir} on {url} (API docs at /docs, MCP at /mcp)\n"
    )
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
        kb.close()


def _local_users(settings: HostSettings) -> frozenset[int]:
    """Return who is let in without a key while there are none; nobody where the system does not tell users apart."""
    if tells_users():
        return owners(settings.data_dir)
    if settings.local_secret == "auto":
        log.warning(
            "this system does not say which user a connection belongs to: without keys every user of this machine is let in; "
            "KB_LOCAL_SECRET=required keeps others out"
        )
    return frozenset()


@asynccontextmanager
async def _threads(_: object) -> AsyncIterator[None]:
    """Enough threads for handlers: those that wait for the one writer must leave some to readers."""
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(_THREADS, thread_name_prefix="kb-handler")
    )
    yield


def _protocol() -> Any:
    try:
        from kb_framework.edges.http.header_limits import HeaderLimits
    except ImportError:
        # Where httptools is not installed uvicorn takes h11, which has a limit of its own.
        return "h11"
    return HeaderLimits


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


def _leave_address(
    path: Path, url: str, instance: str, secret: str, plugins: dict[str, str]
) -> None:
    left = {"url": url, "instance": instance, "pid": os.getpid(), "pid_namespace": pid_namespace()}
    left |= {"started_at": now(), "secret": secret, "plugins": plugins}
    # Readable by the owner alone: who has the secret is the owner.
    write_private(path, json.dumps(left) + "\n")


def _remove_address(path: Path, instance: str) -> None:
    try:
        if json.loads(path.read_text(encoding="utf-8")).get("instance") == instance:
            path.unlink()
    except (OSError, ValueError):
        # Someone else's address, or none: not ours to remove.
        return


def configure_logging(level: str, data_dir: Path) -> None:
    """Log as JSON to standard error and to the log file of the data folder."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler, LogFile(data_dir)], force=True)
    logging.getLogger("kb").setLevel(level.upper())
