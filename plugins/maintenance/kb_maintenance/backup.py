"""A copy of everything, made while others go on writing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from kb_files.api import Integrity, is_changed
from kb_sqlite.api import SqliteEngine
from sqlalchemy import exc

from kb_framework import __version__
from kb_framework.api import Actor, Download
from kb_framework.api.data_folder import working_folder
from kb_framework.api.models import Body
from kb_framework.api.parts import Files, HostSettings, Store
from kb_framework.api.tables import chunks, documents
from kb_framework.api.times import now
from kb_framework.errors import StoreUnusable
from kb_maintenance.archive import ArchiveWriter, as_file, read_parts
from kb_maintenance.stored_files import damaged_chunk, files_of, write_files

FORMAT = "kb-backup"
DATABASE = "kb.sqlite"
_AT_ONCE = 500


class BackupService:
    def __init__(self, store: Store, files: Files, host_settings: HostSettings) -> None:
        self._store = store
        self._files = files
        self._integrity = Integrity(store, files)
        self._data_dir = host_settings.data_dir

    def download(self, _: Body, actor: Actor) -> Download:
        """Return the backup: the database as it is at this moment, and the files that belong to it."""
        return as_file("backup.kbb", self._parts())

    def _parts(self) -> Iterator[bytes]:
        with ExitStack() as stack:
            folder = stack.enter_context(self._folder())
            # Before the moment whose rows are read, so that their files stay.
            stack.enter_context(self._files.pinned())
            with self._store.read() as tx:
                files = files_of(tx, documents.c.file.is_not(None))
                tx.engine.copy_to(tx.connection, folder / DATABASE)
            writer = ArchiveWriter(FORMAT)
            writer.damaged += _check(folder / DATABASE)
            yield from writer.member(DATABASE, read_parts(folder / DATABASE))
            yield from write_files(writer, files, self._integrity)
            yield from writer.finish({"created_at": now(), "program": __version__})

    def _folder(self) -> AbstractContextManager[Path]:
        if os.access(self._data_dir, os.W_OK):
            return working_folder(self._data_dir, ".backup-")
        # A folder that can only be read has no room for the copy.
        return _temporary_folder()


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kb-backup-") as name:
        yield Path(name)


def _check(copy: Path) -> list[dict[str, Any]]:
    """Refuse a database that `restore` would refuse, and return the chunks in it that are damaged."""
    engine = SqliteEngine(copy, busy_timeout=5)
    try:
        with engine.reader.begin() as connection:
            problems = engine.check(connection)
            if not problems:
                return _damaged_chunks(connection)
    except exc.DatabaseError as error:
        problems = [str(error.orig)]
    finally:
        engine.close()
    raise StoreUnusable(
        f"no backup was made: the database is damaged ({problems[0]})",
        hint="kb doctor --repair; where that does not help, kb export saves what can be read",
    )


def _damaged_chunks(connection: sa.Connection) -> list[dict[str, Any]]:
    text = sa.cast(chunks.c.content, sa.LargeBinary)
    query = sa.select(
        chunks.c.id, chunks.c.document_id, text.label("content"), chunks.c.content_hash
    )
    rows = connection.execute(query, execution_options={"yield_per": _AT_ONCE})
    changed = [
        (row.id, row.document_id) for row in rows if is_changed(row.content, row.content_hash)
    ]
    damaged = []
    for chunk_id, number in changed:
        query = sa.select(documents.c.id, documents.c.title, documents.c.path).where(
            documents.c.id == number
        )
        damaged.append(damaged_chunk(chunk_id, connection.execute(query).one()._mapping))
    return damaged
