"""Upkeep while others work: a thread that keeps the side indexes, begun when much has been written."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from kb_framework.errors import KBError
from kb_framework.settings import HostSettings
from kb_framework.store.store import Store

if TYPE_CHECKING:
    from kb_framework.store.backend import Keeper

log = logging.getLogger("kb.upkeep")

# After so many chunks it is worth a look whether something is due; as a share of what a tail gathers.
_LOOK_SHARE = 2
# A transaction has told of its chunks before it was committed: so look once more a little later.
_AGAIN_SECONDS = 5.0
# How long a process that wants to end goes on, as a share of the time since it began to write.
_PATIENCE = 0.2
# Sentences that are kept for whoever asks what was done.
_REMEMBERED = 100


class Upkeep:
    def __init__(self, store: Store, host_settings: HostSettings) -> None:
        self._store = store
        self._settings = host_settings
        self._written = 0
        self._begun: float | None = None
        self._thread: threading.Thread | None = None
        self._look = threading.Event()
        self._ended = threading.Event()
        self._idle = threading.Event()
        self._lock = threading.Lock()
        self._told: list[str] = []
        store.backend.on_written = self._on_written

    def keeper(self) -> Keeper:
        return self._store.backend.keeper(self._store, self._settings)

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
        if self._written * _LOOK_SHARE >= min(self._settings.side_index_tail_rows, self._settings.side_index_min_chunks):
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
                done = self.keeper().run(self._ended.is_set)
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

    def is_idle(self, seconds: float) -> bool:
        """Whether all is done that was due when it was last told to look; waits so long for it."""
        return self._idle.wait(seconds)

    def told(self) -> list[str]:
        """What was done since this was last asked, in words."""
        with self._lock:
            told, self._told = self._told, []
        return told

    def close(self) -> None:
        """End; whoever has been writing for long waits a while for what is under way."""
        if self._thread is None or self._begun is None:
            return
        self._idle.wait(_PATIENCE * (time.monotonic() - self._begun))
        self._ended.set()
        self._look.set()
        self._thread.join()
