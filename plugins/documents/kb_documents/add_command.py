"""The command `kb add`."""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kb_documents.added_report import report
from kb_documents.comparing import compare, list_files, refuse_own
from kb_documents.filenames import printable, source_name
from kb_documents.folders import File, Listing, stat_file
from kb_documents.sending import IS_KEY, send
from kb_documents.skip_rules import SECRET, is_secret_name
from kb_framework.api.cli import STDIN, Cli, CommaList, CommaListOrNone
from kb_framework.errors import ConfigInvalid, InvalidInput

Flag = Parameter(negative=())
All = Annotated[bool, Parameter(name="--all", negative=())]


def add(
    *paths: str,
    tags: CommaListOrNone = None,
    type: str | None = None,
    title: str | None = None,
    include: CommaList = (),
    exclude: CommaList = (),
    retry: Annotated[bool, Flag] = False,
    everything: All = False,
    verbose: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Add files and folders, or standard input.

    Files that are there and unchanged are not read again. A file that changed updates its document; chunks that did not
    change keep their ids. A file that fails is listed with its reason and does not stop the rest. If interrupted, run the
    same command to continue.

    Left out of a folder, and counted: hidden files, what .gitignore and .kbignore files name, links, dependencies and caches
    (node_modules, virtual environments), private keys and credentials, and files without text such as images.
    Inside archives and mails, keys, credentials, dependencies and caches are left out even with --all.

    Parameters
    ----------
    paths
        Files, folders, patterns such as "notes/*.md", or - for standard input.
    tags
        Tags for everything added, comma-separated.
    type
        The document type; "document" by default.
    title
        A title, for a single file.
    include
        Only files of a folder that match one of these patterns, e.g. "*.md,docs/".
    exclude
        No files of a folder that match one of these patterns.
    retry
        Read again what could not be read before and is the same since.
    everything
        Also add hidden and ignored files, dependencies, caches, private keys and credentials.
    verbose
        Name what was left out.

    Examples
    --------
    kb add ~/notes paper.pdf --tags mine
    kb add ~/papers --include "*.pdf,*.epub"
    kb add - --title "From a pipe" < minutes.txt
    """
    if not paths:
        raise ConfigInvalid("nothing to add: give files, folders, or - for standard input")
    listing = _collect(cli, paths, include, exclude, everything)
    if title and len(listing.files) != 1:
        raise ConfigInvalid("--title fits one file only")
    outcomes = send(
        cli,
        listing,
        compare(cli, listing, retry=retry, tags=tags),
        {"tags": tags, "doc_type": type, "title": title},
    )
    return report(cli, outcomes, {}, verbose=verbose)


def _collect(
    cli: Cli, paths: Sequence[str], include: Sequence[str], exclude: Sequence[str], everything: bool
) -> Listing:
    """Every file with the path it is known by: its name, or for a folder's file the way from that folder."""
    found = Listing(everything=everything)
    for name in paths:
        if name == STDIN:
            found.files.append(File(None, "stdin.md", named=True, content=_standard_input()))
            continue
        pattern = str(Path(name).expanduser())
        matches = [pattern]
        if not os.path.lexists(pattern):
            matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
        if not matches:
            is_address = name.startswith(("http://", "https://"))
            raise InvalidInput(
                f"there is no file or folder {printable(name)!r}",
                hint="kb downloads nothing: save the page, then add its file"
                if is_address
                else None,
            )
        for match in map(Path, matches):
            if match.is_dir():
                found.extend(list_files(cli, match, include, exclude, everything))
            else:
                refuse_own(cli, match)
                _add_file(found, match, named=len(paths) == len(matches) == 1)
    return found


def _standard_input() -> bytes:
    """Read standard input before anything is sent: if it is empty, nothing is changed."""
    try:
        content = sys.stdin.buffer.read() if sys.stdin else b""
    except OSError as error:
        raise ConfigInvalid(f"standard input cannot be read: {error.strerror or error}") from None
    if not content.strip():
        raise ConfigInvalid("standard input is empty: pipe a text in, as in kb add - < FILE")
    return content


def _add_file(listing: Listing, place: Path, *, named: bool) -> None:
    """Add a file that a person named; `named` where it is the only one."""
    if not listing.everything and is_secret_name(place.name, place.absolute().parent.name):
        if named:
            listing.unreadable[source_name(place)] = IS_KEY
        else:
            listing.leave_out(SECRET, printable(place.name))
        return
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            # Reading a pipe waits for somebody who writes.
            raise OSError("it is not a regular file")
        listing.files.append(stat_file(place.resolve(), place.name)._replace(named=named))
    except OSError as error:
        listing.unreadable[source_name(place)] = error.strerror or str(error)
