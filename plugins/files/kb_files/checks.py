"""The doctor's checks of stored files, and of stored content against its hashes."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import exc

from kb_files.integrity import Integrity
from kb_framework.api import Finding, Progress
from kb_framework.api.parts import Files, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents, file_removals
from kb_framework.errors import KBError, StoreUnusable

# How many documents that lost their file, and damaged files and chunks, are named.
_LOST_NAMED = 5
_DAMAGED_NAMED = 20


class FilesCheck:
    """Compare stored files with the documents that refer to them."""

    def __init__(self, store: Store, files: Files) -> None:
        self._store = store
        self._files = files

    def check(self) -> Iterator[Finding]:
        try:
            stored = self._files.keys()
        except StoreUnusable as error:
            yield Finding("error", "files", error.message, error.hint or "")
            return
        with self._store.read() as tx:
            wanted = set(_wanted(tx))
            waiting = set(tx.connection.scalars(sa.select(file_removals.c.key)))
        problems = [*self._problems(stored, wanted, waiting)]
        yield from (Finding("warning", "files", words) for words in problems)
        if not problems:
            yield Finding("ok", "files", f"{len(wanted)} stored files")

    def _problems(self, stored: set[str], wanted: set[str], waiting: set[str]) -> Iterator[str]:
        if unknown := stored - wanted - waiting:
            yield f"{len(unknown)} stored files belong to no document"
        if left := waiting & stored:
            yield f"{len(left)} files of deleted documents wait to be removed"
        if staged := len(self._files.staged()):
            words = "temporary files of interrupted commands are left"
            yield f"{staged} {words}: kb add or kb doctor --repair removes them"

    def repair(self) -> Iterator[str]:
        yield from self._file_records()
        yield from self._stored_files()
        if left := self._files.remove_staged():
            yield f"removed {left} temporary files of interrupted commands"

    def _file_records(self) -> list[str]:
        """Forget missing files of documents, and record those that are there again."""
        done = []
        with self._store.write() as tx:
            stored = self._files.keys()
            missing = [key for key in _wanted(tx) if key not in stored]
            lost = tx.rows(
                sa.select(documents.c.id, documents.c.title).where(among(documents.c.file, missing))
            )
            tx.execute(
                sa.update(documents).where(among(documents.c.file, missing)).values(file=None)
            )
            key = sa.func.substr(documents.c.content_hash, 1, 2) + "/" + documents.c.content_hash
            back = tx.execute(
                sa.update(documents)
                .where(documents.c.file.is_(None), among(key, list(stored)))
                .values(file=key)
            )
            useless = file_removals.c.key.in_(
                sa.select(documents.c.file).where(documents.c.file.is_not(None))
            )
            tx.execute(sa.delete(file_removals).where(useless))
        if lost:
            names = ", ".join(f"{row['id']} ({row['title']})" for row in lost[:_LOST_NAMED])
            more = f" and {len(lost) - _LOST_NAMED} more" if len(lost) > _LOST_NAMED else ""
            done.append(
                f"the stored files of {len(lost)} documents are gone, their text is still there: {names}{more}"
            )
        return done + (
            [f"{back.rowcount} documents have their stored file again"] if back.rowcount else []
        )

    def _stored_files(self) -> list[str]:
        """Remove files of deleted documents, and set files aside that belong to no document."""
        done = []
        if self._files.is_pinned():
            return [
                "stored files are left alone while somebody exports or backs up: repair again afterwards"
            ]
        # Under the write lock, since a file is published inside the transaction that refers to it.
        with self._store.write() as tx:
            waiting = set(tx.connection.scalars(sa.select(file_removals.c.key)))
            stored = self._files.keys()
            for key in waiting:
                self._files.remove(key)
            tx.execute(sa.delete(file_removals))
            orphans = stored - set(_wanted(tx)) - waiting
            folder = self._files.set_aside(orphans) if orphans else None
        removed = len(waiting & stored)
        done += [f"removed {removed} files of deleted documents"] if removed else []
        return done + (
            [f"{len(orphans)} stored files belong to no document: moved to {folder}"]
            if orphans
            else []
        )


class ContentCheck:
    """Compare stored files and chunks with their hashes: a part at each check, or everything."""

    def __init__(self, integrity: Integrity) -> None:
        self._integrity = integrity

    def check(self) -> Iterator[Finding]:
        try:
            for _ in self._integrity.check(deep=False):
                pass
        except (KBError, exc.DatabaseError) as error:
            yield Finding("error", "content", str(error))
            return
        yield from self._damaged()

    def check_all(self) -> Iterator[Progress | Finding]:
        yield from self._integrity.check(deep=True)
        yield from self._damaged()

    def _damaged(self) -> Iterator[Finding]:
        try:
            damaged = self._integrity.damaged()
        except (KBError, exc.DatabaseError) as error:
            yield Finding("error", "content", str(error))
            return
        yield from (Finding("error", name, message) for name, message in damaged[:_DAMAGED_NAMED])
        if len(damaged) > _DAMAGED_NAMED:
            words = "more files and chunks are missing or damaged"
            yield Finding("error", "content", f"{len(damaged) - _DAMAGED_NAMED} {words}")


def _wanted(tx: Tx) -> list[str]:
    return list(
        tx.connection.scalars(
            sa.select(documents.c.file).where(documents.c.file.is_not(None)).distinct()
        )
    )
