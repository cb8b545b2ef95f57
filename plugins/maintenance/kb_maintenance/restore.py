"""Putting a backup in the place of a data folder's content. No engine may run: this is the one thing done without it."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.bootstrap import Bootstrap
from kb_framework.client import PATIENT_SECONDS, running_engine
from kb_framework.errors import Conflict
from kb_framework.files import Files, LocalFiles, open_files
from kb_framework.settings import load_settings
from kb_framework.store.side.changes import forget_all
from kb_framework.store.sqlite import SqliteBackend, dbapi2
from kb_framework.store.tables import documents, now
from kb_maintenance.archive import ArchiveReader, refused
from kb_maintenance.backup import DATABASE, FORMAT

_PARTS = (f"{DATABASE}-wal", f"{DATABASE}-shm", "files", DATABASE)


def restore_backup(bootstrap: Bootstrap, backup: Path, *, force: bool) -> dict[str, Any]:
    """Unpack and verify beside the data folder, then switch; what was there is kept in a folder of its own."""
    data_dir = bootstrap.data_dir
    if bootstrap.engine_url:
        raise Conflict("a backup is restored into a folder of this machine", hint="unset KB_ENGINE_URL")
    if running_engine(bootstrap, PATIENT_SECONDS):
        raise Conflict(f"an engine serves {data_dir}", hint="stop kb serve first")
    files_url = load_settings(bootstrap).host.files_url
    occupied = (data_dir / DATABASE).exists() or any((data_dir / "files").glob("??/*"))
    if occupied and not force:
        raise Conflict(f"{data_dir} is not empty", hint="--force replaces what is there, and keeps it beside")
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    unpacked = Path(tempfile.mkdtemp(prefix=".restore-", dir=data_dir))
    try:
        found = _unpack(backup, unpacked)
        if files_url:
            _send(LocalFiles(unpacked / "files"), open_files(files_url, data_dir))
            shutil.rmtree(unpacked / "files", ignore_errors=True)
        kept = _switch(data_dir, unpacked) if occupied else _move(unpacked, data_dir, [])
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return {**found, "data_dir": str(data_dir), "kept": str(kept) if occupied else None}


def _unpack(backup: Path, folder: Path) -> dict[str, Any]:
    with ArchiveReader(backup, FORMAT, sys.maxsize, re.compile(re.escape(DATABASE))) as archive:
        archive.verify()
        for name in [DATABASE, *(f"files/{key}" for key in sorted(archive.files))]:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                for part in archive.parts(name):
                    out.write(part)
        created_at = archive.manifest.get("created_at")
    return {"created_at": created_at, **_verify(folder)}


def _verify(folder: Path) -> dict[str, int]:
    """The database must be sound. Files that were missing already when the backup was made are counted, not refused."""
    backend = SqliteBackend(folder / DATABASE, busy_timeout=5)
    try:
        with backend.reader.begin() as connection:
            problems = backend.check(connection)
            if problems:
                raise refused(f"its database is damaged: {problems[0]}")
            count = connection.scalar(sa.select(sa.func.count()).select_from(documents))
            wanted = set(connection.scalars(sa.select(documents.c.file).where(documents.c.file.is_not(None))))
        with backend.writer.begin() as connection:
            # Segments are no part of a backup: they are built anew.
            forget_all(connection)
    except exc.DatabaseError as error:
        raise refused(f"its database cannot be read: {error.orig}") from None
    finally:
        backend.close()
    stored = LocalFiles(folder / "files").keys()
    return {"documents": count or 0, "files": len(stored), "missing_files": len(wanted - stored)}


def _send(unpacked: LocalFiles, files: Files) -> None:
    """Store the files where this knowledge base has them; what else is there stays."""
    for key in sorted(unpacked.keys() - files.keys()):
        staged = files.stage_parts(unpacked.parts(key))
        files.publish(staged)
        files.discard(staged)


def _switch(data_dir: Path, unpacked: Path) -> Path:
    _require_unused(data_dir / DATABASE)
    kept = data_dir / f"replaced-{now().replace(':', '')}"
    kept.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        _move(data_dir, kept, moved)
        _move(unpacked, data_dir, moved)
    except OSError:
        for source, target in reversed(moved):
            target.replace(source)
        raise
    return kept


def _move(source: Path, target: Path, moved: list[tuple[Path, Path]]) -> Path:
    # The database is the last to come: without it there is no knowledge base yet.
    for name in _PARTS:
        if (source / name).exists():
            if name == "files" and not any((target / name).glob("??/*")):
                shutil.rmtree(target / name, ignore_errors=True)
            (source / name).replace(target / name)
            moved.append((source / name, target / name))
    return target


def _require_unused(database: Path) -> None:
    """Leaving WAL mode needs the file for oneself, so it fails while any other process has it open."""
    if not database.exists():
        return
    connection = dbapi2.connect(str(database), timeout=1)
    with contextlib.closing(connection):
        try:
            connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        except dbapi2.OperationalError as error:
            if "locked" in str(error):
                raise Conflict(f"another process uses {database}", hint="stop it first") from None
        except dbapi2.DatabaseError:
            # Too damaged to be opened: that is what backups are for.
            return
