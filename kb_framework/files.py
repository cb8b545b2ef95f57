"""Stored files, by the hash of their content, inside one folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from kb_framework.errors import disk_trouble

_STAGED = ".staged-"
_ABANDONED_SECONDS = 24 * 3600
_KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")


class Files:
    """Writing is in two steps, so that a file is published under the write lock and can never be swept away unseen."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stage(self, data: bytes) -> tuple[str, Path]:
        """Write data durably to a temporary place; its key, and where it is."""
        return self.stage_parts([data])

    def stage_parts(self, parts: Iterable[bytes]) -> tuple[str, Path]:
        """The same for data that comes in parts."""
        digest = hashlib.sha256()
        with _disk_explained():
            self.root.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_STAGED, dir=self.root)
            try:
                with os.fdopen(handle, "wb") as file:
                    for part in parts:
                        digest.update(part)
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                # Half a file on a full disk would keep it full.
                Path(name).unlink()
                raise
        key = digest.hexdigest()
        return f"{key[:2]}/{key}", Path(name)

    def publish(self, key: str, staged: Path) -> None:
        """Move a staged file to its place, inside the write transaction that refers to it."""
        target = self.path(key)
        if target.exists():
            staged.unlink(missing_ok=True)
            return
        with _disk_explained():
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)

    def path(self, key: str) -> Path:
        """Where a key's file is. Keys are made here and nowhere else: anything else is refused."""
        if not _KEY.fullmatch(key):
            raise ValueError("not a file key")
        return self.root / key

    def find(self, key: str) -> Path | None:
        """A key's file if it is there: a file of its own, no link to somewhere else."""
        path = self.path(key)
        own = path.parent.resolve() == self.root.resolve() / key[:2]
        return path if own and path.is_file() and not path.is_symlink() else None

    def remove(self, key: str) -> None:
        """Delete a file; a missing one is fine."""
        path = self.path(key)
        if path.parent.resolve() != (self.root.resolve() / key[:2]):
            raise OSError("the file's folder leads out of the storage root")
        path.unlink(missing_ok=True)

    def set_aside(self, keys: Iterable[str]) -> Path:
        """Move files out of the storage, to a folder beside it where a person can look at them."""
        folder = self.root.with_name("lost-files")
        folder.mkdir(exist_ok=True)
        for key in keys:
            self.path(key).replace(folder / key[3:])
        return folder

    def pin(self, keys: Iterable[str]) -> Path:
        """A folder with these files as they are now, that stay whatever happens to the originals; its owner removes it.

        Links where the file system has them, else copies. A file that is not there is left out.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".pinned-", dir=self.root))
        for key in filter(self.find, keys):
            target = folder / key
            target.parent.mkdir(exist_ok=True)
            try:
                target.hardlink_to(self.path(key))
            except FileNotFoundError:
                continue
            except OSError:
                shutil.copyfile(self.path(key), target)
        return folder

    def remove_abandoned(self) -> None:
        """Delete what a killed process staged and never published."""
        for path in self.root.glob(f"{_STAGED}*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()

    def keys(self) -> set[str]:
        return {f"{path.parent.name}/{path.name}" for path in self.root.glob("??/*") if len(path.name) == 64}


@contextlib.contextmanager
def _disk_explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        known = disk_trouble(error)
        if known is None:
            raise
        raise known from error
