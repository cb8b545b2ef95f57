"""Commands: open what was found."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from kb_documents.api import printable, real_path

from kb_framework.api.cli import Cli, harmless, interactive
from kb_framework.errors import NotFound
from kb_search.last_search import recall
from kb_search.render import place_of

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LINE = re.compile(r":(\d+)$")
# Files that an editor shows as they are; whatever else is left to the desktop.
_TEXT = {
    ".md",
    ".markdown",
    ".txt",
    ".rst",
    ".org",
    ".csv",
    ".tsv",
    ".json",
    ".py",
    ".log",
    ".toml",
    ".yaml",
    ".yml",
    ".html",
}
# Editors that take the line as +N; others are only given the file.
_TAKES_LINE = {"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "micro", "joe", "less"}


def open_hit(
    hit: str = "1",
    *,
    print: Annotated[bool, Parameter(name="--print", negative=())] = False,
    cli: Cli,
) -> None:
    """Open a hit of the last search: a file in $EDITOR or its usual program, a note in $PAGER.

    Without a terminal the path is printed instead.

    Parameters
    ----------
    hit
        The number of a hit of the last search, a chunk's id, doc:ID for a document, or a document's path or title.
    print
        Print the path, and open nothing.

    Examples
    --------
    kb open 1
    """
    place = _find(cli, hit)
    path = _source(cli, place)
    if cli.json:
        cli.result({**place, "path": printable(path) if path else None})
    elif print or not (sys.stdout.isatty() and interactive()):
        cli.print(harmless(printable(path) if path else place_of(place)))
    elif path is None:
        _show_text(cli, place)
    else:
        subprocess.run(_opener(path, _LINE.search(place_of(place))), check=False)


def _find(cli: Cli, hit: str) -> dict[str, Any]:
    last = recall(cli.bootstrap.data_dir)
    if _UUID.fullmatch(hit):
        known = next((item for item in last if item["chunk_id"] == hit.lower()), None)
        return known or cli.engine.find_chunk(hit)
    if hit.startswith("doc:") and hit[4:].isdigit():
        return _place(cli.engine.get_document(int(hit[4:])))
    if not hit.isdigit():
        return _place(cli.engine.find_document(hit))
    known = next((item for item in last if item["rank"] == int(hit)), None)
    if known is None:
        raise NotFound(
            f"the last search has no hit {hit}",
            hint="kb search finds something; kb open takes the number of a hit",
        )
    return known


def _place(document: dict[str, Any]) -> dict[str, Any]:
    place = document["path"] or f"document/{document['id']}"
    return {
        "doc_id": document["id"],
        "doc_path": document["path"],
        "title": document["title"],
        "citation": place,
    }


def _source(cli: Cli, place: dict[str, Any]) -> Path | None:
    """The file that the document was read from, if it is on this machine."""
    sources = cli.engine.get_sources(place["doc_id"])["data"] if place["doc_path"] else []
    files = [Path(real_path(item["source"])) for item in sources]
    return next((path for path in files if path.is_absolute() and path.exists()), None)


def _opener(path: Path, line: re.Match[str] | None) -> list[str]:
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if path.suffix.lower() in _TEXT and editor:
        at = [f"+{line[1]}"] if line and Path(editor[0]).name in _TAKES_LINE else []
        return [*editor, *at, str(path)]
    desktop = "open" if sys.platform == "darwin" else "xdg-open"
    if shutil.which(desktop) and (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return [desktop, str(path)]
    return [*_pager(), str(path)]


def _pager() -> list[str]:
    return shlex.split(os.environ.get("PAGER") or "") or ["less" if shutil.which("less") else "cat"]


def _show_text(cli: Cli, place: dict[str, Any]) -> None:
    """A document without a file here: what was read of it."""
    text = "\n\n".join(
        chunk["content"] for chunk in cli.engine.get_document_chunks(place["doc_id"])["data"]
    )
    shown = "".join(
        character for character in text if character.isprintable() or character in "\n\t"
    )
    subprocess.run(
        _pager(),
        input=f"{harmless(place['title'])}\n\n{shown}\n",
        text=True,
        encoding="utf-8",
        check=False,
    )
