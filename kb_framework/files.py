"""Stored files, by the hash of their content: what any place for them must offer, and the folder that is the default."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from kb_framework.errors import ConfigInvalid, disk_trouble

# What was staged, sent in part or kept from removal for longer than this belongs to a process that is gone.
ABANDONED_SECONDS = 24 * 3600
PART = 1 << 18
_STAGED = ".staged-"
_PINNED = ".pinned-"
_KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")
_UPLOAD = re.compile(r"[0-9a-f-]{36}")


class Staged(NamedTuple):
    """A file that is stored durably, but not yet in its place."""

    key: str
    place: str


class Files(Protocol):
    """Writing is in two steps, so that a file is published by the transaction that refers to it and never swept away unseen.

    What cannot be stored or read because of the storage itself raises `StoreUnusable`, and then nothing has changed.
    """

    def stage(self, data: bytes) -> Staged:
        """Write data durably to a temporary place."""
        ...

    def stage_parts(self, parts: Iterable[bytes]) -> Staged:
        """The same for data that comes in parts; they are never all in memory."""
        ...

    def publish(self, staged: Staged) -> None:
        """Put a staged file in its place, inside the write transaction that refers to it."""
        ...

    def discard(self, staged: Staged) -> None:
        """Throw away what was staged; nothing where it was published."""
        ...

    def size(self, key: str) -> int | None:
        """How many bytes a file has; None if it is not there."""
        ...

    def parts(self, key: str) -> Iterator[bytes]:
        """A file's content; `FileNotFoundError` if it is not there."""
        ...

    def remove(self, key: str) -> None:
        """Delete a file; a missing one is fine. `OSError` if this one cannot be deleted."""
        ...

    def remove_all(self, keys: Collection[str]) -> None:
        """The same for many, in as few steps as the storage allows. After an error any number of them may be gone."""
        ...

    def set_aside(self, keys: Iterable[str]) -> str:
        """Move files out of the storage to where a person can look at them; where that is."""
        ...

    def pinned(self) -> AbstractContextManager[None]:
        """Within it files wait to be removed, for whoever reads those of a moment.

        Whoever enters it before the transaction that names the files finds them, since who removes a file looks at
        `is_pinned` after the transaction that made the file superfluous.
        """
        ...

    def is_pinned(self) -> bool:
        """Whether somebody, in any process, reads the files of a moment."""
        ...

    def remove_abandoned(self, waiting: Collection[str] = ()) -> None:
        """Delete what a killed process staged and never published, and parts of uploads that nobody waits for."""
        ...

    def keys(self) -> set[str]:
        """All files that are in their place."""
        ...

    def put_part(self, upload_id: str, offset: int, data: bytes) -> None:
        """Keep a part of an upload that is under way."""
        ...

    def uploaded(self, upload_id: str) -> list[tuple[int, int]]:
        """The parts that have arrived, in order: where each begins, and its size."""
        ...

    def upload_parts(self, upload_id: str) -> Iterator[bytes]:
        """What has arrived of an upload, in order."""
        ...

    def remove_upload(self, upload_id: str) -> None: ...


def open_files(url: str | None, data_dir: Path) -> Files:
    """The storage that KB_FILES_URL names; without it, a folder of the data folder."""
    if url is None:
        return LocalFiles(data_dir / "files")
    if url.startswith("file:///"):
        return LocalFiles(Path(unquote(url.removeprefix("file://"))))
    if url.startswith("s3://"):
        from kb_framework.s3 import S3Files

        return S3Files(url)
    raise ConfigInvalid(
        "KB_FILES_URL: this kind of address is not known", hint="s3://BUCKET/PREFIX?endpoint=https://HOST, or file:///FOLDER"
    )


def checked_key(key: str) -> str:
    """Keys are made here and nowhere else: anything else is refused."""
    if not _KEY.fullmatch(key):
        raise ValueError("not a file key")
    return key


def key_of(digest: str) -> str:
    return f"{digest[:2]}/{digest}"


def checked_upload(upload_id: str) -> str:
    if not _UPLOAD.fullmatch(upload_id):
        raise ValueError("not an upload")
    return upload_id


class LocalFiles:
    """One folder of this machine, or one that several machines share."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stage(self, data: bytes) -> Staged:
        return self.stage_parts([data])

    def stage_parts(self, parts: Iterable[bytes]) -> Staged:
        digest = hashlib.sha256()

        def counted() -> Iterator[bytes]:
            for part in parts:
                digest.update(part)
                yield part

        path = self._written(self.root, counted())
        return Staged(key_of(digest.hexdigest()), str(path))

    def _written(self, folder: Path, parts: Iterable[bytes]) -> Path:
        """A temporary file with this content, durable."""
        with _disk_explained():
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_STAGED, dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    for part in parts:
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                # Half a file on a full disk would keep it full.
                Path(name).unlink()
                raise
        return Path(name)

    def publish(self, staged: Staged) -> None:
        target, source = self.path(staged.key), Path(staged.place)
        if target.exists():
            source.unlink(missing_ok=True)
            return
        with _disk_explained():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)

    def discard(self, staged: Staged) -> None:
        Path(staged.place).unlink(missing_ok=True)

    def path(self, key: str) -> Path:
        """Where a key's file is."""
        return self.root / checked_key(key)

    def find(self, key: str) -> Path | None:
        """A key's file if it is there: a file of its own, no link to somewhere else."""
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
        self.root.mkdir(parents=True, exist_ok=True)
        marker = self.root / f"{_PINNED}{uuid.uuid4()}"
        marker.touch()
        try:
            yield
        finally:
            marker.unlink(missing_ok=True)

    def is_pinned(self) -> bool:
        return any(not _is_old(path) for path in self.root.glob(f"{_PINNED}*"))

    def remove_abandoned(self, waiting: Collection[str] = ()) -> None:
        for pattern in (f"{_STAGED}*", f"{_PINNED}*"):
            for path in filter(_is_old, self.root.glob(pattern)):
                with contextlib.suppress(OSError):
                    path.unlink()
        for folder in filter(_is_old, self._uploads.glob("*")):
            if folder.name not in waiting:
                shutil.rmtree(folder, ignore_errors=True)

    def keys(self) -> set[str]:
        return {f"{path.parent.name}/{path.name}" for path in self.root.glob("??/*") if len(path.name) == 64}

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
