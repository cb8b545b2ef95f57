"""Stored files, named by the hash of their content: what every place for them offers, and which place is used."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from kb_framework.api import FileStore, resolve
from kb_framework.errors import ConfigInvalid, FilesUnreachable

# Bytes that are read from a stored file at once.
PART = 1 << 18
# The scheme of the store that is used where KB_FILES_URL is not set.
_DEFAULT_SCHEME = "file"
_KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")
_UPLOAD = re.compile(r"[0-9a-f-]{36}")
_KNOWN_ADDRESSES = "s3://BUCKET/PREFIX?endpoint=https://HOST, or file:///FOLDER"


class Staged(NamedTuple):
    """A file that is stored durably, but not yet in its place."""

    key: str
    place: str


class Files(Protocol):
    """A place for files. Writing takes two steps: the transaction that refers to a file publishes it.

    A failure of the storage itself raises `StoreUnusable`, and then nothing has changed.
    """

    def stage(self, data: bytes) -> Staged:
        """Write data durably to a temporary place."""
        ...

    def stage_parts(self, parts: Iterable[bytes]) -> Staged:
        """Write data that comes in parts to a temporary place, without keeping all of it in memory."""
        ...

    def publish(self, *staged: Staged) -> None:
        """Put staged files in their places durably, inside the write transaction that refers to them.

        An existing file is replaced: its content may be damaged.
        """
        ...

    def discard(self, staged: Staged) -> None:
        """Delete a staged file; a no-op after it was published."""
        ...

    def size(self, key: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        ...

    def parts(self, key: str) -> Iterator[bytes]:
        """Yield a file's content; raise `FileNotFoundError` if it does not exist."""
        ...

    def remove(self, key: str) -> None:
        """Delete a file; a missing one is fine. Raise `OSError` if it cannot be deleted."""
        ...

    def remove_all(self, keys: Collection[str]) -> None:
        """Delete many files in as few requests as possible. After an error any of them may be gone."""
        ...

    def set_aside(self, keys: Iterable[str]) -> str:
        """Move files to a place outside the store where a person can look at them; return that place."""
        ...

    def pinned(self) -> AbstractContextManager[None]:
        """While open, deletions of stored files are deferred, so that exports and backups see a consistent set.

        Enter it before the transaction that names the files. A process that deletes files checks `is_pinned` after the
        transaction that made them superfluous.
        """
        ...

    def is_pinned(self) -> bool:
        """Return whether any process defers deletions."""
        ...

    def remove_abandoned(self, waiting: Collection[str] = ()) -> None:
        """Delete files that a killed process staged, and parts of uploads that are not in `waiting`."""
        ...

    def staged(self) -> list[str]:
        """Return the files that killed processes staged and never published."""
        ...

    def remove_staged(self) -> int:
        """Delete the files that `staged` returns; return how many there were."""
        ...

    def keys(self) -> set[str]:
        """Return the keys of all published files."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the size of every published file by key."""
        ...

    def put_part(self, upload_id: str, offset: int, data: bytes) -> None:
        """Store a part of an upload that is under way."""
        ...

    def uploaded(self, upload_id: str) -> list[tuple[int, int]]:
        """Return offset and size of the parts that have arrived, in order."""
        ...

    def upload_parts(self, upload_id: str) -> Iterator[bytes]:
        """Yield what has arrived of an upload, in order."""
        ...

    def remove_upload(self, upload_id: str) -> None:
        """Delete the parts of an upload."""
        ...

    def close(self) -> None:
        """Release what this process holds."""
        ...


class NoFiles:
    """Stands for stored files where no plugin offers a place for them: opens, and refuses every operation."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise FilesUnreachable(
                "stored files cannot be used: no active plugin stores files in folders",
                hint="kb plugins lists what is switched off",
            )

        return refuse

    def close(self) -> None:
        """A no-op: nothing is held."""


def open_files(stores: Iterable[FileStore], url: str | None, data_dir: Path) -> Files:
    """Open the place that KB_FILES_URL names; without it, the data folder."""
    scheme = url.partition("://")[0] if url else _DEFAULT_SCHEME
    found = [store for store in stores if store.scheme == scheme]
    if len(found) > 1:
        names = " and ".join(repr(store.name) for store in found)
        raise ConfigInvalid(
            f"two plugins store files at {scheme}:// addresses: {names}",
            hint="switch one of them off: kb plugins disable NAME",
        )
    if found:
        return resolve(found[0].target)(url, data_dir)
    if url is None:
        return NoFiles()  # type: ignore[return-value]
    raise unknown_address()


def unknown_address() -> ConfigInvalid:
    """Return the error for a KB_FILES_URL that no file store takes."""
    return ConfigInvalid("KB_FILES_URL: this kind of address is not known", hint=_KNOWN_ADDRESSES)


# Keys


def key_of(digest: str) -> str:
    """Return the key of the content with this SHA-256."""
    return f"{digest[:2]}/{digest}"


def checked_key(key: str) -> str:
    """Return the key; raise `ValueError` for anything that `key_of` does not make."""
    if not _KEY.fullmatch(key):
        raise ValueError("not a file key")
    return key


def checked_upload(upload_id: str) -> str:
    """Return the id of an upload; raise `ValueError` for anything else."""
    if not _UPLOAD.fullmatch(upload_id):
        raise ValueError("not an upload")
    return upload_id


class Mismatch(Exception):
    """The content of a stored file does not match its key; the message is a predicate."""


def copy_verified(files: Files, key: str, out: IO[bytes] | None = None) -> None:
    """Read a stored file, into `out` if given; raise `Mismatch` unless its SHA-256 matches its key."""
    digest, size = hashlib.sha256(), 0
    try:
        for part in files.parts(key):
            digest.update(part)
            size += len(part)
            if out is not None:
                out.write(part)
    except FileNotFoundError:
        raise Mismatch("is missing") from None
    except OSError as error:
        raise Mismatch(f"cannot be read ({error.strerror})") from None
    if digest.hexdigest() != checked_key(key)[3:]:
        raise Mismatch(f"is damaged: the SHA-256 of its {size} bytes is not its name")
