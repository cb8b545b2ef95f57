"""Markers: of hook implementations, and of the hooks that a plugin specifies itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pluggy

PROJECT = "kb_framework"
# The attribute by which a hook implementation is known.
MARK = f"{PROJECT}_impl"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

F = TypeVar("F", bound=Callable[..., Any])


def registration(kind: type, noun: str = "") -> Callable[[F], F]:
    """Mark a registration hook: its implementations return lists of `kind`, whose items are called `noun` in messages."""

    def mark(function: F) -> F:
        words = function.__name__.removeprefix("kb_").removesuffix("s").replace("_", " ")
        function.registers = kind, noun or words  # type: ignore[attr-defined]
        return hookspec(function)

    return mark
