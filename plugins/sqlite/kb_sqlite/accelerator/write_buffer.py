"""The tail in memory: read once, then only what was written since."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import sqlalchemy as sa

from kb_framework.api.engine import once
from kb_sqlite.accelerator.arrays import Array
from kb_sqlite.accelerator.postings import TextBlock, build_text

_ROWS = sa.text(
    "SELECT id, seq, data FROM side_tail WHERE side_id = :side AND id > :after ORDER BY id"
)
_ENDS = sa.text(
    "SELECT (SELECT min(id) FROM side_tail WHERE side_id = :side), (SELECT max(id) FROM side_tail WHERE side_id = :side)"
)

Row = tuple[int, int, bytes]
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class FlatVectors:
    """Vectors as they came."""

    seqs: Array
    vectors: Array


@dataclass(frozen=True, slots=True)
class Part(Generic[B]):
    """Some rows of a tail; `numbers` are their own, in the order of the block."""

    rows: Sequence[Row]
    numbers: Array
    block: B


@dataclass(frozen=True, slots=True)
class _Tail(Generic[B]):
    first: int
    last: int
    parts: tuple[Part[B], ...] = ()


class Tails(Generic[B]):
    """The tails of all organizations, as blocks to search. What is in them may be void: hits are checked."""

    def __init__(self) -> None:
        self._tails: dict[int, _Tail[B]] = {}
        self._lock = threading.Lock()

    def parts(self, connection: sa.Connection, side_id: int) -> tuple[Part[B], ...]:
        return once(connection, ("tail", side_id), lambda: self._parts(connection, side_id))

    def _parts(self, connection: sa.Connection, side_id: int) -> tuple[Part[B], ...]:
        first, last = connection.execute(_ENDS, {"side": side_id}).one()
        if last is None:
            return ()
        with self._lock:
            tail = self._tails.get(side_id)
        if tail is None or tail.first > first:
            # The first time; or a reader whose view is older than what another one has let go of.
            tail = _Tail(first, 0)
        if last > tail.last:
            rows = [
                tuple(row)
                for row in connection.execute(_ROWS, {"side": side_id, "after": tail.last})
            ]
            tail = _Tail(tail.first, last, self._joined([*tail.parts, self._part(rows)]))
        # What has moved to a segment is let go.
        tail = _Tail(
            first, tail.last, tuple(part for part in tail.parts if part.rows[-1][0] >= first)
        )
        with self._lock:
            if side_id not in self._tails or self._tails[side_id].last <= tail.last:
                self._tails[side_id] = tail
        return tail.parts

    def _joined(self, parts: list[Part[B]]) -> tuple[Part[B], ...]:
        """Small parts become larger ones, so that there are few, and each row is read only a few times more."""
        while len(parts) > 1 and 2 * len(parts[-1].rows) >= len(parts[-2].rows):
            last = parts.pop()
            parts[-1] = self._part([*parts[-1].rows, *last.rows])
        return tuple(parts)

    def _part(self, rows: Sequence[Row]) -> Part[B]:
        raise NotImplementedError


class TextTails(Tails[TextBlock]):
    def _part(self, rows: Sequence[Row]) -> Part[TextBlock]:
        block = build_text([seq for _, seq, _ in rows], [data for _, _, data in rows])
        order = sorted(range(len(rows)), key=lambda i: rows[i][1])
        return Part(rows, np.array([rows[i][0] for i in order], np.int64), block)


class VectorTails(Tails[FlatVectors]):
    def _part(self, rows: Sequence[Row]) -> Part[FlatVectors]:
        vectors = np.frombuffer(b"".join(data for _, _, data in rows), "<f4").reshape(len(rows), -1)
        numbers = np.array([number for number, _, _ in rows], np.int64)
        return Part(
            rows, numbers, FlatVectors(np.array([seq for _, seq, _ in rows], np.int64), vectors)
        )
