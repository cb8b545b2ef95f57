"""The engine that runs over the same data folder: finding it, and having it prove itself."""

from __future__ import annotations

import hmac
import http.client
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kb_framework.bootstrap import Bootstrap
from kb_framework.errors import EngineUnreachable
from kb_framework.local import owners, pid_namespace, prove
from kb_framework.remote import HttpTransport

ADDRESS_FILE = "engine.json"


_PROBE_SECONDS = 2.0


# For work that must not be done beside a running engine: a busy one may take long to answer, and an absent one is known at once.
PATIENT_SECONDS = 60.0


_PROOF_BYTES = 1 << 16


class ProvenTransport(HttpTransport):
    """To an engine that was found by its address file: on each connection it proves itself before it is sent anything.

    The engine may have died since, and its port may be another user's by now.
    """

    def __init__(
        self, running: Running, api_key: str | None = None, patience: float = PATIENT_SECONDS
    ) -> None:
        super().__init__(running.url, api_key)
        self._running = running
        self._patience = patience

    def check(self) -> None:
        """Raise `EngineUnreachable` where the engine does not answer, or somebody else does."""
        with self._connected():
            pass

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        with super()._connected() as connection:
            self._challenge(connection)
            # A connection that ended must not be replaced by one to another process.
            connection.auto_open = 0
            connection.sock.settimeout(self._seconds)
            yield connection

    def _challenge(self, connection: http.client.HTTPConnection) -> None:
        nonce = secrets.token_hex(32)
        connection.sock.settimeout(self._patience)
        connection.request("GET", f"{self._parts.path}/api/v1/health/live?nonce={nonce}")
        body = connection.getresponse().read(_PROOF_BYTES)
        try:
            answer = str(json.loads(body).get("proof"))
        except (ValueError, AttributeError):
            answer = ""
        if not hmac.compare_digest(
            answer.encode(), prove(self._running.secret, self._running.instance, nonce).encode()
        ):
            raise EngineUnreachable(
                f"the process at {self.url} is not the engine that left this address",
                hint="kb serve",
            )


class Running(NamedTuple):
    """An engine that serves this data folder. The secret is in the folder, so a client that shows it is the folder's owner."""

    url: str
    instance: str
    secret: str
    # `Plugins.prints` of the engine; none of an engine that does not say.
    plugins: Mapping[str, str] | None = None


def running_engine(bootstrap: Bootstrap, patience: float = _PROBE_SECONDS) -> Running | None:
    """Return the engine that left its address in the data folder, if it proves within some seconds that it is the one."""
    try:
        left = json.loads((bootstrap.data_dir / ADDRESS_FILE).read_text(encoding="utf-8"))
        running = Running(
            str(left["url"]), str(left["instance"]), str(left["secret"]), left.get("plugins")
        )
        if not _is_alive(left, bootstrap):
            return None
        ProvenTransport(running, patience=patience).check()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EngineUnreachable):
        return None
    return running


def _is_alive(left: Mapping[str, Any], bootstrap: Bootstrap) -> bool:
    """Return whether the engine's process runs, and is its owner's, as far as that can be told from here."""
    here = pid_namespace()
    if here is None or left.get("pid_namespace") != here:
        return True
    try:
        return Path(f"/proc/{int(left['pid'])}").stat().st_uid in owners(bootstrap.data_dir)
    except FileNotFoundError:
        return False
