"""Queries for full text: what a user wrote, and the terms of it that a store is given."""

from __future__ import annotations

from typing import Literal, NamedTuple

Field = Literal["title"]


class Term(NamedTuple):
    """A word or a phrase as written. With `prefix` its last word may go on. `field` limits where; None is anywhere."""

    text: str
    prefix: bool = False
    field: Field | None = None


class Expression(NamedTuple):
    """As written: a chunk matches that has all of the wanted terms and none of the unwanted. At least one is wanted."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()


class Word(NamedTuple):
    """A word as it is indexed; with `prefix` it stands for every word that begins with it."""

    text: str
    prefix: bool = False


class Adjacent(NamedTuple):
    """Indexed words that stand side by side. With `prefix` the last one may go on."""

    words: tuple[str, ...]
    prefix: bool = False


class Phrase(NamedTuple):
    """Alternative sequences, of which a chunk has any. Without any, nothing that is indexed can match."""

    ways: tuple[Adjacent, ...]
    field: Field | None = None


class TextQuery(NamedTuple):
    """What a text index looks for.

    Without `wanted`, chunks that have any of the words. With it, chunks that have every wanted phrase and no unwanted one.
    An empty query matches nothing. `weights` are those of title, headings and body in the score.
    """

    words: tuple[Word, ...] = ()
    wanted: tuple[Phrase, ...] = ()
    unwanted: tuple[Phrase, ...] = ()
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @property
    def is_expression(self) -> bool:
        return bool(self.wanted)

    @property
    def can_match(self) -> bool:
        """Return whether anything that is indexed can match."""
        return all(phrase.ways for phrase in self.wanted) if self.wanted else bool(self.words)
