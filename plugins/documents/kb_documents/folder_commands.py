"""Commands: add, sync, watch, folders."""

from __future__ import annotations

import gc
import glob
import os
import platform
import shlex
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from cyclopts import Parameter

from kb_documents.folders import (
    INSIDE,
    LARGE,
    File,
    Listing,
    list_folder,
    open_file,
    stat_file,
    together,
    within,
)
from kb_documents.skip_rules import (
    EMPTY,
    SECRET,
    counted,
    is_private_key,
    is_secret_name,
    kind_by_name,
    why_unread,
)
from kb_framework.client import given
from kb_framework.edges.cli.console import STDIN, Cli
from kb_framework.edges.cli.lists import CommaList, CommaListOrNone
from kb_framework.errors import ConfigInvalid, EngineError, InvalidInput, SafetyThresholdExceeded
from kb_framework.filenames import printable, real_path, source_name

Flag = Parameter(negative=())
Force = Annotated[bool, Parameter(name=["--force", "-f"], negative=())]
All = Annotated[bool, Parameter(name="--all", negative=())]
STATES = ("added", "updated", "unchanged", "failed")
_LEFT_OUT = "left_out"
_CONTINUES = "; the same command continues"
# Renamed folders that one sync follows, one after the other.
_MOVES = 20
# How often a watched folder is looked at that does not change or is away.
_LOOK_SECONDS = 1.0
# Files that a watch names after one change.
_LINES = 50
_IS_KEY = "it holds a private key or credentials; --all adds it"
# Keys and credentials that a warning names.
_NAMED = 5


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
    outcomes = _send(
        cli,
        listing,
        _compared(cli, listing, retry=retry, tags=tags),
        {"tags": tags, "doc_type": type, "title": title},
    )
    return _report(cli, outcomes, {}, verbose=verbose)


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
        outcomes, removal = _sync_once(cli, folder, given, **options)
        return _report(cli, outcomes, removal, verbose=verbose)
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
            outcomes, removal = _sync_once(cli, place, given, **options)
        except InvalidInput as error:
            cli.say(
                f"kb: {error.message}; if it is gone for good: kb folders forget {shlex.quote(printable(place))}"
            )
            reports.append({"folder": root, "error": error.message})
            code = 1
            continue
        code = max(code, _report(cli, outcomes, removal, verbose=verbose, reports=reports))
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


def folders(*, cli: Cli) -> None:
    """List the folders that were synced, with the options that `kb sync` uses for them.

    Examples
    --------
    kb folders
    kb folders --json
    """
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


def forget_folder(folder: Path, *, cli: Cli) -> None:
    """Forget a synced folder: `kb sync` no longer updates it. Its documents stay.

    Parameters
    ----------
    folder
        The folder.

    Examples
    --------
    kb folders forget ~/notes
    """
    cli.engine.forget_folder(_root_name(folder))
    cli.result({"forgotten": _root_name(folder)}, f"forgot {printable(folder)}; its documents stay")


