"""Upkeep while others work: a thread that keeps the side indexes, begun when much has been written."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from sqlalchemy import exc

from kb_framework.errors import KBError
from kb_framework.storage.store import Store

if TYPE_CHECKING:
    from kb_framework.api.engine import IndexBuilder

log = logging.getLogger("kb.upkeep")

# After so many chunks it is worth a look whether something is due; as a share of what a tail gathers.
_LOOK_SHARE = 2
# A transaction has told of its chunks before it was committed: so look once more a little later.
_AGAIN_SECONDS = 5.0
# How long a process that wants to end goes on, as a share of the time since it began to write.
_PATIENCE = 0.2
# Seconds that a command waits at its end for a side index that earlier commands left to be built.
_LONGEST_BUILD = 30.0
# Sentences that are kept for whoever asks what was done.
_REMEMBERED = 100


class Upkeep:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._written = 0
        self._begun: float | None = None
        self._thread: threading.Thread | None = None
        self._look = threading.Event()
        self._ended = threading.Event()
        self._idle = threading.Event()
        self._lock = threading.Lock()
        self._told: list[str] = []
        store.engine.on_written = self._on_written

    def builder(self) -> IndexBuilder:
        return self._store.engine.index_builder(self._store)

    def start(self) -> None:
        """Look now, and whenever enough has been written."""
        with self._lock:
            self._idle.clear()
            self._look.set()
            if self._thread is None:
                self._begun = time.monotonic()
                self._thread = threading.Thread(target=self._run, name="kb-upkeep", daemon=True)
                self._thread.start()

    def _on_written(self, count: int) -> None:
        self._written += count
        if self._written * _LOOK_SHARE >= self._store.engine.builds_after:
            self._written = 0
            self.start()

    def _run(self) -> None:
        wait = None
        while not self._ended.is_set():
            again = not self._look.wait(wait)
            self._look.clear()
            if self._ended.is_set():
                return
            try:
                done = self.builder().run(self._ended.is_set)
                for sentence in done:
                    log.info("%s", sentence)
                with self._lock:
                    self._told = [*self._told, *done][-_REMEMBERED:]
            except KBError as error:
                log.warning("the side index has to wait: %s", error.message)
            except Exception as error:
                log.error("the side index could not be kept", exc_info=error)
            wait = None if again else _AGAIN_SECONDS
            with self._lock:
                if not self._look.is_set():
                    self._idle.set()

    def _is_missing(self) -> bool:
        try:
            return bool(self.builder().missing())
        except (KBError, exc.DatabaseError):
            return False

    def is_idle(self, seconds: float) -> bool:
        """Whether all is done that was due when it was last told to look; waits so long for it."""
        return self._idle.wait(seconds)

    def told(self) -> list[str]:
        """What was done since this was last asked, in words."""
        with self._lock:
            told, self._told = self._told, []
        return told

    def close(self) -> None:
        """End; after writing for long, wait a while for what is under way."""
        if self._thread is None and self._written and self._is_missing():
            # Earlier processes wrote enough for a side index, but were interrupted before they built it.
            self.start()
            self._idle.wait(_LONGEST_BUILD)
        if self._thread is None or self._begun is None:
            return
        self._idle.wait(_PATIENCE * (time.monotonic() - self._begun))
        self._ended.set()
        self._look.set()
        self._thread.join()
