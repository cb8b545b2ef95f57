"""What the engine wants of the files that a command lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kb_documents.filenames import printable, source_name
from kb_documents.folders import Listing, list_folder, within
from kb_documents.sending import LEFT_OUT
from kb_documents.skip_rules import EMPTY, kind_by_name
from kb_framework.api.cli import Cli
from kb_framework.errors import InvalidInput


def list_files(
    cli: Cli, folder: Path, include: Sequence[str], exclude: Sequence[str], everything: bool
) -> Listing:
    """Return what a folder holds, without the folders of this knowledge base itself."""
    refuse_own(cli, folder)
    return list_folder(folder, include, exclude, everything=everything, never=_own_folders(cli))


def _own_folders(cli: Cli) -> list[Path]:
    """Return the folders that hold this knowledge base itself."""
    found = [cli.bootstrap.data_dir]
    if not cli.bootstrap.nothing_else:
        from kb_framework.api.opening import load_settings

        url = load_settings(cli.bootstrap).host.files_url or ""
        found += [Path(unquote(url.removeprefix("file://")))] if url.startswith("file://") else []
    return found


def refuse_own(cli: Cli, place: Path) -> None:
    """Raise for a place in the folders of this knowledge base itself."""
    if own := within(place, _own_folders(cli)):
        where = printable(place)
        raise InvalidInput(
            f"{where} is in the data folder of kb ({own}), which is never read as content; nothing was changed"
        )


def compare(cli: Cli, listing: Listing, root: Path | None = None, **options: Any) -> dict[str, Any]:
    """Return what the engine wants of a listing, and what it does not want to see again, with the reason."""
    known = [file for file in listing.files if file.source]
    described = [
        {
            "source": file.source,
            "size": file.size,
            "modified_ns": file.modified_ns,
            "stamp": file.stamp,
        }
        for file in known
    ]
    chosen = {name: value or None for name, value in options.items()}
    answer = cli.engine.compare_sources(described, root_name(root) if root else None, **chosen)
    wanted = {known[place].source for place in answer["wanted"]}
    left_out = {known[item["place"]].source: item["kind"] for item in answer["left_out"]}
    # Without opening them: what names and sizes say. A file that a person named is looked into.
    for file in (file for file in known if file.source in wanted and not file.named):
        if kind := EMPTY if file.size == 0 else kind_by_name(file.shown, answer["reads"]):
            left_out[file.source] = kind
            wanted.discard(file.source)
    return {
        **answer,
        "files": [file for file in listing.files if file.source is None or file.source in wanted],
        "refused": {known[item["place"]].source: item for item in answer["refused"]},
        LEFT_OUT: left_out,
    }


def root_name(root: Path) -> str:
    """Return what the sources of a folder's files begin with, without the slash."""
    return source_name(f"{root.resolve().as_posix()}/").rstrip("/") or "/"
