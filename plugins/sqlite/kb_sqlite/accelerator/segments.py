"""Segments in the database: which exist, which of their rows are void, and replacing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_sqlite.accelerator.arrays import Array, ArrayWriter, open_arrays
from kb_sqlite.accelerator.tables import side_removed, side_segments

# A segment with a larger share of void rows is rewritten.
DEAD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Index:
    id: int
    organization_id: str
    source: str
    live: bool
    upto: int
    built_to: int


@dataclass(frozen=True, slots=True)
class Segment:
    id: int
    folder: str
    rows: int


class NewSegment:
    """What the maker of a segment fills in."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.writer: ArrayWriter
        self.rows = 0
        self.tokens = 0
        # What happens in the transaction that makes it count.
        self.then: Callable[[Tx], None] | None = None


def updating(statement: sa.Executable) -> Callable[[Tx], None]:
    def update(tx: Tx) -> None:
        tx.execute(statement)

    return update


def live_segments(tx: Tx, index: Index) -> list[Segment]:
    columns = side_segments.c
    query = sa.select(columns.id, columns.folder, columns.rows).where(
        columns.side_id == index.id, columns.live
    )
    return [Segment(*row) for row in tx.execute(query.order_by(columns.id))]


def dead_rows(
    tx: Tx, index: Index, segments: Sequence[Segment], folder: Path, *, always: bool = False
) -> list[Array]:
    """Of each segment, which of its rows are void; not looked for where there cannot be many."""
    removed = sa.select(side_removed.c.seq, side_removed.c.before).where(
        side_removed.c.side_id == index.id
    )
    count = tx.scalar(sa.select(sa.func.count()).select_from(removed.subquery()))
    if not always and count <= DEAD_SHARE * min((segment.rows for segment in segments), default=0):
        return [np.zeros(segment.rows, bool) for segment in segments]
    rows = np.array(
        [tuple(row) for row in tx.execute(removed.order_by(side_removed.c.seq))], np.int64
    ).reshape(-1, 2)
    found = []
    for segment in segments:
        seqs = open_arrays(folder / segment.folder)["seqs"]
        gone = rows[rows[:, 1] > segment.id, 0]
        found.append(np.isin(seqs, gone))
    return found


def replace_segments(tx: Tx, index: Index, numbers: Sequence[int]) -> None:
    tx.execute(sa.delete(side_segments).where(side_segments.c.id.in_(numbers)))
    oldest = (
        sa.select(sa.func.min(side_segments.c.id))
        .where(side_segments.c.side_id == index.id)
        .scalar_subquery()
    )
    # Marks that are older than every segment say nothing any more.
    void = side_removed.c.before <= sa.func.coalesce(oldest, sa.literal(2**62))
    tx.execute(sa.delete(side_removed).where(side_removed.c.side_id == index.id, void))
