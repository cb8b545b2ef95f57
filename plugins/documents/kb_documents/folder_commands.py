"""Commands: add, sync, watch."""

from __future__ import annotations

import gc
import glob
import os
import stat
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kb_documents.folders import INSIDE, LARGE, File, Listing, list_folder, stat_file, together
from kb_framework.console import STDIN, Cli
from kb_framework.csv import CommaList, CommaListOrNone
from kb_framework.errors import ConfigInvalid, EngineError, InvalidInput

Flag = Parameter(negative=())
Force = Annotated[bool, Parameter(name=["--force", "-f"], negative=())]
STATES = ("added", "updated", "unchanged", "failed")


def add(
    *paths: str,
    tags: CommaListOrNone = None,
    type: str | None = None,
    title: str | None = None,
    include: CommaList = (),
    exclude: CommaList = (),
    retry: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Add files and folders (with all that is in them), or standard input.

    What is already there and unchanged is not read again; a file that changed updates its document, whose unchanged
    chunks keep their ids. What fails is listed with its reason and does not stop the rest. Interrupted, the same command
    goes on where it was. Hidden files, and what .gitignore or .kbignore files name, are left out.

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

    Examples
    --------
    kb add ~/notes paper.pdf --tags mine
    kb add ~/papers --include "*.pdf,*.epub"
    kb add - --title "From a pipe" < minutes.txt
    """
    if not paths:
        raise ConfigInvalid("nothing to add: give files, folders, or - for standard input")
    listing = _collect(paths, include, exclude)
    if title and len(listing.files) != 1:
        raise ConfigInvalid("--title fits one file only")
    outcomes = _send(cli, listing, _compared(cli, listing, retry=retry), {"tags": tags, "doc_type": type, "title": title})
    return _report(cli, outcomes, {})


def sync(
    folder: Path,
    *,
    tags: CommaListOrNone = None,
    type: str | None = None,
    include: CommaList = (),
    exclude: CommaList = (),
    keep: Annotated[bool, Flag] = False,
    force: Force = False,
    retry: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Keep in step with a folder: add what is new, update what changed, remove what vanished, follow what moved.

    Removal passes the same safety threshold as any bulk deletion. A folder that is missing, unreadable or suddenly empty
    is never taken to mean that everything was deleted. A file that is merely left out by a pattern is kept.

    Parameters
    ----------
    folder
        The folder.
    tags
        Tags for everything added, comma-separated.
    type
        The document type; "document" by default.
    include
        Only files that match one of these patterns, e.g. "*.md,docs/".
    exclude
        No files that match one of these patterns.
    keep
        Do not remove anything.
    force
        Remove although the safety threshold is exceeded, or the folder is empty.
    retry
        Read again what could not be read before and is the same since.

    Examples
    --------
    kb sync ~/notes --tags mine
    kb sync ~/notes --exclude "drafts/,*.tmp" --keep
    """
    fields = {"tags": tags, "doc_type": type}
    outcomes, removal = _sync_once(cli, folder, fields, include, exclude, keep=keep, force=force, retry=retry)
    return _report(cli, outcomes, removal)


def watch(
    folder: Path,
    *,
    tags: CommaListOrNone = None,
    type: str | None = None,
    include: CommaList = (),
    exclude: CommaList = (),
    keep: Annotated[bool, Flag] = False,
    once: Annotated[bool, Parameter(negative=(), show=False)] = False,
    cli: Cli,
) -> int:
    """Stay in step with a folder while it changes, until interrupted. The same as `kb sync` after every change.

    Parameters
    ----------
    folder
        The folder.
    tags
        Tags for everything added, comma-separated.
    type
        The document type; "document" by default.
    include
        Only files that match one of these patterns.
    exclude
        No files that match one of these patterns.
    keep
        Do not remove anything.

    Examples
    --------
    kb watch ~/notes --tags mine
    """
    from watchfiles import watch as changes

    fields = {"tags": tags, "doc_type": type}
    # What went wrong is told once, and again when it is about something else.
    told: set[tuple[str, str]] = set()

    def synchronise() -> None:
        nonlocal told
        try:
            outcomes, removal = _sync_once(cli, folder, fields, include, exclude, keep=keep)
        except EngineError as error:
            # Too much vanished at once: say so, and go on watching; nothing was removed.
            cli.say(f"kb: {error.message}")
            return
        known, told = told, {(item["path"], item["reason"]) for item in outcomes if item["state"] == "failed"}
        news = [item for item in outcomes if (item["path"], item.get("reason")) not in known]
        if any(item["state"] != "unchanged" for item in news) or removal.get("removed") or removal.get("moved"):
            _report(cli, news, removal)
            sys.stdout.flush()

    synchronise()
    cli.say(f"watching {folder.resolve()}; Ctrl-C ends it")
    # Editors save by writing beside and renaming: a batch is only looked at once the folder has been quiet for a moment.
    for _ in changes(folder, debounce=1600, step=200, raise_interrupt=True, yield_on_timeout=False):
        synchronise()
        if once:
            return 0
    return 0


def _collect(paths: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> Listing:
    """Every file with the path it is known by: its name, or for a folder's file the way from that folder."""
    found = Listing()
    for given in paths:
        if given == STDIN:
            found.files.append(File(None, "stdin.md"))
            continue
        pattern = str(Path(given).expanduser())
        matches = [pattern] if os.path.lexists(pattern) else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
        if not matches:
            raise InvalidInput(f"there is no file or folder {given!r}")
        for match in map(Path, matches):
            if match.is_dir():
                inside = list_folder(match, include, exclude)
                found.files += inside.files
                found.unreadable |= inside.unreadable
            else:
                _add_file(found, match)
    return found


def _add_file(listing: Listing, place: Path) -> None:
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            # Reading a pipe waits for somebody who writes.
            raise OSError("it is not a regular file")
        listing.files.append(stat_file(place.resolve(), place.name))
    except OSError as error:
        listing.unreadable[place.as_posix()] = error.strerror or str(error)


def _compared(cli: Cli, listing: Listing, root: Path | None = None, *, retry: bool = False) -> dict[str, Any]:
    """What the engine wants of a listing, and what it does not want to see again, with the reason."""
    known = [file for file in listing.files if file.source]
    described = [{"source": file.source, "size": file.size, "modified_ns": file.modified_ns} for file in known]
    answer = cli.engine.compare_sources(described, root.resolve().as_posix() if root else None, retry=retry or None)
    wanted = {known[place].source for place in answer["wanted"]}
    return {
        **answer,
        "files": [file for file in listing.files if file.source is None or file.source in wanted],
        "refused": {known[item["place"]].source: item for item in answer["refused"]},
    }


def _sync_once(
    cli: Cli,
    folder: Path,
    fields: dict[str, Any],
    include: Sequence[str],
    exclude: Sequence[str],
    *,
    keep: bool,
    force: bool = False,
    retry: bool = False,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What became of the files, and of what vanished."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder that can be read; nothing was changed")
    listing = list_folder(folder, include, exclude)
    if folder.resolve().as_posix() in listing.unreadable:
        raise InvalidInput(f"{folder} cannot be read ({listing.unreadable[folder.resolve().as_posix()]}); nothing was changed")
    compared = _compared(cli, listing, folder, retry=retry)
    outcomes = _send(cli, listing, compared, fields)
    # What was sent may be an archive or a mail that no longer holds what it held.
    vanished = _compared(cli, listing, folder)["vanished"] if compared["files"] else compared["vanished"]
    gone = [item["source"] for item in vanished if _is_gone(listing, item["source"])]
    if keep or not gone:
        return outcomes, {}
    if not listing.files and not force:
        raise InvalidInput(
            f"{folder} holds no files any more, though {len(gone)} came from it; nothing was removed",
            hint="is its disk mounted? --force removes the documents",
        )
    return outcomes, cli.engine.forget_sources(gone, force=force or None)


def _is_gone(listing: Listing, source: str) -> bool:
    """Whether a file that the engine misses is not there any more, or is no longer inside another that is."""
    outer, inside, _ = source.partition(INSIDE)
    return not listing.could_not_see(outer) and (not os.path.lexists(outer) or (bool(inside) and listing.has(outer)))


def _send(cli: Cli, listing: Listing, compared: dict[str, Any], fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Upload the wanted files, several at a time; what each came to."""
    files: list[File] = compared["files"]
    if files:
        # Commands end before their garbage matters; this one may go on for hours. What is there by now is there to stay.
        gc.freeze()
        gc.enable()
    wanted = {file.source for file in files}
    outcomes = [
        _refused_before(file, before) if (before := compared["refused"].get(file.source)) else _unchanged(file)
        for file in listing.files
        if file.source not in wanted
    ]
    outcomes += [{"path": place, "state": "failed", "reason": reason} for place, reason in listing.unreadable.items()]
    limit = compared["max_file_bytes"]
    # Small files go several at a time; of the large ones only one is under way.
    one_large_file = threading.Lock()

    def send(files: list[File]) -> list[dict[str, Any]]:
        if files[0].size <= LARGE:
            return _send_together(cli, files, fields, limit)
        with one_large_file:
            return [_send_large(cli, files[0], fields, limit)]

    with ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 1) as pool:
        jobs = [pool.submit(send, group) for group in together(files, lambda file: file.size)]
        try:
            arriving = (item for job in as_completed(jobs) for item in job.result())
            with cli.progress(files, "adding", arriving) as done:
                outcomes += done
        except BaseException:
            _cancel(jobs)
            raise
    return sorted(outcomes, key=lambda item: item["path"])


def _cancel(jobs: Iterable[Future[Any]]) -> None:
    for job in jobs:
        job.cancel()


def _send_together(cli: Cli, files: list[File], fields: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    failed: list[dict[str, Any]] = []
    read: list[tuple[File, bytes]] = []
    for file in files:
        try:
            data = file.place.read_bytes() if file.place else sys.stdin.buffer.read() if sys.stdin else b""
        except OSError as error:
            failed.append(_failed(file, error.strerror or str(error)))
            continue
        if len(data) > limit:
            failed.append(_too_large(file, len(data), limit))
        else:
            read.append((file, data))
    if not read:
        return failed
    try:
        answers = cli.engine.add_files([(Path(file.shown).name, data, {**_known(file), **fields}) for file, data in read])
    except EngineError as error:
        if error.http_status >= 500:
            raise
        if len(read) > 1:
            # Something is wrong with one of them; each alone is told so.
            return failed + [outcome for file, _ in read for outcome in _send_together(cli, [file], fields, limit)]
        return [*failed, _failed(read[0][0], error.message)]
    return failed + [_outcome(file, answer) for (file, _), answer in zip(read, answers, strict=True)]


def _send_large(cli: Cli, file: File, fields: dict[str, Any], limit: int) -> dict[str, Any]:
    """Upload a file part by part: it is held in memory once, where it is read, and not by whoever sends it."""
    if file.size > limit:
        return _too_large(file, file.size, limit)
    assert file.place is not None
    try:
        upload = cli.engine.start_upload(Path(file.shown).name, **_known(file), **fields)
        with file.place.open("rb") as content:
            while part := content.read(LARGE):
                upload = cli.engine.append_upload(upload["upload_id"], upload["received"], part)
        return _outcome(file, {"response": cli.engine.finish_upload(upload["upload_id"]), "error": None})
    except OSError as error:
        return _failed(file, error.strerror or str(error))
    except EngineError as error:
        if error.http_status >= 500:
            raise
        return _failed(file, error.message, job_id=error.details.get("job_id"))


def _known(file: File) -> dict[str, Any]:
    source = {"source": file.source, "modified_ns": file.modified_ns} if file.place else {}
    return {"path": file.shown, **source}


def _too_large(file: File, size: int, limit: int) -> dict[str, Any]:
    return _failed(file, f"{size} bytes; at most {limit} (KB_MAX_FILE_BYTES)")


def _unchanged(file: File) -> dict[str, Any]:
    return {"path": file.shown, "state": "unchanged"}


def _refused_before(file: File, before: dict[str, Any]) -> dict[str, Any]:
    return _failed(file, before["reason"], job_id=before["job_id"], read=False)


def _failed(file: File, reason: str, **more: Any) -> dict[str, Any]:
    return {"path": file.shown, "state": "failed", "reason": reason, **more}


def _outcome(file: File, answer: dict[str, Any]) -> dict[str, Any]:
    error, added = answer["error"], answer["response"]
    if error:
        return _failed(file, error["message"], job_id=error.get("job_id"))
    outcome = {"path": file.shown, "state": added["status"], "document_id": added["document"]["id"]}
    return outcome | ({"attachments": added["attachments"]} if added["attachments"] else {})


def _report(cli: Cli, outcomes: list[dict[str, Any]], removal: dict[str, Any]) -> int:
    counts = {state: sum(item["state"] == state for item in outcomes) for state in STATES}
    inside = [part for item in outcomes for part in item.get("attachments", ())]
    if removal:
        # A file that moved was found unchanged at its new place.
        counts["unchanged"] = max(0, counts["unchanged"] - removal["moved"])
        counts |= {"moved": removal["moved"], "removed": removal["removed"]}
        counts["failed"] += removal["failed"]
    if cli.json:
        cli.result({**counts, "files": outcomes, "removal_errors": removal.get("errors", [])})
    else:
        for item in (item for item in outcomes if item["state"] == "failed"):
            cli.say(f"failed: {item['path']}: {item['reason']}")
        for part in (part for part in inside if part["status"] == "failed"):
            cli.say(f"failed: {part['path']}: {part['reason']}")
        for item in removal.get("errors", []):
            cli.say(f"not removed: document {item['document_id']}: {item['error']}")
        if before := sum(not item.get("read", True) for item in outcomes):
            cli.say(f"{before} of these could not be read before either and are the same since: --retry reads them again")
        files_inside = f" ({len(inside)} files inside them)" if inside else ""
        cli.print(", ".join(f"{count} {state}" for state, count in counts.items()) + files_inside)
    return 1 if counts["failed"] else 0
