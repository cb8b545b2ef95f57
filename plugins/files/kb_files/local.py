"""Stored files in a folder of this machine, or in one that several machines share."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from kb_framework.api.data_folder import ABANDONED_SECONDS, lock, sync_folder
from kb_framework.api.files import (
    PART,
    Staged,
    checked_key,
    checked_upload,
    key_of,
    unknown_address,
)
from kb_framework.errors import disk_trouble

_STAGED = ".staged-"
_PROCESS = ".process-"
_PINNED = ".pinned-"


def open_folder(url: str | None, data_dir: Path) -> LocalFiles:
    """Open the folder of a `file:///` address; without one, the folder `files` of the data folder."""
    if url is None:
        return LocalFiles(data_dir / "files")
    if not url.startswith("file:///"):
        raise unknown_address()
    return LocalFiles(Path(unquote(url.removeprefix("file://"))))


class LocalFiles:
    """A folder of files; several processes and machines may use it at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # The name under which this process stages files, and the lock that it holds while it runs.
        self._process: str | None = None
        self._held: int | None = None
        self._naming = threading.Lock()

    def close(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
            with contextlib.suppress(OSError):
                (self.root / f"{_PROCESS}{self._process}").unlink(missing_ok=True)
            self._process = None

    def stage(self, data: bytes) -> Staged:
        return self.stage_parts([data])

    def stage_parts(self, parts: Iterable[bytes]) -> Staged:
        digest = hashlib.sha256()

        def counted() -> Iterator[bytes]:
            for part in parts:
                digest.update(part)
                yield part

        path = self._written(self.root, counted(), self._staging())
        return Staged(key_of(digest.hexdigest()), str(path))

    def _staging(self) -> str:
        """Return the prefix of files that this process stages; others remove them once its lock is free."""
        with self._naming, _disk_explained():
            if self._process is None:
                self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._process = uuid.uuid4().hex
                path = self.root / f"{_PROCESS}{self._process}"
                self._held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
                lock(self._held, wait=True)
        return f"{_STAGED}{self._process}-"

    def _written(self, folder: Path, parts: Iterable[bytes], prefix: str = _STAGED) -> Path:
        """Write a durable temporary file with this content."""
        with _disk_explained():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(prefix=prefix, dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    for part in parts:
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                # Half a file would keep a full disk full.
                Path(name).unlink()
                raise
        return Path(name)

    def publish(self, *staged: Staged) -> None:
        folders: set[Path] = set()
        with _disk_explained():
            for item in staged:
                target = self.path(item.key)
                if not target.parent.is_dir():
                    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    folders |= {self.root, self.root.parent}
                try:
                    Path(item.place).replace(target)
                except FileNotFoundError:
                    # A transaction that was retried has published it before.
                    if not target.exists():
                        raise
                folders.add(target.parent)
            # After all renames, which the file system then writes together.
            for folder in folders:
                sync_folder(folder)

    def discard(self, staged: Staged) -> None:
        Path(staged.place).unlink(missing_ok=True)

    def path(self, key: str) -> Path:
        """Return the path of a key's file."""
        return self.root / checked_key(key)

    def find(self, key: str) -> Path | None:
        """Return the path of a key's file if it exists and is no link to another place."""
        path = self.path(key)
        own = path.parent.resolve() == self.root.resolve() / key[:2]
        return path if own and path.is_file() and not path.is_symlink() else None

    def size(self, key: str) -> int | None:
        path = self.find(key)
        return path.stat().st_size if path else None

    def parts(self, key: str) -> Iterator[bytes]:
        path = self.find(key)
        if path is None:
            raise FileNotFoundError(key)
        return _read(path)

    def remove(self, key: str) -> None:
        path = self.path(key)
        if path.parent.resolve() != (self.root.resolve() / key[:2]):
            raise OSError("the file's folder leads out of the storage root")
        path.unlink(missing_ok=True)

    def remove_all(self, keys: Collection[str]) -> None:
        for key in keys:
            self.remove(key)

    def set_aside(self, keys: Iterable[str]) -> str:
        folder = self.root.with_name("lost-files")
        folder.mkdir(exist_ok=True)
        for key in keys:
            self.path(key).replace(folder / key[3:])
        return str(folder)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        marker = self.root / f"{_PINNED}{uuid.uuid4()}"
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            marker.touch()
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            # Nothing is removed from a read-only folder.
            yield
            return
        try:
            yield
        finally:
            marker.unlink(missing_ok=True)

    def is_pinned(self) -> bool:
        return any(not _is_old(path) for path in self.root.glob(f"{_PINNED}*"))

    def remove_abandoned(self, waiting: Collection[str] = ()) -> None:
        self.remove_staged()
        for path in filter(_is_old, self.root.glob(f"{_PINNED}*")):
            with contextlib.suppress(OSError):
                path.unlink()
        for folder in filter(_is_old, self._uploads.glob("*")):
            if folder.name not in waiting:
                shutil.rmtree(folder, ignore_errors=True)

    def staged(self) -> list[str]:
        alive: dict[str, bool] = {}
        found = []
        for path in self.root.glob(f"{_STAGED}*"):
            process, _, rest = path.name.removeprefix(_STAGED).partition("-")
            if rest and process not in alive:
                alive[process] = self._is_alive(process)
            # Files of earlier versions have no lock, only an age.
            if not alive[process] if rest else _is_old(path):
                found.append(str(path))
        return found

    def _is_alive(self, process: str) -> bool:
        try:
            handle = os.open(self.root / f"{_PROCESS}{process}", os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return lock(handle, wait=False) is not True
        finally:
            os.close(handle)

    def remove_staged(self) -> int:
        found = self.staged()
        for name in found:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        for path in self.root.glob(f"{_PROCESS}*"):
            # Only old ones: a process that has just started may not have locked its file yet.
            if _is_old(path) and not self._is_alive(path.name.removeprefix(_PROCESS)):
                with contextlib.suppress(OSError):
                    path.unlink()
        return len(found)

    def keys(self) -> set[str]:
        return {
            f"{path.parent.name}/{path.name}"
            for path in self.root.glob("??/*")
            if len(path.name) == 64
        }

    def sizes(self) -> dict[str, int]:
        found = {}
        for key in self.keys():
            # It may have been removed since it was listed.
            with contextlib.suppress(FileNotFoundError):
                found[key] = self.path(key).stat().st_size
        return found

    @property
    def _uploads(self) -> Path:
        return self.root / ".uploads"

    def _upload(self, upload_id: str) -> Path:
        return self._uploads / checked_upload(upload_id)

    def put_part(self, upload_id: str, offset: int, data: bytes) -> None:
        written = self._written(self._upload(upload_id), [data])
        written.replace(written.with_name(f"{offset:020}"))

    def uploaded(self, upload_id: str) -> list[tuple[int, int]]:
        return [(int(path.name), path.stat().st_size) for path in self._part_files(upload_id)]

    def upload_parts(self, upload_id: str) -> Iterator[bytes]:
        for path in self._part_files(upload_id):
            yield from _read(path)

    def _part_files(self, upload_id: str) -> list[Path]:
        return sorted(path for path in self._upload(upload_id).glob("*") if path.name.isdigit())

    def remove_upload(self, upload_id: str) -> None:
        shutil.rmtree(self._upload(upload_id), ignore_errors=True)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PART):
            yield part


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > ABANDONED_SECONDS
    except OSError:
        return False


@contextmanager
def _disk_explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        known = disk_trouble(error)
        if known is None:
            raise
        raise known from error
