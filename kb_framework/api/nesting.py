"""How deep JSON may be nested: what is deeper can be parsed and stored, but not written again as an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# For what is sent.
MAX_DEPTH = 32
# For what was stored before there was a limit. Serializers give up at about 250.
MAX_STORED_DEPTH = 128
# Stands in metadata that cannot be shown, and says why.
PROBLEM = "kb_problem"


def is_deeper(value: Any, limit: int) -> bool:
    """Whether objects and arrays are nested more than `limit` times. Not recursive, so that any value can be asked about."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def cut(value: Any, limit: int) -> Any:
    """The same with null in place of what is nested deeper."""
    if isinstance(value, dict):
        return {key: cut(item, limit - 1) for key, item in value.items()} if limit else None
    if isinstance(value, list):
        return [cut(item, limit - 1) for item in value] if limit else None
    return value


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
