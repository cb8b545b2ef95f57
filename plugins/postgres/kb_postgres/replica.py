"""A read replica, which answers searches as long as it can be reached."""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy import event

log = logging.getLogger("kb.store")

_AGAIN_AFTER = 10.0
# By SQLSTATE, or its class, what says something of the replica and nothing of the question: it is away, starts, stops or is full,
# replaying had to end a reader (40, 55P03), or it has not heard yet of a table or a column.
_ITS_OWN = (
    "08",
    "28",
    "3D000",
    "40",
    "42501",
    "42703",
    "42P01",
    "53",
    "55P03",
    "57P",
    "58",
    "XX001",
    "XX002",
)


class Replica:
    def __init__(self, engine: sa.Engine, again_after: float = _AGAIN_AFTER) -> None:
        self.engine = engine
        self.failures = 0
        self.again_after = again_after
        self._away = False
        self.again_at = 0.0
        event.listen(engine, "handle_error", self._failed)

    def is_due(self) -> bool:
        """Whether to ask it: one question after a while finds out whether it is back, the others do not wait for that."""
        if not self._away:
            return True
        now = time.monotonic()
        if now < self.again_at:
            return False
        self.again_at = now + self.again_after
        return True

    def answered(self) -> None:
        if self._away:
            self._away = False
            log.info("the replica answers searches again")

    def _failed(self, context: Any) -> None:
        """Every error comes by here, also one that somebody above catches."""
        reason = context.original_exception
        # A connection that ended while nobody used it is made anew, which may succeed.
        if context.is_pre_ping or not isinstance(reason, psycopg.Error):
            return
        lost = reason.sqlstate is None and isinstance(reason, psycopg.OperationalError)
        if not lost and not (reason.sqlstate or "").startswith(_ITS_OWN):
            return
        self.failures += 1
        self.again_at = time.monotonic() + self.again_after
        if not self._away:
            self._away = True
            told = getattr(reason.diag, "message_primary", None) or str(reason).partition("\n")[0]
            log.warning("the replica cannot be asked, so the primary answers searches: %s", told)
