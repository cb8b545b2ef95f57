"""What was shown before a change is made, and must still hold when it is."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from kb_framework.api import (
    MutationResult,
    Plan,
)
from kb_framework.storage.store import Tx

_PART = 10_000


class Fingerprint(NamedTuple):
    """How many documents or chunks, and which: the same for the same set, however it was selected."""

    matched: int
    digest: str


def fingerprint(tx: Tx, items: sa.Select) -> Fingerprint:
    """`items` selects numbers, in order."""
    count, digest = 0, hashlib.sha256()
    for part in (
        tx.connection.execute(items.execution_options(yield_per=_PART)).scalars().partitions()
    ):
        count += len(part)
        digest.update(array("q", part))
    return Fingerprint(count, digest.hexdigest())


class Foreseen(NamedTuple):
    """How many documents or chunks guards would refuse, and why: the first of them, or one reason for all."""

    refused: int
    objections: list[dict[str, Any]]


class Promise(Protocol):
    """What a bulk operation was announced to be: exactly this set, and once."""

    def earlier(self, tx: Tx) -> MutationResult | None:
        """The result, if it has happened."""
        ...

    def require_same(self, found: Fingerprint) -> None:
        """Refuse any other set than the one that was announced."""
        ...

    def keep(self, tx: Tx, job_id: int) -> None:
        """Record that it has happened, in its transaction."""
        ...


Limit = Callable[[Tx, Plan], None]