def watch(
    folder: Path,
    *,
    tags: CommaListOrNone = None,
    type: str | None = None,
    include: CommaListOrNone = None,
    exclude: CommaListOrNone = None,
    keep: Annotated[bool, Flag] = False,
    everything: All = False,
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
        Leave the documents of vanished files as they are.
    everything
        Also add hidden and ignored files, dependencies, caches, private keys and credentials.

    Examples
    --------
    kb watch ~/notes --tags mine
    """
    given = {"tags": tags, "doc_type": type, "include": include, "exclude": exclude}
    # A failure is said once, and again when it is about something else.
    said: set[str] = set()

    def synchronise(report: Callable[[Cli, list[dict[str, Any]], dict[str, Any]], object]) -> None:
        nonlocal said
        try:
            outcomes, removal = _sync_once(cli, folder, given, keep=keep, everything=everything)
        except (EngineError, InvalidInput) as error:
            # Go on watching.
            outcomes, removal = [], {"refused": error.message, "details": {}}
        refused = [removal["refused"]] if "refused" in removal else []
        failures = {
            f"{item['path']}\n{item['reason']}" for item in outcomes if item["state"] == "failed"
        }
        known, said = said, failures | set(refused)
        news = [item for item in outcomes if f"{item['path']}\n{item.get('reason')}" not in known]
        if refused and refused[0] in known:
            removal = {}
        if removal or any(
            item["state"] not in ("unchanged", _LEFT_OUT) or "returned" in item for item in news
        ):
            report(cli, news, removal)
            sys.stdout.flush()

    if not folder.is_dir():
        raise InvalidInput(f"{printable(folder)} is not a folder that can be read")
    synchronise(_report)
    cli.say(f"watching {printable(folder.resolve())}; Ctrl-C ends it")
    for _ in _changes(cli, folder):
        synchronise(_report_changes)
    return 0


def _changes(cli: Cli, folder: Path) -> Iterator[None]:
    """Yield after every change of a folder, and when it is back after it was away."""
    from watchfiles import watch as changes

    # Editors save by writing beside and renaming: a batch is only looked at once the folder has been quiet for a moment. A
    # watch does not notice that its folder was replaced, so it wakes up from time to time.
    timing = {
        "debounce": 1600,
        "step": 200,
        "rust_timeout": int(_LOOK_SECONDS * 1000),
        "yield_on_timeout": True,
    }
    watched = _identity(folder)
    while True:
        if watched is None:
            cli.say(f"{_clock()} {printable(folder)} is away; nothing is changed until it is back")
            while (watched := _identity(folder)) is None:
                time.sleep(_LOOK_SECONDS)
            cli.say(f"{_clock()} {printable(folder)} is back")
        # The first look is after the watch began: what changed before it is seen then.
        is_new = True
        try:
            for found in changes(folder, raise_interrupt=True, **timing):
                if _identity(folder) != watched:
                    break
                if found or is_new:
                    is_new = False
                    yield
        except FileNotFoundError:
            # It went away before the watch began.
            pass
        watched = None


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        state = folder.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino) if stat.S_ISDIR(state.st_mode) else None


def _report_changes(cli: Cli, outcomes: list[dict[str, Any]], removal: dict[str, Any]) -> None:
    """Say which files changed, each on a line with the time."""
    if cli.json:
        _report(cli, outcomes, removal)
        return
    lines = [
        ("returned" if "returned" in item else item["state"], item["path"], item.get("reason"))
        for item in outcomes
        if item["state"] not in ("unchanged", _LEFT_OUT) or "returned" in item
    ]
    lines += [
        ("missing", item["path"] or item["title"], None) for item in removal.get("documents", ())
    ]
    lines += [
        ("not removed", f"document {item['document_id']}", item["error"])
        for item in removal.get("errors", ())
    ]
    now = _clock()
    for state, path, reason in lines[:_LINES]:
        cli.print(f"{now} {state} {path}" + (f": {reason}" if reason else ""))
    if len(lines) > _LINES:
        cli.print(f"{now} and {len(lines) - _LINES} more")
    if removal.get("moved"):
        cli.print(f"{now} moved: {removal['moved']}")
    if "refused" in removal:
        cli.say(f"{now} kb: {removal['refused']}")


def _clock() -> str:
    return time.strftime("%H:%M:%S")


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
            raise InvalidInput(f"there is no file or folder {printable(name)!r}")
        for match in map(Path, matches):
            if match.is_dir():
                found.extend(_listed(cli, match, include, exclude, everything))
            else:
                _refuse_own(cli, match)
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


def _listed(
    cli: Cli, folder: Path, include: Sequence[str], exclude: Sequence[str], everything: bool
) -> Listing:
    _refuse_own(cli, folder)
    return list_folder(folder, include, exclude, everything=everything, never=_own_folders(cli))


def _own_folders(cli: Cli) -> list[Path]:
    """The folders that hold this knowledge base itself."""
    found = [cli.bootstrap.data_dir]
    if not cli.bootstrap.nothing_else:
        from kb_framework.settings_loading import load_settings

        url = load_settings(cli.bootstrap).host.files_url or ""
        found += [Path(unquote(url.removeprefix("file://")))] if url.startswith("file://") else []
    return found


def _refuse_own(cli: Cli, place: Path) -> None:
    if own := within(place, _own_folders(cli)):
        where = printable(place)
        raise InvalidInput(
            f"{where} is in the data folder of kb ({own}), which is never read as content; nothing was changed"
        )


def _add_file(listing: Listing, place: Path, *, named: bool) -> None:
    """Add a file that a person named; `named` where it is the only one."""
    if not listing.everything and is_secret_name(place.name, place.absolute().parent.name):
        if named:
            listing.unreadable[source_name(place)] = _IS_KEY
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


def _compared(
    cli: Cli, listing: Listing, root: Path | None = None, **options: Any
) -> dict[str, Any]:
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
    answer = cli.engine.compare_sources(described, _root_name(root) if root else None, **chosen)
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
        _LEFT_OUT: left_out,
    }


def _root_name(root: Path) -> str:
    """The text with which the sources of a folder's files begin, but for the slash."""
    return source_name(f"{root.resolve().as_posix()}/").rstrip("/") or "/"


def _sync_once(
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
    root = _root_name(folder)
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
        listing = _listed(cli, folder, chosen["include"] or (), chosen["exclude"] or (), everything)
        if reason := listing.unreadable.get(root):
            raise InvalidInput(
                f"{printable(folder)} cannot be read ({reason}); nothing was changed"
            )
        # Tags that are only remembered are not added again to what a person took them from.
        compared = _compared(cli, listing, folder, tags=given["tags"], **options)
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
    outcomes = _send(
        cli, listing, compared, {"tags": chosen["tags"], "doc_type": chosen["doc_type"]}
    )
    if compared["files"]:
        # What was sent may be an archive or a mail that no longer holds what it held.
        compared = _compared(cli, listing, folder, elsewhere=True)
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
    """Whether there is something, or may be something behind an error of the disk or the network."""
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
    """Whether a file that the engine misses is not there any more, or is no longer inside another that is."""
    outer, inside, _ = source.partition(INSIDE)
    if listing.could_not_see(outer):
        return False
    place = real_path(outer)
    if not _exists(outer) or (Path(place).is_dir() and not Path(place).is_symlink()):
        return True
    return bool(inside) and listing.has(outer)


def _send(
    cli: Cli, listing: Listing, compared: dict[str, Any], fields: dict[str, Any]
) -> list[dict[str, Any]]:
    """Upload the wanted files, several at a time; what each came to."""
    files: list[File] = compared["files"]
    if files:
        # Commands end before their garbage matters; this one may go on for hours. What is there by now is there to stay.
        gc.freeze()
        gc.enable()
    wanted = {file.source for file in files}
    outcomes = [_not_sent(file, compared) for file in listing.files if file.source not in wanted]
    outcomes += [
        {"path": place, "state": "failed", "reason": reason}
        for place, reason in listing.unreadable.items()
    ]
    outcomes += [
        _left_out(shown, reason) for reason, places in listing.left_out.items() for shown in places
    ]
    limit = compared["max_file_bytes"]
    # Small files go several at a time; of the large ones only one is under way.
    one_large_file = threading.Lock()

    def send(files: list[File]) -> list[dict[str, Any]]:
        if files[0].size <= LARGE:
            return _send_together(cli, files, fields, limit, keys=listing.everything)
        with one_large_file:
            return [_send_large(cli, files[0], fields, limit)]

    with ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 1) as pool:
        jobs = [pool.submit(send, group) for group in together(files, lambda file: file.size)]
        try:
            arriving = (item for job in as_completed(jobs) for item in job.result())
            with cli.progress(files, "adding", arriving) as done:
                outcomes += done
        except KeyboardInterrupt:
            _cancel(jobs)
            # What is under way is finished, so that the count is right.
            finished = [job for job in jobs if not job.cancelled() and not job.exception()]
            raise KeyboardInterrupt(
                _so_far([item for job in finished for item in job.result()])
            ) from None
        except BaseException:
            _cancel(jobs)
            raise
    return sorted(outcomes, key=lambda item: item["path"])


def _so_far(outcomes: list[dict[str, Any]]) -> str:
    done = {state: sum(item["state"] == state for item in outcomes) for state in STATES}
    return (
        ", ".join(f"{count} {state}" for state, count in done.items() if count or state == "added")
        + _CONTINUES
    )


def _cancel(jobs: Iterable[Future[Any]]) -> None:
    for job in jobs:
        job.cancel()


def _send_together(
    cli: Cli, files: list[File], fields: dict[str, Any], limit: int, *, keys: bool
) -> list[dict[str, Any]]:
    """Send several small files in one request; `keys` says whether private keys are among what is wanted."""
    failed: list[dict[str, Any]] = []
    read: list[tuple[File, bytes]] = []
    for file in files:
        try:
            data = _content(file)
        except OSError as error:
            failed.append(_failed(file, error.strerror or str(error)))
            continue
        if len(data) > limit:
            failed.append(_too_large(file, len(data), limit))
        elif file.source and not keys and is_private_key(data, file.shown):
            failed.append(_not_added(file, SECRET, _IS_KEY))
        else:
            read.append((file, data))
    if not read:
        return failed
    try:
        answers = cli.engine.add_files(
            [(Path(file.shown).name, data, given(**_known(file), **fields)) for file, data in read]
        )["results"]
    except EngineError as error:
        if error.http_status >= 500:
            raise
        if len(read) > 1:
            # Something is wrong with one of them; each alone is told so.
            return failed + [
                outcome
                for file, _ in read
                for outcome in _send_together(cli, [file], fields, limit, keys=keys)
            ]
        return [
            *failed,
            _outcome(
                read[0][0], {"error": {"message": error.message, **error.details}, "response": None}
            ),
        ]
    return failed + [
        _outcome(file, answer) for (file, _), answer in zip(read, answers, strict=True)
    ]


def _send_large(cli: Cli, file: File, fields: dict[str, Any], limit: int) -> dict[str, Any]:
    """Upload a file part by part: it is held in memory once, where it is read, and not by whoever sends it."""
    if file.size > limit:
        return _too_large(file, file.size, limit)
    assert file.place is not None
    try:
        upload = cli.engine.start_upload(Path(file.shown).name, **_known(file), **fields)
        with open_file(file.place) as content:
            while part := content.read(LARGE):
                upload = cli.engine.append_upload(upload["upload_id"], upload["received"], part)
        return _outcome(
            file, {"response": cli.engine.finish_upload(upload["upload_id"]), "error": None}
        )
    except OSError as error:
        return _failed(file, error.strerror or str(error))
    except EngineError as error:
        if error.http_status >= 500:
            raise
        return _outcome(
            file, {"error": {"message": error.message, **error.details}, "response": None}
        )


def _content(file: File) -> bytes:
    if file.place is None:
        return file.content
    with open_file(file.place) as content:
        return content.read()


def _known(file: File) -> dict[str, Any]:
    source = (
        {"source": file.source, "modified_ns": file.modified_ns, "stamp": file.stamp}
        if file.place
        else {}
    )
    return {"path": file.shown, **source}


def _too_large(file: File, size: int, limit: int) -> dict[str, Any]:
    return _failed(file, f"{size} bytes; at most {limit} (KB_MAX_FILE_BYTES)")


def _not_sent(file: File, compared: dict[str, Any]) -> dict[str, Any]:
    """What became of a file that need not be sent."""
    if kind := compared[_LEFT_OUT].get(file.source):
        return _not_added(file, kind, why_unread(kind))
    before = compared["refused"].get(file.source)
    return _refused_before(file, before) if before else _unchanged(file)


def _unchanged(file: File) -> dict[str, Any]:
    return {"path": file.shown, "state": "unchanged"}


def _refused_before(file: File, before: dict[str, Any]) -> dict[str, Any]:
    return _failed(file, before["reason"], job_id=before["job_id"], read=False)


def _left_out(shown: str, reason: str) -> dict[str, Any]:
    return {"path": shown, "state": _LEFT_OUT, "reason": reason}


def _not_added(file: File, kind: str, why: str) -> dict[str, Any]:
    """A file that is left out; the only file that was asked for fails instead, so that the command says why."""
    return _failed(file, why) if file.named else _left_out(file.shown, kind)


def _failed(file: File, reason: str, **more: Any) -> dict[str, Any]:
    return {"path": file.shown, "state": "failed", "reason": reason, **more}


def _outcome(file: File, answer: dict[str, Any]) -> dict[str, Any]:
    error, added = answer["error"], answer["response"]
    if error and "file_kind" in error:
        return _not_added(file, error["file_kind"], error["message"])
    if error:
        return _failed(file, error["message"], job_id=error.get("job_id"))
    outcome = {"path": file.shown, "state": added["status"], "document_id": added["document"]["id"]}
    outcome |= {name: True for name in ("returned", "is_copy") if added[name]}
    outcome |= _cut(added)
    outcome |= {"tags_added": added["tags_added"]} if added["tags_added"] else {}
    return outcome | ({"attachments": added["attachments"]} if added["attachments"] else {})


def _report(
    cli: Cli,
    outcomes: list[dict[str, Any]],
    removal: dict[str, Any],
    *,
    verbose: bool = False,
    reports: list[dict[str, Any]] | None = None,
) -> int:
    """Print what happened, or with --json add it to `reports` where they are given; return the exit code."""
    counts = {state: sum(item["state"] == state for item in outcomes) for state in STATES}
    inside = [part for item in outcomes for part in item.get("attachments", ())]
    left_out: dict[str, list[str]] = {}
    for item in (item for item in outcomes if item["state"] == _LEFT_OUT):
        left_out.setdefault(item["reason"], []).append(item["path"])
    for part in (part for part in inside if part["status"] == _LEFT_OUT):
        left_out.setdefault(part["kind"], []).append(part["path"])
    parts, inside = inside, [part for part in inside if part["status"] != _LEFT_OUT]
    if returned := sum(item.get("returned", False) for item in outcomes):
        counts["unchanged"] -= sum(
            item.get("returned", False) and item["state"] == "unchanged" for item in outcomes
        )
        counts["returned"] = returned
    if tagged := sum(1 for item in outcomes if item.get("tags_added")):
        counts["tagged"] = tagged
    # A file that moved was found as a copy at its new place.
    copies, moved = sum(item.get("is_copy", False) for item in outcomes), removal.get("moved", 0)
    counts["unchanged"] = max(0, counts["unchanged"] - max(copies, moved))
    if copies > moved:
        counts["copies"] = copies - moved
    if "moved" in removal:
        counts |= {"moved": removal["moved"], "missing": removal["missing"]}
        counts["failed"] += removal["failed"]
    if removal.get("removed"):
        counts["removed"] = removal["removed"]
    if cli.json:
        files = [item for item in outcomes if item["state"] != _LEFT_OUT]
        errors = {
            "removal_errors": removal.get("errors", []),
            "missing_documents": removal.get("documents", []),
        }
        refused = (
            {"refused": removal["refused"], "refusal": removal["details"]}
            if "refused" in removal
            else {}
        )
        report = {**counts, "files": files, "left_out": left_out, **errors, **refused}
        if reports is None:
            cli.result(report)
        else:
            reports.append(report)
    else:
        for item in (item for item in outcomes if item["state"] == "failed"):
            cli.say(f"failed: {item['path']}: {item['reason']}")
        for part in (part for part in inside if part["status"] == "failed"):
            cli.say(f"failed: {part['path']}: {part['reason']}")
        for item in removal.get("errors", []):
            cli.say(f"not removed: document {item['document_id']}: {item['error']}")
        if before := sum(not item.get("read", True) for item in outcomes):
            cli.say(
                f"{before} of these could not be read before either and are the same since: --retry reads them again"
            )
        _say_cut(cli, outcomes)
        _say_left_out(
            cli, left_out, verbose, keys_inside=any(part.get("kind") == SECRET for part in parts)
        )
        files_inside = f" ({len(inside)} files inside them)" if inside else ""
        words = {
            **{state: state for state in counts},
            "copies": "copy" if counts.get("copies") == 1 else "copies",
        }
        cli.print(
            ", ".join(f"{count} {words[state]}" for state, count in counts.items()) + files_inside
        )
        if removal.get("missing"):
            cli.say("missing documents come back with their files: kb list --missing")
        if "refused" in removal:
            cli.say(f"kb: {removal['refused']}")
    return 1 if counts["failed"] or "refused" in removal else 0


def _cut(added: dict[str, Any]) -> dict[str, Any]:
    """Where only the first part of a text was read: how much of it."""
    found = added["document"]["metadata"].get("truncated")
    return {"truncated": found} if isinstance(found, dict) else {}


def _say_cut(cli: Cli, outcomes: list[dict[str, Any]]) -> None:
    for item in outcomes:
        if (cut := item.get("truncated")) and item["state"] in ("added", "updated"):
            how_much = f"the first {cut['kept']} of {cut['characters']} characters were read (KB_MAX_TEXT_CHARS)"
            cli.say(f"shortened: {item['path']}: {how_much}")


def _say_left_out(
    cli: Cli, left_out: dict[str, list[str]], verbose: bool, *, keys_inside: bool
) -> None:
    if keys := left_out.get(SECRET):
        more = (
            f" and {len(keys) - _NAMED} more (--verbose names them)"
            if len(keys) > _NAMED and not verbose
            else ""
        )
        shown = keys if verbose else keys[:_NAMED]
        other = ", but none from inside another file" if keys_inside else ""
        cli.say(
            f"warning: private keys or credentials left out: {', '.join(shown)}{more}; --all adds them{other}"
        )
    if left_out:
        cli.say(f"left out: {counted(left_out)}")
    for reason in left_out if verbose else ():
        for place in left_out[reason]:
            cli.say(f"left out ({counted({reason: [place]}).partition(' ')[2]}): {place}")
