"""Which chunks a search may return: asked of the tables, for the candidates or, where few are allowed, for all at once.

A filter is a select over chunks and documents; it can hold anything. Whatever the index finds is checked against it, in the
transaction of the search: so nothing is returned that was removed or changed, and nothing of another organization.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from kb_framework.store.side.arrays import Array
from kb_framework.store.snapshot import once
from kb_framework.store.sql import among
from kb_framework.store.tables import chunks

_REMOVED = "SELECT seq, before FROM side_removed WHERE side_id = ? AND seq IN (SELECT value FROM json_each(?))"
_ANY_REMOVED = "SELECT 1 FROM side_removed WHERE side_id = ? LIMIT 1"
_WAITING = "SELECT seq, id FROM side_tail WHERE side_id = ? AND seq IN (SELECT value FROM json_each(?))"
# To find more candidates than this that pass, it is better to ask for all that are allowed.
MOST_CANDIDATES = 2000
_REMEMBERED = 64
_REMEMBERED_BYTES = 64_000_000


@dataclass(slots=True)
class _Known:
    """What is known of a filter: the share of candidates that passed it, or all the chunks that it allows."""

    share: float = 1.0
    seqs: Array | None = None


class Found(NamedTuple):
    """A candidate: the segment it was found in, or the row of the tail."""

    seq: int
    score: float
    segment: int | None
    tail: int | None


class Filter:
    """One select, in one transaction."""

    def __init__(self, connection: sa.Connection, side_id: int, allowed: sa.Select, writing: bool) -> None:
        self._connection = connection
        self._side_id = side_id
        self._allowed = allowed
        self._known = _Known() if writing else _remembered(connection, allowed)

    @property
    def share(self) -> float:
        return self._known.share

    def passing(self, found: Sequence[Found]) -> list[Found]:
        """Those that are allowed, and still are as the index has them; each chunk once, best first."""
        asked = self._allowed.where(among(chunks.c.seq, [hit.seq for hit in found])).subquery()
        # One text is read much faster than as many rows.
        text = self._connection.execute(sa.select(sa.func.group_concat(asked.c[0]))).scalar()
        allowed = set(map(int, text.split(","))) if text else set()
        removed = self._states(_REMOVED, [hit.seq for hit in found if hit.tail is None] if self._any_removed() else [])
        waiting = self._states(_WAITING, [hit.seq for hit in found if hit.tail is not None])
        passing: dict[int, Found] = {}
        for hit in found:
            is_valid = waiting.get(hit.seq) == hit.tail if hit.segment is None else removed.get(hit.seq, 0) <= hit.segment
            if is_valid and hit.seq in allowed:
                passing.setdefault(hit.seq, hit)
        if found and self._known.seqs is None:
            self._known.share = max(len(passing), 0.5) / len(found)
        return list(passing.values())

    def _any_removed(self) -> bool:
        read = lambda: self._connection.exec_driver_sql(_ANY_REMOVED, (self._side_id,)).first()  # noqa: E731
        return once(self._connection, ("removed", self._side_id), read) is not None

    def _states(self, query: str, seqs: list[int]) -> dict[int, int]:
        if not seqs:
            return {}
        rows = self._connection.exec_driver_sql(query, (self._side_id, json.dumps(seqs)))
        return {row[0]: row[1] for row in rows.fetchall()}

    def everything(self, *, ask: bool) -> Array | None:
        """The numbers of all allowed chunks, ascending; None if they are not known and not to be asked for."""
        if self._known.seqs is None and ask:
            numbers = self._allowed.subquery()
            text = self._connection.execute(sa.select(sa.func.group_concat(numbers.c[0]))).scalar()
            self._known.seqs = np.sort(np.fromstring(text, np.int64, sep=",")) if text else np.empty(0, np.int64)
        return self._known.seqs


def _remembered(connection: sa.Connection, allowed: sa.Select) -> _Known:
    """What this connection knows of the filter. It forgets everything as soon as anybody has written anything."""
    # A number that changes when another connection commits; readers never write themselves.
    version = once(connection, "data version", lambda: connection.exec_driver_sql("PRAGMA data_version").scalar_one())
    memory = connection.info.get("side_filters")
    if memory is None or memory.version != version:
        memory = connection.info["side_filters"] = _Memory(version)
    return memory.get(_name(connection, allowed), _Known)


def _name(connection: sa.Connection, allowed: sa.Select) -> Hashable:
    # What the engine keeps compiled statements by is made ten times faster than the statement.
    if (key := allowed._generate_cache_key()) is not None:
        return key.key, repr([value.effective_value for value in key.bindparams])
    compiled = allowed.compile(dialect=connection.dialect)
    return json.dumps([str(compiled), compiled.params], default=str, sort_keys=True)


class _Memory:
    def __init__(self, version: int) -> None:
        self.version = version
        self._filters: OrderedDict[Hashable, _Known] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        known = self._filters.setdefault(name, make())
        self._filters.move_to_end(name)
        sizes = sum(other.seqs.nbytes for other in self._filters.values() if other.seqs is not None)
        while len(self._filters) > _REMEMBERED or (sizes > _REMEMBERED_BYTES and len(self._filters) > 1):
            _, former = self._filters.popitem(last=False)
            sizes -= former.seqs.nbytes if former.seqs is not None else 0
        return known
