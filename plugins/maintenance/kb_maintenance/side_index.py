"""The doctor's check of side indexes, and their repair."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sqlalchemy import exc

from kb_framework.api import Finding, Progress
from kb_framework.api.parts import Upkeep
from kb_framework.errors import KBError

# Seconds to wait for another process that builds side indexes.
_PATIENCE = 60.0
_STEP_SECONDS = 1.0
_REPAIR = "kb doctor --repair"


class SideIndexCheck:
    """Check the side indexes; no findings where no organization is large enough for one."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep

    def check(self) -> Iterator[Finding]:
        builder = self._upkeep.builder()
        try:
            problems = list(builder.check().values())
            yield from (Finding("error", "side index", words, _REPAIR) for words in problems)
            missing = builder.missing()
            if missing:
                words = f"{missing} large organizations are searched without one, which is slow"
                yield Finding("warning", "side index", words, _REPAIR)
            if not problems and not missing:
                yield from (Finding("ok", "side index", words) for words in builder.state())
        except (KBError, exc.DatabaseError) as error:
            yield Finding("error", "side index", str(error))

    def repair(self) -> Iterator[str | Progress]:
        """Drop what is damaged, then build what is due."""
        builder = self._upkeep.builder()
        problems = builder.check()
        builder.forget(problems)
        yield from (f"dropped a side index: {problem}" for problem in problems.values())
        end = time.monotonic() + _PATIENCE
        while True:
            self._upkeep.start()
            while not self._upkeep.is_idle(_STEP_SECONDS):
                yield Progress("side index", 0, None)
            yield from self._upkeep.told()
            if not builder.missing() or time.monotonic() > end:
                return
            # Another process is building it.
            time.sleep(_STEP_SECONDS)
