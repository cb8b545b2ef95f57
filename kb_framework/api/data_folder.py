"""The data folder itself: the switch to a restored backup, folders of interrupted commands, and a database that is gone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from kb_framework.api.files import Files
from kb_framework.bootstrap import write_private as write_private
from kb_framework.errors import DatabaseMissing, StoreUnusable
from kb_framework.logs import LOG_FILE as LOG_FILE

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

DATABASE = "kb.sqlite"
# The database comes last: it says that the rest is there.
_PARTS = (f"{DATABASE}-wal", f"{DATABASE}-shm", "files", DATABASE)
_JOURNAL = "restore.json"
_JOURNAL_LOCK = ".restore.lock"
_LOCK = ".lock"
_PREFIXES = (".restore-", ".backup-")
# After this time, files that a process staged or kept from removal belong to a process that is gone.
ABANDONED_SECONDS = 24 * 3600


# Locks


def lock(handle: int, *, wait: bool) -> bool | None:
    """Lock an open file. False if another process has it, None if this system or file system has no such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


# Folders that belong to a running process


@contextmanager
def working_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder that is removed at the end, or by another process once this one is gone."""
    folder = parent / f"{prefix}{uuid.uuid4()}"
    # The lock comes first and goes last: a folder without one belongs to nobody.
    with _locked(folder.with_name(folder.name + _LOCK)):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    with path.open("ab") as file:
        lock(file.fileno(), wait=True)
        try:
            yield file
        finally:
            path.unlink(missing_ok=True)


def abandoned(parent: Path, *prefixes: str) -> list[Path]:
    """Folders of processes that are gone."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(parent):
            if (
                entry.name.startswith(prefixes)
                and entry.is_dir(follow_symlinks=False)
                and _is_abandoned(Path(entry.path))
            ):
                found.append(Path(entry.path))
    return sorted(found)


def _is_abandoned(folder: Path) -> bool:
    try:
        with folder.with_name(folder.name + _LOCK).open("rb") as file:
            free = lock(file.fileno(), wait=False)
    except FileNotFoundError:
        free = None
    except OSError:
        return False
    if free is None:
        # Of another version of the program, or on a file system without locks: only its age tells.
        with contextlib.suppress(OSError):
            return time.time() - folder.stat().st_mtime > ABANDONED_SECONDS
    return bool(free)


def remove_abandoned(parent: Path, *prefixes: str) -> int:
    """Remove them; how many there were."""
    found = abandoned(parent, *prefixes)
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.with_name(folder.name + _LOCK).unlink(missing_ok=True)
    return len(found)


def remove_leftovers(data_dir: Path) -> int:
    """Remove what interrupted backups and restores left behind."""
    return remove_abandoned(data_dir, *_PREFIXES)


# The switch to another content


def switch(data_dir: Path, unpacked: Path, kept: Path, require_unused: Callable[[], None]) -> None:
    """Move database and files to `kept`, and those of `unpacked` in their place.

    A journal is written first. Whatever ends this process, the next one that opens the folder finishes the switch.
    """
    journal = data_dir / _JOURNAL
    with _switching(data_dir):
        kept.mkdir()
        names = {
            "unpacked": unpacked.name,
            "kept": kept.name,
            "outgoing": [name for name in _PARTS if (data_dir / name).exists()],
            "incoming": [name for name in _PARTS if (unpacked / name).exists()],
        }
        _write_durably(journal, json.dumps(names).encode())
        try:
            # Who opens the folder from now on waits; who has it open keeps the switch from happening.
            require_unused()
        except BaseException:
            journal.unlink()
            kept.rmdir()
            raise
        _finish(data_dir, names)


def finish_switch(data_dir: Path) -> bool:
    """Finish a switch that was interrupted, or wait for one that is under way."""
    journal = data_dir / _JOURNAL
    if not journal.exists():
        return False
    with _switching(data_dir):
        try:
            names = json.loads(journal.read_bytes())
        except FileNotFoundError:
            return False
        _finish(data_dir, names)
    return True


@contextmanager
def _switching(data_dir: Path) -> Iterator[None]:
    # This lock file stays: to remove it while others wait for it would let two of them in.
    with (data_dir / _JOURNAL_LOCK).open("ab") as file:
        lock(file.fileno(), wait=True)
        yield


def _finish(data_dir: Path, names: dict[str, Any]) -> None:
    """Make the moves that are still to be made. Each is made once, however often this is begun."""
    kept, unpacked = data_dir / names["kept"], data_dir / names["unpacked"]
    for name in names["outgoing"]:
        # What is not kept yet is still the old one.
        if not (kept / name).exists() and (data_dir / name).exists():
            (data_dir / name).replace(kept / name)
    sync_folder(kept)
    sync_folder(data_dir)
    for name in names["incoming"]:
        if (unpacked / name).exists():
            (unpacked / name).replace(data_dir / name)
    sync_folder(data_dir)
    (data_dir / _JOURNAL).unlink()
    sync_folder(data_dir)


def _write_durably(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable, on systems that can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Make all files of a folder durable."""
    for place, _, names in os.walk(folder):
        for name in names:
            with (Path(place) / name).open("rb+") as file:
                os.fsync(file.fileno())
        sync_folder(Path(place))


# Room


def disk_problem(data_dir: Path, reserve: int) -> str | None:
    """Return what is wrong where less than `reserve` bytes are free; None otherwise."""
    free = shutil.disk_usage(data_dir).free
    return f"the disk is full: {free} bytes are left" if free < reserve else None


# A database that is gone


def is_empty(database: Path) -> bool:
    try:
        return database.stat().st_size == 0
    except FileNotFoundError:
        return True


def require_no_files(files: Files, data_dir: Path, *, on_sqlite: bool) -> None:
    """Refuse to begin a new database where files of another one are stored."""
    if count := len(files.keys()):
        if not on_sqlite and not is_empty(data_dir / DATABASE):
            raise StoreUnusable(
                f"{data_dir} holds {count} stored files of its SQLite database; no new database was begun beside them",
                hint="kb migrate-store copies that database; for a new one set KB_DATA_DIR to another folder",
            )
        raise DatabaseMissing(
            f"{data_dir} holds {count} stored files, but the database that names them is missing or empty; no new one was begun",
            hint="kb restore BACKUP --force brings a backup back; kb doctor --repair sets the files aside for a new database",
        )
