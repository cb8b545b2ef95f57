"""Which chunks a search may return: asked of the tables, for the candidates or, where that is less work, for all at once.

A filter is a select over chunks and documents; it can hold anything. Whatever the index finds is checked against it, in the
transaction of the search: so nothing is returned that was removed or changed, and nothing of another organization.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from kb_framework.api.engine import once
from kb_framework.api.sql import among_given
from kb_framework.api.tables import chunks
from kb_sqlite.accelerator.arrays import Array

_REMOVED = "SELECT seq, before FROM side_removed WHERE side_id = ? AND seq IN (SELECT value FROM json_each(?))"
_ANY_REMOVED = "SELECT 1 FROM side_removed WHERE side_id = ? LIMIT 1"
_WAITING = (
    "SELECT seq, id FROM side_tail WHERE side_id = ? AND seq IN (SELECT value FROM json_each(?))"
)
# To find more candidates than this that pass, it is better to ask for all that are allowed.
MOST_CANDIDATES = 2000
# What it takes to be told all the chunks that are allowed, about.
_SECONDS_PER_CHUNK = 1e-6
_REMEMBERED = 64
_REMEMBERED_BYTES = 64_000_000


@dataclass(slots=True)
class _Known:
    """What is known of a filter: the share of candidates that passed it, or all the chunks that it allows."""

    # One text is read much faster than as many rows.
    of_candidates: sa.Select
    share: float = 1.0
    # How long it took to ask about candidates.
    spent: float = 0.0
    seqs: Array | None = None
    # Where those are in segments, by their numbers: looking for many takes longer than the search.
    rows: dict[int, Array] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(
            array.nbytes
            for array in (*self.rows.values(), *(() if self.seqs is None else (self.seqs,)))
        )


class Found(NamedTuple):
    """Candidates of several queries, the best of each first, with the segment or the row of the tail that it is in; 0 is none."""

    queries: Array
    seqs: Array
    scores: Array
    segments: Array
    tails: Array

    def take(self, rows: Array | slice) -> Found:
        return Found(*(column[rows] for column in self))

    @staticmethod
    def joined(parts: list[Found]) -> Found:
        return (
            parts[0]
            if len(parts) == 1
            else Found(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        )


class Filter:
    """One select, or None where all of the index may be returned, in one transaction; `rows` is how many there are."""

    def __init__(
        self, connection: sa.Connection, side_id: int, allowed: sa.Select | None, rows: int
    ) -> None:
        self._connection = connection
        self._side_id = side_id
        self._allowed = allowed
        self._rows = rows
        self._known = (
            None
            if allowed is None
            else once(connection, "side filters", _Memory).get(connection, allowed)
        )

    @property
    def share(self) -> float:
        return self._known.share if self._known else 1.0

    def passing(self, found: Found) -> Found:
        """Those that are allowed, and still are as the index has them; each chunk once, best first."""
        found = self._valid(found)
        if self._known and len(found.seqs):
            # Every chunk that the index has is in its tables; what a filter allows is known from them.
            allowed = self._are_allowed(found.seqs)
            if self._known.seqs is None:
                self._known.share = max(int(allowed.sum()), 0.5) / len(allowed)
            found = found.take(allowed)
        return found

    def _valid(self, found: Found) -> Found:
        in_tail = found.segments == 0
        waits = bool(in_tail.any())
        if not waits and not self._any_removed():
            return found
        valid = np.ones(len(found.seqs), bool)
        if waits:
            valid[in_tail] = self._states(_WAITING, found.seqs[in_tail]) == found.tails[in_tail]
        if self._any_removed():
            valid[~in_tail] = (
                self._states(_REMOVED, found.seqs[~in_tail]) <= found.segments[~in_tail]
            )
        found = found.take(valid)
        keys = found.queries * (1 + found.seqs.max(initial=0)) + found.seqs
        order = np.argsort(keys, kind="stable")
        again = np.diff(keys[order]) == 0
        # Sorting keeps the order of what is the same: the first is the best.
        return (
            found.take(np.delete(np.arange(len(order)), order[1:][again])) if again.any() else found
        )

    def _are_allowed(self, seqs: Array) -> Array:
        assert self._known
        # A filter may take long for a single candidate: to be told all is less work then, and soon.
        known = self.everything(
            ask=self._known.spent > _SECONDS_PER_CHUNK * self._known.share * self._rows
        )
        if known is not None:
            return _contains(known, seqs)
        began = time.thread_time()
        parameters = {"candidates": json.dumps(np.unique(seqs).tolist())}
        text = self._connection.execute(self._known.of_candidates, parameters).scalar()
        self._known.spent += time.thread_time() - began
        return _contains(_numbers(text), seqs)

    def _any_removed(self) -> bool:
        read = lambda: self._connection.exec_driver_sql(_ANY_REMOVED, (self._side_id,)).first()  # noqa: E731
        return once(self._connection, ("removed", self._side_id), read) is not None

    def _states(self, query: str, seqs: Array) -> Array:
        """What the database has for each chunk; 0 where it has nothing."""
        asked, places = np.unique(seqs, return_inverse=True)
        rows = self._connection.exec_driver_sql(
            query, (self._side_id, json.dumps(asked.tolist()))
        ).fetchall()
        states = np.zeros(len(asked), np.int64)
        if rows:
            known = np.array([tuple(row) for row in rows], np.int64)
            states[np.searchsorted(asked, known[:, 0])] = known[:, 1]
        return states[places]

    def everything(self, *, ask: bool) -> Array | None:
        """The numbers of all allowed chunks, ascending; None if they are not known and not to be asked for, or are all."""
        if self._known is None or self._allowed is None:
            return None
        if self._known.seqs is None and ask:
            numbers = self._allowed.subquery()
            self._known.seqs = _numbers(
                self._connection.execute(sa.select(sa.func.group_concat(numbers.c[0]))).scalar()
            )
        return self._known.seqs

    def rows_of(self, number: int, find: Callable[[Array], Array]) -> Array:
        """The rows of a segment that are allowed; to be asked for when everything is known."""
        assert self._known is not None and self._known.seqs is not None
        rows = self._known.rows.get(number)
        if rows is None:
            rows = self._known.rows[number] = find(self._known.seqs)
        return rows


def _numbers(text: str | None) -> Array:
    """Ascending."""
    return np.sort(np.fromstring(text, np.int64, sep=",")) if text else np.empty(0, np.int64)


def _contains(known: Array, seqs: Array) -> Array:
    if not len(known):
        return np.zeros(len(seqs), bool)
    return known[np.minimum(np.searchsorted(known, seqs), len(known) - 1)] == seqs


class _Memory:
    """What is known of the filters that were used last; of one state of the database."""

    def __init__(self) -> None:
        self._filters: OrderedDict[Hashable, _Known] = OrderedDict()

    def get(self, connection: sa.Connection, allowed: sa.Select) -> _Known:
        name = _name(connection, allowed)
        known = self._filters.get(name)
        if known is None:
            asked = allowed.where(among_given(chunks.c.seq, "candidates")).subquery()
            known = self._filters[name] = _Known(sa.select(sa.func.group_concat(asked.c[0])))
        self._filters.move_to_end(name)
        sizes = sum(other.bytes for other in self._filters.values())
        while len(self._filters) > _REMEMBERED or (
            sizes > _REMEMBERED_BYTES and len(self._filters) > 1
        ):
            _, former = self._filters.popitem(last=False)
            sizes -= former.bytes
        return known


def _name(connection: sa.Connection, allowed: sa.Select) -> Hashable:
    # What the engine keeps compiled statements by is made ten times faster than the statement.
    if (key := allowed._generate_cache_key()) is not None:
        return key.key, repr([value.effective_value for value in key.bindparams])
    compiled = allowed.compile(dialect=connection.dialect)
    return json.dumps([str(compiled), compiled.params], default=str, sort_keys=True)
