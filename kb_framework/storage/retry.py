"""Doing again what failed for a reason that passes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kb_framework.errors import KBError, Unconfirmed

if TYPE_CHECKING:
    from kb_framework.api.engine import Engine

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
T = TypeVar("T")


def again(attempt: Callable[[], T], engine: Engine) -> T:
    """What an attempt gives. It is made again, after pauses that grow, as long as the engine says that its failure passes."""
    end = time.monotonic() + engine.patience
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except Unconfirmed:
            # It may have been done: only who asked for it can tell what is to follow.
            raise
        except Exception as error:
            if not engine.passes(_cause(error)) or time.monotonic() + pause > end:
                raise
        # Those who got into each other's way do not come back at the same time.
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _cause(error: BaseException) -> BaseException:
    """What the database said, behind the words for it."""
    while isinstance(error, KBError) and error.__cause__ is not None:
        error = error.__cause__
    return error
