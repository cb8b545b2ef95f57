"""What a text must and must not have, for any engine's full text. Plain searches need none of it."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Term(NamedTuple):
    """A word, or words that stand together; with `prefix` the last of them may go on. `field` says where, None anywhere."""

    text: str
    prefix: bool = False
    field: Literal["title"] | None = None


class Expression(NamedTuple):
    """A chunk matches that has all of the wanted terms and none of the unwanted. One at least is wanted."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...] = ()
