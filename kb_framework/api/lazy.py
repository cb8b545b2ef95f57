"""Names that are imported when they are first used: a module may offer many where a command needs few."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module; `places` maps the modules that it imports from to names, separated by spaces.

    Say the same to type checkers with imports under `TYPE_CHECKING`.
    """
    place_of = {name: place for place, names in places.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in place_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(place_of[name]), name)
        setattr(sys.modules[module], name, found)
        return found

    return find
