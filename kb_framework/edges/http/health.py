"""The proof that a server serves its data folder: the one answer of the host that depends on the process."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import Parameter

from kb_framework.api import PUBLIC
from kb_framework.local import prove

Nonce = Annotated[
    str | None, Parameter(max_length=128, description="Random text, which `proof` answers.")
]


def live_handler(instance: str, secret: str) -> HTTPRouteHandler:
    """Return the handler of `/health/live`."""

    @get("/health/live", sync_to_thread=False, opt={"permission": PUBLIC})
    def get_live(nonce: Nonce = None) -> dict[str, Any]:
        """Check that the engine answers, without using the database. With `nonce` it proves that it serves its data folder."""
        proof = {"proof": prove(secret, instance, nonce)} if nonce and secret else {}
        return {"status": "ok", "instance": instance, **proof}

    return get_live
