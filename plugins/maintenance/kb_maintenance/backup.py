"""A copy of everything, made while others go on writing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import sqlalchemy as sa

from kb_framework import __version__
from kb_framework.files import Files
from kb_framework.settings import HostSettings
from kb_framework.store.store import Store
from kb_framework.store.tables import documents, now
from kb_maintenance.archive import ArchiveWriter, read_parts

FORMAT = "kb-backup"
DATABASE = "kb.sqlite"


class BackupService:
    def __init__(self, store: Store, files: Files, host_settings: HostSettings) -> None:
        self._store = store
        self._files = files
        self._data_dir = host_settings.data_dir

    def parts(self) -> Iterator[bytes]:
        """The backup as a stream: the database as it is at this moment, and the files that belong to it."""
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix=".backup-", dir=self._data_dir))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            # Before the moment whose rows are read, so that their files stay.
            stack.enter_context(self._files.pinned())
            with self._store.read() as tx:
                keys = list(tx.connection.scalars(sa.select(documents.c.file).where(documents.c.file.is_not(None)).distinct()))
                tx.backend.copy_to(tx.connection, folder / DATABASE)
            writer = ArchiveWriter(FORMAT)
            yield from writer.member(DATABASE, read_parts(folder / DATABASE))
            for key in sorted(keys):
                if self._files.size(key) is not None:
                    yield from writer.file(key, self._files.parts(key))
            yield from writer.finish({"created_at": now(), "program": __version__})
