"""Commands: chunks, their curation and its log."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.console import Cli, pairs
from kb_framework.errors import ConfigInvalid, EngineError
from kb_knowledge.conditions import Kind, Policy, Status
from kb_knowledge.log import EventType

Flag = Parameter(negative=())
Ids = Annotated[list[str], Parameter(negative=())]


def list_chunks(
    *,
    q: str | None = None,
    kind: Kind | None = None,
    status: Status = "active",
    policy: Policy | None = None,
    source_type: str | None = None,
    page: int = 1,
    per_page: int = 20,
    cli: Cli,
) -> None:
    """List chunks with their curation.

    Parameters
    ----------
    q
        Only chunks with all of these words in their text or title.
    kind
        Only chunks of this kind.
    status
        Those that can be found, those that cannot, or all.
    policy
        Only chunks with this policy.
    source_type
        Only chunks from this type of source.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb chunks list --kind quote
    kb chunks list --status inactive --json
    """
    found = cli.engine.list_chunks(
        q=q, kind=kind, status=status, policy=policy, source_type=source_type, page=page, per_page=per_page
    )
    columns = ("id", "document", "active", "kind", "policy", "source", "text")
    rows = [
        (
            item["id"],
            item["document_id"],
            "yes" if item["is_active"] else "no",
            item["chunk_kind"],
            item["usage_policy"],
            item["source_type"],
            " ".join((item["preview"] or "").split())[:80],
        )
        for item in found["data"]
    ]
    cli.table(found, rows, columns)


def show(chunk_id: str, *, cli: Cli) -> None:
    """Show a chunk with its text, curation and last events.

    Parameters
    ----------
    chunk_id
        The chunk's id.

    Examples
    --------
    kb chunks show 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    found = cli.engine.get_chunk(chunk_id)
    about = {name: value for name, value in found.items() if name not in {"content", "preview", "events"}}
    log = "\n".join(_event_line(event) for event in found["events"])
    cli.result(found, "\n\n".join(part for part in (pairs(about), found["content"], log) if part))


def deactivate(chunk_ids: Ids, /, *, reason: str | None = None, cli: Cli) -> int:
    """Take chunks out of every search.

    Parameters
    ----------
    chunk_ids
        The chunks' ids.
    reason
        Why, for the log.

    Examples
    --------
    kb chunks deactivate 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --reason "out of date"
    """
    return _change(cli, chunk_ids, lambda chunk_id: cli.engine.deactivate_chunk(chunk_id, reason=reason), "inactive")


