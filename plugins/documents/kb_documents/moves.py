"""Folders that were renamed or moved, recognised by the files in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# A file name, size and time of change that more files than this have in common says nothing about where they were.
_COMMON = 8

State = tuple[str, int, int | None]


class Move(NamedTuple):
    old: str
    new: str
    # How many files are the same in both.
    files: int


def possible_moves(new: Iterable[State], known: Iterable[State], root: str) -> list[Move]:
    """Return which folders may be others that are known, the outermost first.

    `new` are files below the root that no document came from, `known` those that documents came from and that are not
    listed any more; each with its size and time of change.
    """
    places: dict[State, list[str]] = {}
    for source, size, modified in new:
        places.setdefault((_name(source), size, modified), []).append(source)
    votes: Counter[tuple[str, str]] = Counter()
    for source, size, modified in known:
        found = places.get((_name(source), size, modified), [])
        if len(found) <= _COMMON:
            votes.update({pair for place in found for pair in _pairs(source, place, root)})
    moves = [Move(old, place, count) for (old, place), count in votes.items()]
    return sorted(moves, key=lambda move: (len(move.old), -move.files, move.old, move.new))


def _name(source: str) -> str:
    return source.rpartition("/")[2]


def _pairs(old: str, new: str, root: str) -> Iterator[tuple[str, str]]:
    """The folders of two files at each level at which the way down to them is the same."""
    while old and new and _name(old) == _name(new):
        old, new = old.rpartition("/")[0], new.rpartition("/")[0]
        if len(new) < len(root) or not old or old == new:
            return
        yield old, new
