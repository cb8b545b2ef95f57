"""Listing a folder: what to read in it, what to ignore, and what could not be looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".kbignore")
# Between a file's source and the name of a file inside it.
INSIDE = "!/"
# Of files larger than this only one is held in memory.
LARGE = 4_000_000
# What is sent, made ready and written together: enough to share the cost of a request and of a commit, few enough that
# even files which take all the time that reading may take are answered in time.
_TOGETHER = 8
_TOGETHER_BYTES = 1_000_000

T = TypeVar("T")


class File(NamedTuple):
    """A file to add: where it is (None: standard input), the path it is known by, and its state."""

    source: str | None
    shown: str
    size: int = 0
    modified_ns: int = 0

    @property
    def place(self) -> Path | None:
        return Path(self.source) if self.source else None


@dataclass(slots=True)
class Listing:
    files: list[File] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    def could_not_see(self, source: str) -> bool:
        """Whether a file may still be there, behind something that could not be read."""
        return any(source == place or source.startswith(place + "/") for place in self.unreadable)

    def has(self, source: str) -> bool:
        return any(file.source == source for file in self.files)


def stat_file(place: Path, shown: str) -> File:
    state = place.stat()
    return File(place.as_posix(), shown, state.st_size, state.st_mtime_ns)


def list_folder(root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Listing:
    """Every file below a folder, but hidden ones and those that ignore files or `exclude` leave out; sorted.

    Links to folders are not followed, so that no loop and nothing outside is read.
    """
    root = root.resolve()
    # Places are texts here: a path object for each of many files would take longer than looking at them.
    begin = root.as_posix().rstrip("/") + "/"
    wanted, unwanted = _spec(include), _spec(exclude)
    listing = Listing()
    # Folders by their way from the root, with the rules that hold in them.
    waiting: list[tuple[str, list[tuple[str, GitIgnoreSpec]]]] = [("", [])]
    while waiting:
        folder, rules = waiting.pop()
        try:
            entries = sorted(os.scandir(begin + folder), key=lambda entry: entry.name)
        except OSError as error:
            listing.unreadable[(begin + folder).rstrip("/") or "/"] = error.strerror or str(error)
            continue
        rules = [*rules, *_ignore_rules(begin, folder, {entry.name for entry in entries})]
        for entry in entries:
            inside = folder + entry.name
            if entry.name.startswith(".") or _ignored(inside, rules, entry.is_dir(follow_symlinks=False)):
                continue
            if unwanted is not None and unwanted.match_file(inside):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((inside + "/", rules))
                elif entry.is_file() and (wanted is None or wanted.match_file(inside)):
                    state = entry.stat()
                    listing.files.append(File(begin + inside, f"{root.name}/{inside}", state.st_size, state.st_mtime_ns))
            except OSError as error:
                listing.unreadable[begin + inside] = error.strerror or str(error)
    listing.files.sort(key=lambda file: file.shown)
    return listing


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


def _spec(patterns: Sequence[str]) -> GitIgnoreSpec | None:
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


def _ignore_rules(begin: str, folder: str, names: set[str]) -> list[tuple[str, GitIgnoreSpec]]:
    found = []
    for name in IGNORE_FILES:
        if name in names:
            lines = Path(begin + folder + name).read_text(encoding="utf-8", errors="replace").splitlines()
            spec = _spec(lines)
            found += [(folder, spec)] if spec is not None else []
    return found


def _ignored(inside: str, rules: list[tuple[str, GitIgnoreSpec]], is_folder: bool) -> bool:
    """The rule nearest to a file decides, as with git."""
    for folder, spec in reversed(rules):
        decision = spec.check_file(inside[len(folder) :] + ("/" if is_folder else "")).include
        if decision is not None:
            return decision
    return False
