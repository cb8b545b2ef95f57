"""Memory that was used once and is free again goes back to the system, where its C library is one that keeps it."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

# Of <malloc.h>.
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
# What is larger than this is given back as soon as it is freed.
_LARGE = 256 * 1024
# Pools of free memory, each of which keeps what its threads once needed. By default there are eight for each processor.
_POOLS = 2


@functools.cache
def _c_library() -> Any:
    """The GNU C library, told to keep little; None where it is another."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, _POOLS)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)
        return library if library.malloc_trim else None
    return None


def keep_little() -> None:
    """For whoever is about to use and free much, in many threads."""
    _c_library()


def give_back() -> None:
    """Return what is free. It takes some milliseconds: for when much was used."""
    library = _c_library()
    if library is not None:
        library.malloc_trim(0)
