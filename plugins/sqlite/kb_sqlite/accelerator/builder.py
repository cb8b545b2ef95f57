"""Keeping side indexes: begun where they pay, built from the tables, flushed, merged, and swept.

The work is done beside what is in use, without the write lock; a short transaction then says that it counts. One process at
a time does it, on the whole database, and it can be stopped or killed at any moment.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from kb_text.api import indexed_words

from kb_framework.api import ChunkText
from kb_framework.api.parts import Store, Tx
from kb_framework.api.spaces import active_space
from kb_framework.api.tables import chunks, documents
from kb_framework.api.times import now
from kb_sqlite.accelerator.arrays import Array, ArrayWriter, Damaged, check_arrays, open_arrays
from kb_sqlite.accelerator.encoding import encode
from kb_sqlite.accelerator.ivf import Quantised, open_vectors, quantise, write_vectors
from kb_sqlite.accelerator.on_write import forget_index
from kb_sqlite.accelerator.postings import build_text, merge_text, open_text, write_text
from kb_sqlite.accelerator.segments import (
    DEAD_SHARE,
    Index,
    NewSegment,
    Segment,
    dead_rows,
    live_segments,
    replace_segments,
    updating,
)
from kb_sqlite.accelerator.tables import TEXT, side_indexes, side_segments, side_tail
from kb_sqlite.engine import dbapi2

log = logging.getLogger("kb.side")

_BATCH = 16_384
_AT_ONCE = 1024
# So many segments of about the same size become one.
_FAN = 4
# A reader may still have to open a segment that was merged away a moment ago.
_GRACE_SECONDS = 60.0


class SegmentBuilder:
    def __init__(
        self,
        store: Store,
        folder: Path,
        min_chunks: int,
        tail_rows: int,
        grace: float = _GRACE_SECONDS,
    ) -> None:
        self._store = store
        self._folder = folder
        self._min_chunks = min_chunks
        self._tail_rows = tail_rows
        self._grace = grace

    def run(self, stop: Callable[[], bool] = lambda: False, patience: float = 0.0) -> list[str]:
        """Do all that is due, or as much as there is time for; what was done, in words.

        Nothing, if another keeper is at work and does not end within so many seconds.
        """
        done: list[str] = []
        with self._alone(patience) as alone:
            if not alone:
                return done
            work = self._work()
            for sentence in work:
                done += [sentence] if sentence else []
                if stop():
                    work.close()
                    break
        return done

    @contextmanager
    def _alone(self, patience: float) -> Iterator[bool]:
        """Whether no other process is at it. The lock is one of SQLite's, which end with the process that has it."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = dbapi2.connect(
            str(self._folder / "keeper.lock"), timeout=patience, isolation_level=None
        )
        try:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except dbapi2.OperationalError:
                yield False
                return
            yield True
        finally:
            lock.close()

    def _work(self) -> Generator[str | None, None, None]:
        yield from self._sweep()
        yield from self._begin()
        for index in self._indexes():
            if not index.live:
                yield from self._build(index)
        for index in self._indexes():
            if index.live:
                yield from self._flush(index)
                yield from self._merge(index)

    def _indexes(self) -> list[Index]:
        columns = side_indexes.c
        query = sa.select(
            columns.id,
            columns.organization_id,
            columns.source,
            columns.live,
            columns.upto,
            columns.built_to,
        )
        with self._store.read() as tx:
            return [Index(*row) for row in tx.execute(query.order_by(columns.id))]

    # What is there

    def check(self) -> dict[int, str]:
        """What is wrong with side indexes, by number, each read in full; nothing when all is well."""
        return {
            index.id: problem
            for index in self._indexes()
            if index.live and (problem := self._problem(index))
        }

    def _problem(self, index: Index) -> str | None:
        with self._store.read() as tx:
            segments = live_segments(tx, index)
            try:
                for segment in segments:
                    check_arrays(self._folder / segment.folder)
                dead = dead_rows(tx, index, segments, self._folder, always=True)
                parts = [open_arrays(self._folder / segment.folder)["seqs"] for segment in segments]
            except Damaged as error:
                return f"the side index of {index.source} is damaged: {error}"
            tail = tx.connection.scalars(
                sa.select(side_tail.c.seq).where(side_tail.c.side_id == index.id)
            )
            parts = [seqs[~mask] for seqs, mask in zip(parts, dead, strict=True)] + [
                np.array(list(tail), np.int64)
            ]
            there = len(np.unique(np.concatenate(parts)))
            wanted = sa.select(sa.func.count()).where(
                chunks.c.organization_id == index.organization_id
            )
            if index.source != TEXT:
                wanted = wanted.where(tx.vector_index(index.source).has(chunks.c.seq))
            count = tx.scalar(wanted)
        return (
            None
            if there == count
            else f"the side index of {index.source} has {there} of {count} chunks"
        )

    def state(self) -> list[str]:
        """Each index in words."""
        found = []
        for index in self._indexes():
            with self._store.read() as tx:
                segments = live_segments(tx, index)
                waiting = tx.scalar(
                    sa.select(sa.func.count())
                    .select_from(side_tail)
                    .where(side_tail.c.side_id == index.id)
                )
            rows = sum(segment.rows for segment in segments)
            built = "" if index.live else ", being built"
            found.append(
                f"{index.source}: {rows} chunks in {len(segments)} segments, {waiting} waiting{built}"
            )
        return found

    def missing(self) -> int:
        """How many organizations are large and have no side index that can be searched."""
        with self._store.read() as tx:
            ready = sa.select(side_indexes.c.organization_id).where(
                side_indexes.c.source == TEXT, side_indexes.c.live
            )
            large = sa.select(chunks.c.organization_id).where(
                chunks.c.organization_id.not_in(ready)
            )
            large = large.group_by(chunks.c.organization_id).having(
                sa.func.count() >= self._min_chunks
            )
            return tx.scalar(sa.select(sa.func.count()).select_from(large.subquery()))

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop side indexes, to be built anew."""
        with self._store.write() as tx:
            for number in numbers:
                forget_index(tx.connection, number)

    def _sweep(self) -> Iterator[str | None]:
        """Nobody else is at work, so what is not live was left behind; what cannot be read is dropped."""
        with self._store.read() as tx:
            left = list(
                tx.connection.scalars(
                    sa.select(side_segments.c.id).where(~side_segments.c.live).limit(1)
                )
            )
        if left:
            with self._store.write() as tx:
                tx.execute(sa.delete(side_segments).where(~side_segments.c.live))
        for index in self._indexes():
            with self._store.read() as tx:
                segments = live_segments(tx, index)
            try:
                for segment in segments:
                    open_arrays(self._folder / segment.folder)
            except Damaged as error:
                log.warning("the side index of %s is built anew: %s", index.source, error)
                with self._store.write() as tx:
                    forget_index(tx.connection, index.id)
                yield f"dropped the side index of {index.source} ({error})"
        with self._store.read() as tx:
            known = set(tx.connection.scalars(sa.select(side_segments.c.folder)))
        for folder in self._folder.iterdir():
            if (
                folder.is_dir()
                and folder.name not in known
                and time.time() - folder.stat().st_mtime >= self._grace
            ):
                # Where a file that is mapped cannot be removed it stays until the next time.
                shutil.rmtree(folder, ignore_errors=True)
        yield None

    # Beginning

    def _begin(self) -> Iterator[str | None]:
        """Organizations that have grown large get an index; those that have shrunk, and models that are gone, lose theirs."""
        with self._store.read() as tx:
            counts = sa.select(chunks.c.organization_id, sa.func.count()).group_by(
                chunks.c.organization_id
            )
            sizes = {row[0]: row[1] for row in tx.execute(counts)}
            space = active_space(tx)
        there = self._indexes()
        sources = [TEXT, *([space.index_name] if space else [])]
        for index in there:
            if (
                index.source not in sources
                or 2 * sizes.get(index.organization_id, 0) < self._min_chunks
            ):
                with self._store.write() as tx:
                    forget_index(tx.connection, index.id)
                yield f"dropped the side index of {index.source}"
        known = {(index.organization_id, index.source) for index in there}
        for organization_id, size in sizes.items():
            for source in sources:
                if size >= self._min_chunks and (organization_id, source) not in known:
                    self._begin_one(organization_id, source)
                    yield None

    def _begin_one(self, organization_id: str, source: str) -> None:
        with self._store.write() as tx:
            mine = chunks.c.organization_id == organization_id
            upto = tx.scalar(sa.select(sa.func.max(chunks.c.seq)).where(mine)) or 0
            row = {
                "organization_id": organization_id,
                "source": source,
                "live": False,
                "upto": upto,
                "built_to": 0,
            }
            tx.execute(sa.insert(side_indexes).values({**row, "created_at": now()}))

    # Building, flushing, merging

    @contextmanager
    def _new_segment(self, index: Index) -> Iterator[NewSegment]:
        """A segment to write. Its number is given before anything is read: what is removed afterwards counts against it."""
        folder = f"{'text' if index.source == TEXT else 'vectors'}-{uuid.uuid4().hex}"
        row = {
            "side_id": index.id,
            "folder": folder,
            "live": False,
            "rows": 0,
            "tokens": 0,
            "bytes": 0,
            "created_at": now(),
        }
        with self._store.write() as tx:
            number = tx.execute(sa.insert(side_segments).values(row)).inserted_primary_key[0]  # type: ignore[index]
        segment = NewSegment(number)
        with ArrayWriter(self._folder / folder) as writer:
            segment.writer = writer
            yield segment
        with self._store.write() as tx:
            if segment.rows and tx.scalar(
                sa.select(side_indexes.c.id).where(side_indexes.c.id == index.id)
            ):
                values = {
                    "live": True,
                    "rows": segment.rows,
                    "tokens": segment.tokens,
                    "bytes": writer.bytes,
                }
                tx.execute(
                    sa.update(side_segments).where(side_segments.c.id == number).values(values)
                )
            else:
                # Nothing to keep; or the whole index was dropped meanwhile.
                tx.execute(sa.delete(side_segments).where(side_segments.c.id == number))
            if segment.then is not None:
                segment.then(tx)

    def _build(self, index: Index) -> Iterator[str | None]:
        """Segments of the chunks that were there when the index was begun."""
        after = index.built_to
        while True:
            with self._new_segment(index) as new:
                with self._store.read() as tx:
                    rows = self._read_batch(tx, index, after)
                    seqs, data = [], []
                    for begin in range(0, len(rows), _AT_ONCE):
                        for seq, value in self._encode(tx, index, rows[begin : begin + _AT_ONCE]):
                            seqs.append(seq)
                            data.append(value)
                        yield None
                if seqs:
                    yield from self._write(new, index, seqs, data)
                finished = len(rows) < _BATCH
                after = rows[-1][0] if rows else index.upto
                values = {"built_to": after, "live": finished}
                new.then = updating(
                    sa.update(side_indexes).where(side_indexes.c.id == index.id).values(values)
                )
            if finished:
                yield f"built the side index of {index.source}"
                return
            yield None

    def _read_batch(self, tx: Tx, index: Index, after: int) -> Sequence[Any]:
        waiting = sa.exists().where(
            side_tail.c.side_id == index.id, side_tail.c.seq == chunks.c.seq
        )
        mine = (
            chunks.c.organization_id == index.organization_id,
            chunks.c.seq > after,
            chunks.c.seq <= index.upto,
        )
        query = sa.select(chunks.c.seq)
        if index.source == TEXT:
            query = sa.select(chunks.c.seq, chunks.c.content, chunks.c.metadata, documents.c.title)
            query = query.join(documents, documents.c.id == chunks.c.document_id)
        return tx.execute(query.where(*mine, ~waiting).order_by(chunks.c.seq).limit(_BATCH)).all()

    def _encode(self, tx: Tx, index: Index, rows: Sequence[Any]) -> list[tuple[int, bytes]]:
        if index.source != TEXT:
            return sorted(
                tx.vector_index(index.source, index.organization_id)
                .read([row[0] for row in rows])
                .items()
            )
        words = [indexed_words(row.title, ChunkText(row.content, row.metadata)) for row in rows]
        return [(row.seq, data) for row, data in zip(rows, encode(words), strict=True)]

    def _write(
        self, new: NewSegment, index: Index, seqs: Sequence[int], data: Sequence[bytes]
    ) -> Iterator[str | None]:
        new.rows = len(seqs)
        if index.source == TEXT:
            block = build_text(seqs, data)
            new.tokens = block.tokens
            write_text(new.writer, block)
            yield None
        else:
            vectors, scales = quantise(np.frombuffer(b"".join(data), "<f4").reshape(len(seqs), -1))
            yield from write_vectors(
                new.writer, [Quantised(np.array(seqs, np.int64), vectors, scales)]
            )

    def _flush(self, index: Index) -> Iterator[str | None]:
        """What has gathered in the tail becomes a segment."""
        mine = side_tail.c.side_id == index.id
        while True:
            with self._store.read() as tx:
                waiting = tx.scalar(sa.select(sa.func.count()).select_from(side_tail).where(mine))
            if waiting < self._tail_rows:
                return
            with self._new_segment(index) as new:
                with self._store.read() as tx:
                    query = sa.select(side_tail.c.id, side_tail.c.seq, side_tail.c.data).where(mine)
                    rows = tx.execute(
                        query.order_by(side_tail.c.id).limit(max(_BATCH, self._tail_rows))
                    ).all()
                yield from self._write(
                    new, index, [row.seq for row in rows], [row.data for row in rows]
                )
                last = rows[-1].id
                new.then = updating(sa.delete(side_tail).where(mine, side_tail.c.id <= last))
            yield f"moved {len(rows)} rows of {index.source} to a segment"

    def _merge(self, index: Index) -> Iterator[str | None]:
        while True:
            with self._store.read() as tx:
                segments = live_segments(tx, index)
                chosen = self._to_merge(segments, dead_rows(tx, index, segments, self._folder))
            if not chosen:
                return
            with self._new_segment(index) as new:
                with self._store.read() as tx:
                    dead = dead_rows(tx, index, chosen, self._folder, always=True)
                yield from self._write_merged(new, index, chosen, [~mask for mask in dead])
                numbers = [segment.id for segment in chosen]
                new.then = lambda tx, numbers=numbers: replace_segments(tx, index, numbers)
            for segment in chosen:
                # Its time of grace begins.
                os.utime(self._folder / segment.folder)
            yield f"merged {len(chosen)} segments of {index.source}"

    def _to_merge(self, segments: Sequence[Segment], dead: Sequence[Array]) -> list[Segment]:
        """Segments of a tier that is full; or one that is largely void."""
        tiers: dict[int, list[Segment]] = {}
        for segment in segments:
            size = max(1.0, segment.rows / max(1, self._tail_rows))
            tiers.setdefault(int(math.log(size, _FAN)), []).append(segment)
        for _, same in sorted(tiers.items()):
            if len(same) >= _FAN:
                return same
        return next(
            (
                [s]
                for s, mask in zip(segments, dead, strict=True)
                if mask.sum() > DEAD_SHARE * s.rows
            ),
            [],
        )

    def _write_merged(
        self, new: NewSegment, index: Index, chosen: Sequence[Segment], kept: Sequence[Array]
    ) -> Iterator[str | None]:
        new.rows = sum(int(keep.sum()) for keep in kept)
        if not new.rows:
            return
        if index.source == TEXT:
            pairs = [
                (open_text(self._folder / segment.folder), keep)
                for segment, keep in zip(chosen, kept, strict=True)
            ]
            new.tokens = int(
                sum(block.lengths[keep].sum(dtype=np.float64) for block, keep in pairs)
            )
            yield from merge_text(new.writer, pairs)
            return
        parts = []
        for segment, keep in zip(chosen, kept, strict=True):
            block = open_vectors(self._folder / segment.folder)
            rows = slice(None) if keep.all() else keep
            parts.append(Quantised(block.seqs[rows], block.vectors[rows], block.scales[rows]))
        yield from write_vectors(new.writer, parts)
