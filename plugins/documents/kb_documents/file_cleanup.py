"""Removal of the stored files of deleted documents, and of what interrupted additions left."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import sqlalchemy as sa

from kb_documents.tables import ingest_queue
from kb_framework.api.parts import Files, Store
from kb_framework.api.sql import among
from kb_framework.api.tables import documents, file_removals
from kb_framework.errors import Busy, StoreUnusable

log = logging.getLogger("kb.documents")

_AT_ONCE = 500


class FileCleanup:
    def __init__(self, store: Store, files: Files) -> None:
        self._store = store
        self._files = files
        self._beginning = threading.Lock()
        self._has_begun = False

    def begin(self) -> None:
        """Remove, once per engine, what earlier ones left: before the first addition, and where an engine serves."""
        with self._beginning:
            if self._has_begun:
                return
            self._has_begun = True
        try:
            with self._store.read() as tx:
                waiting = list(tx.connection.scalars(sa.select(ingest_queue.c.id)))
            self._files.remove_abandoned(waiting)
            self.remove()
        except (Busy, StoreUnusable) as error:
            log.warning(
                "the files of deleted documents could not be removed and will be tried again: %s",
                error.message,
            )

    def remove(self) -> None:
        """Delete the files that no document refers to any more. A failure is logged and tried again later."""
        with self._store.read() as tx:
            waiting = list(tx.connection.scalars(sa.select(file_removals.c.key)))
        # An export or a backup needs all files as they are; these go with the next ones.
        if not waiting or self._files.is_pinned():
            return
        for keys in _batches(waiting):
            # Under the write lock: a file that is just being added again is either seen here or published after this.
            with self._store.write() as tx:
                used = set(
                    tx.connection.scalars(
                        sa.select(documents.c.file).where(among(documents.c.file, keys))
                    )
                )
                done = [*used, *self._removed([key for key in keys if key not in used])]
                tx.execute(sa.delete(file_removals).where(among(file_removals.c.key, done)))

    def _removed(self, keys: list[str]) -> list[str]:
        """Remove files, all at once if that works; return those that are gone."""
        try:
            self._files.remove_all(keys)
        except (OSError, ValueError):
            return [key for key in keys if self._remove_file(key)]
        except StoreUnusable as error:
            # The whole storage is away: asking for each file would take long, and nobody else could write meanwhile.
            log.warning(
                "%s stored files could not be removed and will be tried again: %s",
                len(keys),
                error.message,
            )
            return []
        return keys

    def _remove_file(self, key: str) -> bool:
        try:
            self._files.remove(key)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            log.warning(
                "a stored file could not be removed and will be tried again: %s: %s", key, reason
            )
            return False
        return True


def _batches(items: list[str]) -> Iterator[list[str]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
