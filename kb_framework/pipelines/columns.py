"""Lists of candidates and hits by columns: numbers stay in arrays, and only what is looked at becomes an object.

A search compares hundreds of candidates and shows ten. Columns are any sequences, numpy's arrays among them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, overload

from kb_framework.api import Candidate, Hit
from kb_framework.errors import WrongType

Column = Any


class Candidates(Sequence[Candidate]):
    """What a retriever found, best first."""

    __slots__ = ("chunks", "scores")

    def __init__(self, chunks: Column, scores: Column) -> None:
        self.chunks = chunks
        self.scores = scores

    @staticmethod
    def of(found: Iterable[Candidate]) -> Candidates:
        """A list by columns, each chunk where it is first."""
        if isinstance(found, Candidates):
            return found
        scores: dict[int, float] = {}
        for chunk, score in found:
            scores.setdefault(chunk, score)
        return Candidates(list(scores), list(scores.values()))

    @staticmethod
    def checked(found: Any) -> Candidates:
        """A list as a plugin's retriever returned it; WrongType where it is none."""
        if not isinstance(found, Candidates):
            items = _listed(found, "candidates")
            for item in items:
                if not isinstance(item, tuple) or len(item) != 2:
                    raise WrongType(f"expected Candidate(chunk, score), not {type(item).__name__}")
            found = Candidates.of(items)
        _check_columns(found.chunks, found.scores)
        return found

    def copy(self) -> Candidates:
        return Candidates(copy(self.chunks), copy(self.scores))

    @property
    def numbers(self) -> Sequence[int]:
        return plain(self.chunks)

    def among(self, allowed: Container[int]) -> Candidates:
        """Those that are allowed."""
        kept = [
            pair
            for pair in zip(self.numbers, plain(self.scores), strict=True)
            if pair[0] in allowed
        ]
        return Candidates([chunk for chunk, _ in kept], [score for _, score in kept])

    def __len__(self) -> int:
        return len(self.chunks)

    def __iter__(self) -> Iterator[Candidate]:
        return map(Candidate, plain(self.chunks), plain(self.scores))

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> list[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | list[Candidate]:
        if isinstance(place, slice):
            return list(Candidates(self.chunks[place], self.scores[place]))
        return self[_one(place, len(self))][0]


class Hits(Sequence[Hit]):
    """A ranking, best first; of each list the rank, 0 where it does not have the chunk, and the score."""

    __slots__ = ("chunks", "lists", "scores")

    def __init__(
        self, chunks: Column, scores: Column, lists: Mapping[str, tuple[Column, Column]]
    ) -> None:
        self.chunks = chunks
        self.scores = scores
        self.lists = lists

    @staticmethod
    def alone(name: str, found: Candidates) -> Hits:
        """The ranking of a single list."""
        return Hits(found.chunks, found.scores, {name: (range(1, len(found) + 1), found.scores)})

    @property
    def numbers(self) -> Sequence[int]:
        return plain(self.chunks)

    def __len__(self) -> int:
        return len(self.chunks)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self[:])

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        if not isinstance(place, slice):
            return self[_one(place, len(self))][0]
        lists = [
            (name, plain(ranks[place]), plain(scores[place]))
            for name, (ranks, scores) in self.lists.items()
        ]
        return [
            Hit(
                chunk,
                score,
                {name: ranks[row] for name, ranks, _ in lists if ranks[row]},
                {name: scores[row] for name, ranks, scores in lists if ranks[row]},
            )
            for row, (chunk, score) in enumerate(
                zip(plain(self.chunks[place]), plain(self.scores[place]), strict=True)
            )
        ]


def checked_hits(found: Any) -> Sequence[Hit]:
    """A ranking as a plugin returned it; WrongType where it is none."""
    if isinstance(found, Hits):
        _check_columns(found.chunks, found.scores)
        return found
    hits = _listed(found, "hits")
    for hit in hits:
        if (
            not isinstance(hit, Hit)
            or not isinstance(hit.ranks, Mapping)
            or not isinstance(hit.scores, Mapping)
        ):
            raise WrongType(f"expected Hit(chunk, score, ranks, scores), not {type(hit).__name__}")
    _check_columns([hit.chunk for hit in hits], [hit.score for hit in hits])
    return hits


def _listed(found: Any, noun: str) -> list[Any]:
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise WrongType(f"expected a list of {noun}, not {type(found).__name__}")
    return list(found)


def _check_columns(chunks: Column, scores: Column) -> None:
    numbers, values = plain(chunks), plain(scores)
    if len(numbers) != len(values):
        raise WrongType(f"{len(numbers)} chunks have {len(values)} scores")
    # A set of types is made faster than each is looked at.
    for kind in {*map(type, numbers)} - {int}:
        raise WrongType(f"a chunk is an int, not {kind.__name__}")
    for kind in {*map(type, values)}:
        if not issubclass(kind, int | float):
            raise WrongType(f"a score is a float, not {kind.__name__}")


def plain(column: Column) -> Sequence[Any]:
    """Python's own numbers: those of numpy are slow one by one, and are no JSON."""
    return column.tolist() if hasattr(column, "tolist") else column


def _one(place: int, length: int) -> slice:
    place = place + length if place < 0 else place
    if not 0 <= place < length:
        raise IndexError("there is no such place in the list")
    return slice(place, place + 1)
