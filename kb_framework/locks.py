"""Locks that end with the process that holds them."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def lock(handle: int, *, wait: bool) -> bool | None:
    """Lock an open file. False if another process has it, None if this system or file system has no such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