def activate(chunk_ids: Ids, /, *, reason: str | None = None, cli: Cli) -> int:
    """Let chunks be found again.

    Parameters
    ----------
    chunk_ids
        The chunks' ids.
    reason
        Why, for the log.

    Examples
    --------
    kb chunks activate 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    return _change(cli, chunk_ids, lambda chunk_id: cli.engine.activate_chunk(chunk_id, reason=reason), "active")


def reclassify(chunk_ids: Ids, /, *, kind: Kind, reason: str | None = None, cli: Cli) -> int:
    """Say what chunks are.

    Parameters
    ----------
    chunk_ids
        The chunks' ids.
    kind
        What they are from now on.
    reason
        Why, for the log.

    Examples
    --------
    kb chunks reclassify 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --kind example
    """
    return _change(cli, chunk_ids, lambda chunk_id: cli.engine.reclassify_chunk(chunk_id, kind, reason=reason), kind)


def set_policy(chunk_ids: Ids, /, *, policy: Policy, reason: str | None = None, cli: Cli) -> int:
    """Say what chunks may be used for.

    Parameters
    ----------
    chunk_ids
        The chunks' ids.
    policy
        What they may be used for from now on.
    reason
        Why, for the log.

    Examples
    --------
    kb chunks set-policy 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --policy never_generate
    """
    return _change(cli, chunk_ids, lambda chunk_id: cli.engine.set_chunk_policy(chunk_id, policy, reason=reason), policy)


def _change(cli: Cli, chunk_ids: list[str], change: Callable[[str], dict[str, Any]], state: str) -> int:
    """Each by itself: what cannot be changed is told, and keeps no other from it."""
    if not chunk_ids:
        raise ConfigInvalid("give at least one chunk's id")
    if len(chunk_ids) == 1:
        found = change(chunk_ids[0])
        cli.result(found, _told(found, state))
        return 0
    done: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for chunk_id in chunk_ids:
        try:
            done.append(change(chunk_id))
        except EngineError as error:
            if error.http_status >= 500:
                raise
            failed.append({"chunk_id": chunk_id, "error": error.message})
            if not cli.json:
                cli.say(f"kb: {chunk_id}: {error.message}")
    if cli.json or done:
        cli.result({"changed": done, "failed": failed}, "\n".join(_told(item, state) for item in done))
    return 1 if failed else 0


def _told(chunk: dict[str, Any], state: str) -> str:
    return f"{chunk['id']} {'is' if chunk['changed'] else 'was already'} {state}"


def delete(
    chunk_id: str,
    *,
    reason: str | None = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    cli: Cli,
) -> int:
    """Delete a chunk for good.

    Parameters
    ----------
    chunk_id
        The chunk's id.
    reason
        Why, for the log.
    yes
        Do not ask.

    Examples
    --------
    kb chunks delete 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --yes
    """
    if not yes and not cli.confirm(f"Delete chunk {chunk_id} for good?", "--yes"):
        cli.say("nothing was deleted")
        return 1
    cli.engine.delete_chunk(chunk_id, confirm=True, reason=reason)
    cli.result({"chunk_id": chunk_id, "deleted": True}, f"deleted chunk {chunk_id}")
    return 0


def history(chunk_id: str, *, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """Show every event of a chunk, also of one that is gone.

    Parameters
    ----------
    chunk_id
        The chunk's id.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb chunks history 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    _print_events(cli, cli.engine.chunk_history(chunk_id, page=page, per_page=per_page))


def list_events(
    *,
    user: str | None = None,
    chunk: str | None = None,
    type: EventType | None = None,
    since: str | None = None,
    until: str | None = None,
    page: int = 1,
    per_page: int = 20,
    export: Annotated[bool, Flag] = False,
    cli: Cli,
) -> None:
    """List events, newest first; or write all of them as lines of JSON, oldest first.

    Parameters
    ----------
    user
        Only what this user did.
    chunk
        Only what happened to this chunk.
    type
        Only events of this type.
    since
        Not before this time, such as 2026-01-31.
    until
        Before this time.
    page
        Pages count from 1.
    per_page
        At most 100.
    export
        Write lines of JSON instead of a page.

    Examples
    --------
    kb chunks events --since 2026-01-31
    """
    wanted = {"user_id": user, "chunk_id": chunk, "event_type": type, "since": since, "until": until}
    if not export:
        _print_events(cli, cli.engine.list_events(**wanted, page=page, per_page=per_page))
        return
    for part in cli.engine.export_events(**wanted):
        sys.stdout.write(part.decode())


def _print_events(cli: Cli, found: dict[str, Any]) -> None:
    columns = ("time", "event", "chunk", "before", "after", "user", "reason")
    rows = [
        (
            event["created_at"],
            event["event_type"],
            event["chunk_id"],
            _short(event["before"]),
            _short(event["after"]),
            event["user_id"],
            event["reason"],
        )
        for event in found["data"]
    ]
    cli.table(found, rows, columns)


def _event_line(event: dict[str, Any]) -> str:
    change = f"{_short(event['before'])} → {_short(event['after'])}" if event["after"] else ""
    return "  ".join(part for part in (event["created_at"], event["event_type"], change, event["reason"]) if part)


def _short(values: dict[str, Any] | None) -> str:
    shown = {name: value for name, value in (values or {}).items() if name in {"is_active", "chunk_kind", "usage_policy"}}
    return " ".join(f"{name}={value}" for name, value in shown.items())


def left_over(*, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List curation whose text is gone, and which waits for it to come back.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb chunks left-over
    """
    found = cli.engine.list_left_over(page=page, per_page=per_page)
    columns = ("time", "chunk", "document", "curation")
    rows = [
        (item["created_at"], item["chunk_id"], item["document_path"] or item["document_title"], _short(item))
        for item in found["data"]
    ]
    cli.table(found, rows, columns)
