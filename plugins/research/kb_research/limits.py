"""Rate limits, counted in the store, so that several engines on one store count together.

A limit covers a sliding window of seconds, not a minute of the clock: twice as much never passes at the turn of a window.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from kb_framework.api.parts import Store, Tx
from kb_framework.api.tables import BigId
from kb_framework.errors import TooManyRequests

metadata = sa.MetaData()

# One row for each use. `bucket` is what was done, `key` is by whom.
uses = sa.Table(
    "rate_limit_uses",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("bucket", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Index("rate_limit_uses_by_key", "bucket", "key", "at"),
    sa.Index("rate_limit_uses_by_time", "at"),
    sqlite_autoincrement=True,
)
_LONGEST = 86_400.0


class Limit(NamedTuple):
    """At most `times` in any `seconds`; zero times means no limit."""

    times: int
    seconds: float


class Limiter:
    """Counts uses. A refused use is not counted, so that a caller that keeps trying passes as soon as there is room."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def take(
        self, bucket: str, key: str, limits: Sequence[Limit], moment: float | None = None
    ) -> None:
        """Count one use, or raise `TooManyRequests`."""
        with self._store.write(queue=f"limit {bucket} {key}") as tx:
            self.take_in(tx, bucket, key, limits, moment)

    def take_in(
        self, tx: Tx, bucket: str, key: str, limits: Sequence[Limit], moment: float | None = None
    ) -> None:
        """Count one use as a part of a transaction."""
        here = time.time() if moment is None else moment
        tx.execute(sa.delete(uses).where(uses.c.at < here - _LONGEST))
        _require(tx, bucket, key, limits, here)
        tx.execute(sa.insert(uses).values(bucket=bucket, key=key, at=here))


def _require(tx: Tx, bucket: str, key: str, limits: Sequence[Limit], moment: float) -> None:
    for limit in limits:
        if not limit.times:
            continue
        recent = (uses.c.bucket == bucket, uses.c.key == key, uses.c.at > moment - limit.seconds)
        # There is room again when the oldest of the last `times` uses has grown too old.
        oldest = tx.scalar(
            sa.select(uses.c.at)
            .where(*recent)
            .order_by(uses.c.at.desc())
            .offset(limit.times - 1)
            .limit(1)
        )
        if oldest is not None:
            wait = max(1, math.ceil(oldest + limit.seconds - moment))
            raise TooManyRequests(
                f"at most {limit.times} requests in {_words(limit.seconds)} are allowed here", wait
            )


def _words(seconds: float) -> str:
    return {60.0: "a minute", 3600.0: "an hour", 86_400.0: "a day"}.get(
        float(seconds), f"{seconds:g} s"
    )
