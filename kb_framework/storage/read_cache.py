"""What a reading transaction has read once need not be read again: it sees the same until its end.

Where the engine can tell that nobody has committed anything since, the next transaction on the connection sees the same too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa

_SNAPSHOT = "kb_snapshot"
_MEMORY = "kb_memory"
# How many things a connection remembers at most.
_MOST = 1000
T = TypeVar("T")


@contextmanager
def snapshot(connection: sa.Connection, version: Callable[[], Hashable | None]) -> Iterator[None]:
    """From here on `once` remembers; only for transactions that see one state and do not write.

    Two transactions with the same version see the same state; None where that cannot be told. It is asked for when there is
    something to remember: whoever reads one thing needs one statement.
    """
    # Asked for once: a connection that was lost, or interrupted, has no more to tell.
    info = connection.info
    info[_SNAPSHOT] = version
    try:
        yield
    finally:
        info.pop(_SNAPSHOT, None)


def once(connection: sa.Connection, key: Hashable, read: Callable[[], T]) -> T:
    """What `read` gives: read at the first time in a reading transaction, and every time in a writing one."""
    info = connection.info
    known: Any = info.get(_SNAPSHOT)
    if known is None:
        return read()
    if callable(known):
        known = info[_SNAPSHOT] = _remembered(info, known())
    if key not in known:
        known[key] = read()
    return known[key]


def _remembered(info: dict[str, Any], version: Hashable | None) -> dict[Hashable, Any]:
    """What the connection's last transaction knew, if it saw the same state."""
    last, known = info.get(_MEMORY, (None, {}))
    if version is None or version != last or len(known) > _MOST:
        known = {}
    info[_MEMORY] = version, known
    return known
