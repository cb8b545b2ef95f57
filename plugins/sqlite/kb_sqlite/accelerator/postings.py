"""Postings: for every word the chunks that have it, as sorted arrays; in memory for the tail, mapped for a segment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kb_sqlite.accelerator.arrays import Array, ArrayWriter, open_arrays, ranges

# Postings that are merged at once, about: a hundred times as many bytes are needed meanwhile.
_AT_ONCE = 500_000


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Rows are numbered from 0, in the order of their chunks' numbers."""

    # Of each row: the chunk, and how many words it has.
    seqs: Array
    lengths: Array
    # Of each word, ascending: its key, and where its postings begin; one more for the end.
    keys: Array
    starts: Array
    # Of each posting: the row, and how often the word is in each column.
    ids: Array
    codes: Array

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum(dtype=np.float64))

    def find(self, keys: Array) -> tuple[Array, Array]:
        """Where the postings of each word begin and end."""
        if not len(self.keys):
            nowhere = np.zeros(len(keys), np.int64)
            return nowhere, nowhere
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        here = self.keys[places] == keys
        return np.where(here, self.starts[places], 0), np.where(here, self.starts[places + 1], 0)

    def rows_of(self, seqs: Array) -> Array:
        """The rows of chunks, given by ascending number, that are here."""
        if not len(seqs) or not len(self.seqs):
            return np.empty(0, np.uint32)
        if len(seqs) < len(self.seqs):
            # A chunk may have several rows in a tail that is kept in memory.
            first, last = (
                np.searchsorted(self.seqs, seqs),
                np.searchsorted(self.seqs, seqs, side="right"),
            )
            return ranges(first, last - first).astype(np.uint32)
        places = np.minimum(np.searchsorted(seqs, self.seqs), len(seqs) - 1)
        return np.flatnonzero(seqs[places] == self.seqs).astype(np.uint32)


def open_text(folder: Path) -> TextBlock:
    return TextBlock(**open_arrays(folder))


def build_text(seqs: Sequence[int], blobs: Sequence[bytes]) -> TextBlock:
    """A block of chunks as `words.encode` gives them."""
    order = sorted(range(len(seqs)), key=seqs.__getitem__)
    parts = [blobs[i] for i in order]
    counts = np.array([(len(part) - 4) // 10 for part in parts], np.int64)
    lengths = np.frombuffer(b"".join(part[:4] for part in parts), "<u4").astype(np.float32)
    keys = np.frombuffer(
        b"".join(part[4 : 4 + 8 * n] for part, n in zip(parts, counts.tolist(), strict=True)), "<u8"
    )
    codes = np.frombuffer(
        b"".join(part[4 + 8 * n :] for part, n in zip(parts, counts.tolist(), strict=True)), "<u2"
    )
    rows = np.repeat(np.arange(len(parts), dtype=np.uint32), counts)
    order_of_keys = np.argsort(keys, kind="stable")
    words, starts = _words(keys[order_of_keys])
    numbers = np.array([seqs[i] for i in order], np.int64)
    return TextBlock(numbers, lengths, words, starts, rows[order_of_keys], codes[order_of_keys])


def _words(sorted_keys: Array) -> tuple[Array, Array]:
    """The different keys, and where each begins; one more for the end."""
    first = (
        np.flatnonzero(np.diff(sorted_keys, prepend=sorted_keys[:1] ^ np.uint64(1)))
        if len(sorted_keys)
        else np.empty(0, int)
    )
    return sorted_keys[first], np.append(first, len(sorted_keys)).astype(np.int64)


def write_text(writer: ArrayWriter, block: TextBlock) -> None:
    for name, kind in _ARRAYS.items():
        writer.append(f"{name}.{kind}", getattr(block, name))


_ARRAYS = {"seqs": "i8", "lengths": "f4", "keys": "u8", "starts": "i8", "ids": "u4", "codes": "u2"}


def merge_text(writer: ArrayWriter, pairs: Sequence[tuple[TextBlock, Array]]) -> Iterator[None]:
    """Write one block made of the rows of several that are kept (a truth value per row); it stops to breathe."""
    pairs = sorted(pairs, key=lambda pair: int(pair[0].seqs[0]))
    blocks, kept = [block for block, _ in pairs], [keep for _, keep in pairs]
    # Mostly one block ends before the next begins; where rows interleave, each word's postings are put in order again.
    in_order = all(former.seqs[-1] < block.seqs[0] for former, block in itertools.pairwise(blocks))
    every = np.concatenate([block.seqs[keep] for block, keep in zip(blocks, kept, strict=True)])
    order = np.argsort(every, kind="stable")
    new_rows = np.empty(len(every), np.int64)
    new_rows[order] = np.arange(len(every))
    writer.append("seqs.i8", every[order])
    lengths = np.concatenate(
        [block.lengths[keep] for block, keep in zip(blocks, kept, strict=True)]
    )
    writer.append("lengths.f4", lengths[order])
    maps, begin = [], 0
    for keep in kept:
        mapped = np.full(len(keep), -1, np.int64)
        count = int(keep.sum())
        mapped[keep] = new_rows[begin : begin + count]
        maps.append(mapped)
        begin += count
    parts = 1 + sum(len(block.ids) for block in blocks) // _AT_ONCE
    edges = [(part << 64) // parts for part in range(parts)]
    end = 0
    for number, low in enumerate(edges):
        high = edges[number + 1] if number + 1 < parts else None
        keys, rows, codes = _gather(blocks, maps, low, high)
        order = np.argsort(keys, kind="stable") if in_order else np.lexsort((rows, keys))
        words, starts = _words(keys[order])
        writer.append("keys.u8", words)
        writer.append("starts.i8", starts[:-1] + end)
        writer.append("ids.u4", rows[order])
        writer.append("codes.u2", codes[order])
        end += len(keys)
        yield
    writer.append("starts.i8", np.array([end]))


def _gather(
    blocks: Sequence[TextBlock], maps: Sequence[Array], low: int, high: int | None
) -> tuple[Array, Array, Array]:
    """The postings of the words between two keys: key, new row, code."""
    found: list[tuple[Array, Array, Array]] = []
    for block, mapped in zip(blocks, maps, strict=True):
        first = int(np.searchsorted(block.keys, np.uint64(low)))
        last = (
            len(block.keys) if high is None else int(np.searchsorted(block.keys, np.uint64(high)))
        )
        starts = block.starts[first : last + 1]
        rows = mapped[block.ids[starts[0] : starts[-1]]]
        keys = np.repeat(block.keys[first:last], np.diff(starts))
        keep = rows >= 0
        found.append((keys[keep], rows[keep], block.codes[starts[0] : starts[-1]][keep]))
    keys, rows, codes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return keys, rows, codes
