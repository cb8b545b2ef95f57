"""The data folder is its owner's alone: files 0600, folders 0700."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OTHERS = 0o077
# What earlier versions made for everybody to read; the rest is inside these folders.
_FILES = (
    "kb.sqlite",
    "kb.sqlite-wal",
    "kb.sqlite-shm",
    "last_search.json",
    "plugins.json",
    "kb.toml",
    ".env",
    "kb.log",
    "kb.log.1",
)
_FOLDERS = ("files", "side", "models", "imports", "lost-files")


@contextmanager
def private_files() -> Iterator[None]:
    """While open, new files of this process are its user's alone; the data folder may have existed, open to others."""
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def make_private(folder: Path) -> None:
    """Take from others what they could still read in a data folder. The folder itself is as its owner made it."""
    if os.name != "posix":
        return
    for name in (*_FILES, *_FOLDERS):
        # Another user's folder, or a disk that cannot be written, stays as it is.
        with contextlib.suppress(OSError):
            path = folder / name
            mode = path.lstat().st_mode
            if mode & _OTHERS and not path.is_symlink():
                # What its owner may not write stays so.
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
