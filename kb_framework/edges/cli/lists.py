"""Lists on the command line: `--tags a,b` and `--tags a --tags b` are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.bootstrap import split_list


def _split(type_: Any, tokens: Sequence[Any]) -> list[str]:
    return [part for token in tokens for part in split_list(token.value)]


def _split_numbers(type_: Any, tokens: Sequence[Any]) -> list[int]:
    return [int(part) for part in _split(type_, tokens)]


def says_commas(help: str) -> str:
    """Return the help of an option that takes several values, saying how they are separated."""
    first, *rest = help.removesuffix(".").split(";", 1)
    return ";".join([f"{first}, comma-separated", *rest]) + "."


CommaList = Annotated[Sequence[str], Parameter(converter=_split, n_tokens=1, negative=())]
CommaListOrNone = Annotated[list[str] | None, Parameter(converter=_split, n_tokens=1, negative=())]
CommaNumbersOrNone = Annotated[
    list[int] | None, Parameter(converter=_split_numbers, n_tokens=1, negative=())
]
