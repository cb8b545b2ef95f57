"""Putting a backup in the place of a data folder's content. No engine may run: this is the one thing done without it."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from kb_files.api import FILE, LocalFiles, named_document
from kb_sqlite.api import SqliteEngine, dbapi2, forget_accelerator
from sqlalchemy import exc

from kb_framework.api.data_folder import (
    finish_switch,
    remove_leftovers,
    switch,
    sync_tree,
    working_folder,
)
from kb_framework.api.files import Mismatch, copy_verified, open_files
from kb_framework.api.opening import PATIENT_SECONDS, Bootstrap, load_settings, running_engine
from kb_framework.api.parts import Files, Plugins
from kb_framework.api.tables import damage, documents
from kb_framework.api.times import now
from kb_framework.errors import Conflict
from kb_maintenance.archive import ArchiveReader, refused
from kb_maintenance.backup import DATABASE, FORMAT


def restore_backup(
    bootstrap: Bootstrap, plugins: Plugins, backup: Path, *, force: bool
) -> dict[str, Any]:
    """Unpack and verify beside the data folder, then switch; what was there is kept in a folder of its own."""
    data_dir = bootstrap.data_dir
    if bootstrap.engine_url:
        raise Conflict(
            "a backup is restored into a folder of this machine", hint="unset KB_ENGINE_URL"
        )
    if running_engine(bootstrap, PATIENT_SECONDS):
        raise Conflict(f"an engine serves {data_dir}", hint="stop kb serve first")
    if data_dir.is_dir():
        finish_switch(data_dir)
    files_url = load_settings(bootstrap).host.files_url
    occupied = (data_dir / DATABASE).exists() or any((data_dir / "files").glob("??/*"))
    if occupied and not force:
        raise Conflict(
            f"{data_dir} is not empty", hint="--force replaces what is there, and keeps it beside"
        )
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_leftovers(data_dir)
    with working_folder(data_dir, ".restore-") as unpacked:
        found = _unpack(backup, unpacked)
        if files_url:
            _send(
                LocalFiles(unpacked / "files"), open_files(plugins.file_stores, files_url, data_dir)
            )
            shutil.rmtree(unpacked / "files", ignore_errors=True)
        sync_tree(unpacked)
        kept = data_dir / f"replaced-{now().replace(':', '')}"
        switch(data_dir, unpacked, kept, lambda: _require_unused(data_dir / DATABASE))
    if not occupied:
        shutil.rmtree(kept, ignore_errors=True)
    return {**found, "data_dir": str(data_dir), "kept": str(kept) if occupied else None}


def _unpack(backup: Path, folder: Path) -> dict[str, Any]:
    with ArchiveReader(backup, FORMAT, sys.maxsize, re.compile(re.escape(DATABASE))) as archive:
        archive.verify()
        damaged = archive.damaged
        for name in [DATABASE, *(f"files/{key}" for key in sorted(archive.files))]:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                for part in archive.parts(name):
                    out.write(part)
        created_at = archive.manifest.get("created_at")
    return {"created_at": created_at, **_verify(folder, damaged)}


def _verify(folder: Path, damaged: set[str]) -> dict[str, Any]:
    """Refuse a database that is not sound. Documents whose file the backup does not hold, or holds damaged, are named."""
    engine = SqliteEngine(folder / DATABASE, busy_timeout=5)
    try:
        with engine.reader.begin() as connection:
            problems = engine.check(connection)
            if problems:
                raise refused(f"its database is damaged: {problems[0]}")
            count = connection.scalar(sa.select(sa.func.count()).select_from(documents))
            rows = connection.execute(
                sa.select(documents).where(documents.c.file.is_not(None)).order_by(documents.c.id)
            )
            wanted = [row._mapping for row in rows]
        stored = LocalFiles(folder / "files").keys()
        lost = [row for row in wanted if row["file"] not in stored]
        with engine.writer.begin() as connection:
            # Segments are no part of a backup: they are built anew.
            forget_accelerator(connection)
            _record_lost(connection, {row["file"] for row in lost})
    except exc.DatabaseError as error:
        raise refused(f"its database cannot be read: {error.orig}") from None
    finally:
        engine.close()
    told = [_lost(row, is_damaged=row["file"] in damaged) for row in lost]
    return {
        "documents": count or 0,
        "files": len(stored),
        "missing_files": len(lost),
        "damaged": told,
    }


def _record_lost(connection: sa.Connection, keys: set[str]) -> None:
    """Record what is missing, so that adding the originals again reads them.

    A backup of an older version has no table for it: there the next check finds them.
    """
    if not sa.inspect(connection).has_table(damage.name):
        return
    known = set(connection.scalars(sa.select(damage.c.key).where(damage.c.kind == FILE)))
    rows = [
        {"kind": FILE, "key": key, "problem": "is missing", "found_at": now()}
        for key in sorted(keys - known)
    ]
    if rows:
        connection.execute(sa.insert(damage), rows)


def _lost(document: Mapping[Any, Any], *, is_damaged: bool) -> str:
    """Name a document that is restored without its file."""
    problem = (
        "is damaged in the backup"
        if is_damaged
        else "was missing or damaged when the backup was made"
    )
    return f"the stored file of {named_document(document)} {problem}; its text was restored. Add the original again (kb add)"


def _send(unpacked: LocalFiles, files: Files) -> None:
    """Store the files where this knowledge base has them; what else is there stays."""
    stored = files.keys()
    for key in sorted(unpacked.keys()):
        if key in stored and _is_whole(files, key):
            continue
        staged = files.stage_parts(unpacked.parts(key))
        files.publish(staged)
        files.discard(staged)


def _is_whole(files: Files, key: str) -> bool:
    try:
        copy_verified(files, key)
    except Mismatch:
        return False
    return True


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
