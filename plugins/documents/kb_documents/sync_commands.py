"""The commands `kb sync` and `kb folders`."""

from __future__ import annotations

import os
import platform
import shlex
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kb_documents.added_report import report
from kb_documents.comparing import compare, list_files, root_name
from kb_documents.filenames import printable, real_path
from kb_documents.folders import INSIDE, Listing
from kb_documents.sending import send
from kb_framework.api import Operation
from kb_framework.api.cli import Cli, CommaListOrNone
from kb_framework.errors import ConfigInvalid, EngineError, InvalidInput, SafetyThresholdExceeded

Flag = Parameter(negative=())
Force = Annotated[bool, Parameter(name=["--force", "-f"], negative=())]
All = Annotated[bool, Parameter(name="--all", negative=())]
# Renamed folders that one sync follows, one after the other.
_MOVES = 20


def sync(
    folder: Path | None = None,
    *,
    tags: CommaListOrNone = None,
    type: str | None = None,
    include: CommaListOrNone = None,
    exclude: CommaListOrNone = None,
    keep: Annotated[bool, Flag] = False,
    force: Force = False,
    retry: Annotated[bool, Flag] = False,
    checksum: Annotated[bool, Flag] = False,
    everything: All = False,
    verbose: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Keep in step with a folder: add new files, update changed ones, follow moved ones, hide what vanished.

    Tags, type and patterns are remembered for the folder. Without a folder, all remembered folders are updated.

    The document of a file that vanished is missing: no search finds it, and it comes back with its tags and curation as
    soon as the file does. After KB_DOCUMENTS_MISSING_DAYS it is deleted. Too much of the folder, or all of a sub-folder,
    does not become missing without --force. A file that is merely left out by a pattern is kept.

    Parameters
    ----------
    folder
        The folder; by default every folder that was synced before.
    tags
        Tags for everything added, comma-separated; "" for none.
    type
        The document type; "document" by default.
    include
        Only files that match one of these patterns, e.g. "*.md,docs/"; "" for all.
    exclude
        No files that match one of these patterns; "" for no pattern.
    keep
        Leave the documents of vanished files as they are.
    force
        Mark documents as missing although they are too large a part of the folder, or all of a sub-folder.
    retry
        Read again what could not be read before and is the same since.
    checksum
        Read every file again, instead of trusting size, times and inode.
    everything
        Also add hidden and ignored files, dependencies, caches, private keys and credentials.
    verbose
        Name what was left out.

    Examples
    --------
    kb sync ~/notes --tags mine
    kb sync ~/notes --exclude "drafts/,*.tmp" --keep
    kb sync
    """
    given = {"tags": tags, "doc_type": type, "include": include, "exclude": exclude}
    options = {
        "keep": keep,
        "force": force,
        "retry": retry,
        "checksum": checksum,
        "everything": everything,
    }
    if folder is not None:
        outcomes, removal = sync_once(cli, folder, given, **options)
        return report(cli, outcomes, removal, verbose=verbose)
    flags = {
        "--tags": tags,
        "--type": type,
        "--include": include,
        "--exclude": exclude,
        "--force": force or None,
    }
    if named := [flag for flag, value in flags.items() if value is not None]:
        raise ConfigInvalid(f"{named[0]} is for one folder: kb sync DIR {named[0]}")
    return _sync_all(cli, given, options, verbose)


def _sync_all(cli: Cli, given: dict[str, Any], options: dict[str, Any], verbose: bool) -> int:
    """Sync every remembered folder of this machine."""
    folders = _all_folders(cli)
    if not folders:
        raise ConfigInvalid("no folder was synced yet: kb sync DIR")
    mine = [folder["root"] for folder in folders if folder["host"] in (None, platform.node())]
    code = 0
    reports: list[dict[str, Any]] = []
    for root in mine:
        place = Path(real_path(root))
        cli.say(f"{printable(place)}:")
        try:
            outcomes, removal = sync_once(cli, place, given, **options)
        except InvalidInput as error:
            cli.say(
                f"kb: {error.message}; if it is gone for good: kb folders forget {shlex.quote(printable(place))}"
            )
            reports.append({"folder": root, "error": error.message})
            code = 1
            continue
        code = max(code, report(cli, outcomes, removal, verbose=verbose, reports=reports))
        if cli.json:
            reports[-1] = {"folder": root, **reports[-1]}
    if len(mine) < len(folders):
        cli.say(f"folders of other machines are left out: {len(folders) - len(mine)} (kb folders)")
    if cli.json:
        cli.result({"folders": reports})
    return code


def _all_folders(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    page = 1
    while True:
        answer = cli.engine.list_folders(page=page, per_page=100)
        found += answer["data"]
        if page >= answer["meta"]["total_pages"]:
            return found
        page += 1


def folders(cli: Cli, _: Operation[Any, Any], __: dict[str, Any]) -> None:
    found = _all_folders(cli)
    rows = [
        (
            printable(real_path(item["root"])),
            item["name"],
            ",".join(item["tags"]),
            item["doc_type"] or "",
            ",".join(item["include"]),
            ",".join(item["exclude"]),
            item["host"] or "",
        )
        for item in found
    ]
    cli.table(
        {"data": found}, rows, ("folder", "name", "tags", "type", "include", "exclude", "machine")
    )


def forget_folder(
    cli: Cli,
    operation: Operation[Any, Any],
    _: dict[str, Any],
    folder: Annotated[Path, Parameter(help="The folder.")],
) -> None:
    cli.engine.run(operation, {"root": root_name(folder)})
    cli.result({"forgotten": root_name(folder)}, f"forgot {printable(folder)}; its documents stay")


def sync_once(
    cli: Cli,
    folder: Path,
    given: dict[str, Any],
    *,
    keep: bool,
    force: bool = False,
    everything: bool = False,
    **options: bool,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the outcome of each file, and that of the vanished ones; a refusal of the latter has the key `refused`."""
    root = root_name(folder)
    moves = 0
    while True:
        if not folder.is_dir():
            raise InvalidInput(
                f"{printable(folder)} is not a folder that can be read; nothing was changed"
            )
        known = cli.engine.recall_folder(root=root)["folder"]
        chosen = {
            name: (known or {}).get(name) if value is None else value
            for name, value in given.items()
        }
        listing = list_files(
            cli, folder, chosen["include"] or (), chosen["exclude"] or (), everything
        )
        if reason := listing.unreadable.get(root):
            raise InvalidInput(
                f"{printable(folder)} cannot be read ({reason}); nothing was changed"
            )
        # Tags that are only remembered are not added again to what a person took them from.
        compared = compare(cli, listing, folder, tags=given["tags"], **options)
        if moves == _MOVES or not _follow(cli, root, compared["moved"]):
            break
        # A folder that was renamed is looked at again under its new name, with what is remembered of it.
        moves += 1
    name = _remembered(cli, root, known, given)["name"]
    if "/" in name:
        # Another folder has the same last name.
        listing.files = [
            file._replace(shown=f"{name}/{file.shown.partition('/')[2]}") for file in listing.files
        ]
        sent = {file.source for file in compared["files"]}
        compared["files"] = [file for file in listing.files if file.source in sent]
    outcomes = send(
        cli, listing, compared, {"tags": chosen["tags"], "doc_type": chosen["doc_type"]}
    )
    if compared["files"]:
        # What was sent may be an archive or a mail that no longer holds what it held.
        compared = compare(cli, listing, folder, elsewhere=True)
    gone = [
        {"source": item["source"], "reading": item["reading"]}
        for item in compared["vanished"] + compared["elsewhere"]
        if _is_gone(listing, item["source"])
    ]
    removal: dict[str, Any] = {}
    if gone and not keep:
        try:
            removal = cli.engine.forget_sources(root, gone, force=force or None)
        except EngineError as error:
            if error.code != SafetyThresholdExceeded.code:
                raise
            removal = {"refused": _refusal(folder, error.details), "details": error.details}
    elif compared["expired"] and not keep:
        removal = _expire(cli)
    return outcomes, removal


def _follow(cli: Cli, root: str, moved: list[dict[str, str]]) -> bool:
    """Let documents follow a folder that was renamed or moved; return whether there was one."""
    for item in moved:
        if not _exists(item["old"]):
            cli.engine.move_sources(root, item["old"], item["new"])
            return True
    return False


def _remembered(
    cli: Cli, root: str, known: dict[str, Any] | None, given: dict[str, Any]
) -> dict[str, Any]:
    wanted = {"host": platform.node()} | {
        name: value for name, value in given.items() if value is not None
    }
    if known is not None and wanted.items() <= known.items():
        return known
    return cli.engine.remember_folder(root, **wanted)


def _expire(cli: Cli) -> dict[str, Any]:
    """Delete documents that have been missing for too long; without the permission to delete, the server does it."""
    try:
        return cli.engine.expire_missing()
    except EngineError as error:
        if error.http_status != 403:
            raise
        return {}


def _exists(source: str) -> bool:
    """Return whether something is there, or may be there behind an error of the disk or the network."""
    try:
        os.lstat(real_path(source))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _refusal(folder: Path, details: dict[str, Any]) -> str:
    gone = f"{details['matched']} of {details['total']} documents of {details['folder']} would become missing"
    return (
        f"{gone} ({details['percent']}%); nothing was marked. "
        f"Is a disk or share not mounted? If the files are gone for good: kb sync {shlex.quote(printable(folder))} --force"
    )


def _is_gone(listing: Listing, source: str) -> bool:
    """Return whether a file that the engine misses is gone, or is no longer inside another file."""
    outer, inside, _ = source.partition(INSIDE)
    if listing.could_not_see(outer):
        return False
    place = real_path(outer)
    if not _exists(outer) or (Path(place).is_dir() and not Path(place).is_symlink()):
        return True
    return bool(inside) and listing.has(outer)
