"""The command `kb watch`."""

from __future__ import annotations

import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kb_documents.added_report import report
from kb_documents.filenames import printable
from kb_documents.sending import LEFT_OUT
from kb_documents.sync_commands import sync_once
from kb_framework.api.cli import Cli, CommaListOrNone
from kb_framework.errors import EngineError, InvalidInput

Flag = Parameter(negative=())
All = Annotated[bool, Parameter(name="--all", negative=())]
# How often a watched folder is looked at that does not change or is away.
_LOOK_SECONDS = 1.0
# Files that a watch names after one change.
_LINES = 50


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
            outcomes, removal = sync_once(cli, folder, given, keep=keep, everything=everything)
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
            item["state"] not in ("unchanged", LEFT_OUT) or "returned" in item for item in news
        ):
            report(cli, news, removal)
            sys.stdout.flush()

    if not folder.is_dir():
        raise InvalidInput(f"{printable(folder)} is not a folder that can be read")
    synchronise(report)
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
        except RuntimeError as error:
            if "decode path" not in str(error):
                raise
            # The name of a file that changed is not UTF-8. The watch begins again, and finds it.
            continue
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
        report(cli, outcomes, removal)
        return
    lines = [
        ("returned" if "returned" in item else item["state"], item["path"], item.get("reason"))
        for item in outcomes
        if item["state"] not in ("unchanged", LEFT_OUT) or "returned" in item
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
