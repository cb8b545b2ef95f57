"""Listing a folder: the files to read in it, those left out and why, and what could not be looked at."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from kb_documents.filenames import INSIDE, printable, real_path, source_name
from kb_documents.globs import Rules, rule_of
from kb_documents.skip_rules import (
    DATA,
    HIDDEN,
    IGNORED,
    JUNK,
    LINK,
    SECRET,
    SPECIAL,
    is_junk_file,
    is_junk_folder,
    is_secret_name,
)
from kb_framework.errors import InvalidInput

__all__ = [
    "INSIDE",
    "LARGE",
    "File",
    "Listing",
    "list_folder",
    "open_file",
    "stat_file",
    "together",
    "within",
]

IGNORE_FILES = (".gitignore", ".kbignore")
_IGNORE_BYTES = 1_000_000
# Of files larger than this only one is held in memory.
LARGE = 4_000_000
# What is sent, made ready and written together: enough to share the cost of a request and of a commit, few enough that
# even files which take all the time that reading may take are answered in time.
_TOGETHER = 8
_TOGETHER_BYTES = 1_000_000

T = TypeVar("T")


class File(NamedTuple):
    """A file to add: the text it is known by (None: standard input), the path to show, and its state."""

    source: str | None
    shown: str
    size: int = 0
    modified_ns: int = 0
    # Named by a person, rather than found in a folder.
    named: bool = False
    # Tells files of equal size and time apart that changed places.
    stamp: str = ""
    # What came from standard input.
    content: bytes = b""

    @property
    def place(self) -> Path | None:
        return Path(real_path(self.source)) if self.source else None


@dataclass(slots=True)
class Listing:
    files: list[File] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    # By reason, the paths of what was left out; a folder counts as one and ends in a slash.
    left_out: dict[str, list[str]] = field(default_factory=dict)
    # Whether private keys are to be added like any other file.
    everything: bool = False

    def leave_out(self, reason: str, shown: str) -> None:
        self.left_out.setdefault(reason, []).append(shown)

    def could_not_see(self, source: str) -> bool:
        """Whether a file may still be there, behind something that could not be read."""
        return any(source == place or source.startswith(place + "/") for place in self.unreadable)

    def has(self, source: str) -> bool:
        return any(file.source == source for file in self.files)

    def extend(self, other: Listing) -> None:
        self.files += other.files
        self.unreadable |= other.unreadable
        for reason, places in other.left_out.items():
            self.left_out.setdefault(reason, []).extend(places)


def stat_file(place: Path, shown: str) -> File:
    """Describe a file that was named; `place` has no links in it."""
    state = place.lstat()
    return File(
        source_name(place), _shown(shown), state.st_size, state.st_mtime_ns, stamp=_stamp(state)
    )


def _stamp(state: os.stat_result) -> str:
    return f"{state.st_ino}-{state.st_ctime_ns}"


def _shown(path: str) -> str:
    """A path as people write it: composed letters (macOS decomposes them), nothing that a terminal would obey."""
    text = printable(path)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def list_folder(
    root: Path,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    everything: bool = False,
    never: Iterable[Path] = (),
) -> Listing:
    """List every file below a folder, sorted.

    Links are not followed: what they lead to inside the folder is found there, and nothing outside is read. Left out are hidden
    files, those that ignore files name, private keys and credentials, dependencies and caches; with `everything` they are listed
    too. The folders `never` are not looked into.
    """
    root = root.resolve()
    # Places are texts here: a path object for each of many files would take longer than looking at them.
    begin = root.as_posix().rstrip("/") + "/"
    walk = _Walk(begin, root.name, _spec(include), _spec(exclude), everything, _identities(never))
    # Folders by their way from the root, with the rules that hold in them.
    waiting: list[tuple[str, list[tuple[str, Rules]]]] = [("", [])]
    while waiting:
        folder, rules = waiting.pop()
        waiting += walk.folder(folder, rules)
    walk.listing.files.sort(key=lambda file: file.shown)
    return walk.listing


class _Walk:
    def __init__(
        self,
        begin: str,
        name: str,
        wanted: Rules | None,
        unwanted: Rules | None,
        everything: bool,
        never: frozenset[tuple[int, int]],
    ) -> None:
        self.listing = Listing(everything=everything)
        self._begin = begin
        self._name = name
        self._wanted = wanted
        self._unwanted = unwanted
        self._everything = everything
        self._never = never

    def folder(
        self, folder: str, rules: list[tuple[str, Rules]]
    ) -> list[tuple[str, list[tuple[str, Rules]]]]:
        """List one folder; the folders in it."""
        place = self._begin + folder
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            state = Path(place).stat()
        except OSError as error:
            self.listing.unreadable[source_name(place).rstrip("/") or "/"] = error.strerror or str(
                error
            )
            return []
        names = {entry.name for entry in entries}
        if (state.st_dev, state.st_ino) in self._never:
            self._leave_out(DATA, folder)
            return []
        # The folder that was asked for is read, whatever it is called.
        if (
            folder
            and not self._everything
            and is_junk_folder(folder[:-1].rpartition("/")[2], place, names)
        ):
            self._leave_out(JUNK, folder)
            return []
        if not self._everything:
            rules = [*rules, *_ignore_rules(self._begin, folder, names)]
        inner = []
        for entry in entries:
            try:
                if self._entry(entry, folder, rules):
                    inner.append((folder + entry.name + "/", rules))
            except OSError as error:
                self.listing.unreadable[source_name(place + entry.name)] = error.strerror or str(
                    error
                )
        return inner

    def _entry(self, entry: os.DirEntry[str], folder: str, rules: list[tuple[str, Rules]]) -> bool:
        """List a file, or leave it out; whether it is a folder to look into."""
        inside, is_folder = folder + entry.name, entry.is_dir(follow_symlinks=False)
        if self._unwanted is not None and self._unwanted.decide(inside):
            return False
        if not is_folder and self._wanted is not None and not self._wanted.decide(inside):
            return False
        if reason := self._reason(entry, folder, inside, rules, is_folder):
            self._leave_out(reason, inside + "/" * is_folder)
            return False
        if not is_folder:
            state = entry.stat(follow_symlinks=False)
            source, shown = source_name(self._begin + inside), _shown(f"{self._name}/{inside}")
            self.listing.files.append(
                File(source, shown, state.st_size, state.st_mtime_ns, stamp=_stamp(state))
            )
        return is_folder

    def _reason(
        self,
        entry: os.DirEntry[str],
        folder: str,
        inside: str,
        rules: list[tuple[str, Rules]],
        is_folder: bool,
    ) -> str | None:
        """Why something is left out."""
        if not self._everything:
            if entry.name.startswith("."):
                return HIDDEN
            if _ignored(inside, rules, is_folder):
                return IGNORED
        if is_folder:
            return None
        if entry.is_symlink():
            return LINK
        if not entry.is_file(follow_symlinks=False):
            return SPECIAL
        if self._everything:
            return None
        if is_secret_name(entry.name, (self._begin + folder).rstrip("/").rpartition("/")[2]):
            return SECRET
        return JUNK if is_junk_file(entry.name) else None

    def _leave_out(self, reason: str, inside: str) -> None:
        self.listing.leave_out(reason, _shown(f"{self._name}/{inside}"))


def open_file(place: Path) -> BinaryIO:
    """Open a regular file by a path without links, so that one which appears in it meanwhile leads nowhere; else OSError."""
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_BINARY", 0)
    )
    if os.open not in os.supports_dir_fd:
        opened = os.open(place, flags)
    else:
        folder = os.open(place.anchor, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in place.parts[1:-1]:
                inner = os.open(
                    name,
                    getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW,
                    dir_fd=folder,
                )
                os.close(folder)
                folder = inner
            opened = os.open(place.name, flags, dir_fd=folder)
        finally:
            os.close(folder)
    file = os.fdopen(opened, "rb")
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        file.close()
        # Reading a pipe waits for somebody who writes.
        raise OSError("it is not a regular file")
    return file


def within(place: Path, folders: Iterable[Path]) -> Path | None:
    """Return the folder among `folders` that a place is or lies in."""
    identities = {
        (state.st_dev, state.st_ino): folder for folder in folders if (state := _state(folder))
    }
    resolved = place.resolve()
    states = (
        (state.st_dev, state.st_ino)
        for parent in (resolved, *resolved.parents)
        if (state := _state(parent))
    )
    return next((identities[identity] for identity in states if identity in identities), None)


def _identities(folders: Iterable[Path]) -> frozenset[tuple[int, int]]:
    return frozenset(
        (state.st_dev, state.st_ino) for folder in folders if (state := _state(folder))
    )


def _state(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except OSError:
        return None


def together(items: Sequence[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in order, in groups of a bounded number and size; what is larger than that stands alone."""
    group: list[T] = []
    total = 0
    for item in items:
        if group and (len(group) == _TOGETHER or total + size(item) > _TOGETHER_BYTES):
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group


def _spec(patterns: Sequence[str]) -> Rules | None:
    """Return patterns that were typed; one that can match nothing is refused."""
    for pattern in patterns:
        if rule_of(pattern) is None:
            raise InvalidInput(f"{pattern!r} is not a pattern as in .gitignore files")
    return Rules(patterns, contents=True) if patterns else None


def _ignore_rules(begin: str, folder: str, names: set[str]) -> list[tuple[str, Rules]]:
    found = []
    for name in IGNORE_FILES:
        if name in names:
            try:
                with open_file(Path(begin + folder + name)) as file:
                    spec = Rules(file.read(_IGNORE_BYTES).decode(errors="replace").splitlines())
            except OSError:
                continue
            found += [(folder, spec)] if spec else []
    return found


def _ignored(inside: str, rules: list[tuple[str, Rules]], is_folder: bool) -> bool:
    """The rule nearest to a file decides, as with git."""
    for folder, spec in reversed(rules):
        decision = spec.decide(inside[len(folder) :] + ("/" if is_folder else ""))
        if decision is not None:
            return decision
    return False
