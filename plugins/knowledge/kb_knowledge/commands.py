"""Commands that are more than one call: changes of several chunks, a question before deleting, an export."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.api import Operation
from kb_framework.api.cli import Cli
from kb_framework.errors import ConfigInvalid, EngineError
from kb_knowledge import render

Flag = Annotated[bool, Parameter(negative=())]
Ids = Annotated[list[str], Parameter(help="The chunks' ids.", negative=())]


def change(
    cli: Cli, operation: Operation[Any, Any], values: dict[str, Any], chunk_ids: Ids, /
) -> int:
    """Make one change to each of several chunks."""

    def change_one(chunk_id: str) -> dict[str, Any]:
        return cli.engine.run(operation, {"chunk_id": chunk_id, **values})

    return _change(
        cli, chunk_ids, change_one, values.get("chunk_kind") or values.get("usage_policy")
    )


def _change(
    cli: Cli, chunk_ids: list[str], change: Callable[[str], dict[str, Any]], state: str | None
) -> int:
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
        cli.result(
            {"changed": done, "failed": failed}, "\n".join(_told(item, state) for item in done)
        )
    return 1 if failed else 0


def _told(chunk: dict[str, Any], state: str | None) -> str:
    state = state or ("active" if chunk["is_active"] else "inactive")
    return f"{chunk['id']} {'is' if chunk['changed'] else 'was already'} {state}"


def delete(
    cli: Cli,
    operation: Operation[Any, Any],
    values: dict[str, Any],
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative=())] = False,
) -> int:
    chunk_id = values["chunk_id"]
    if not yes and not cli.confirm(f"Delete chunk {chunk_id} for good?", "--yes"):
        cli.say("nothing was deleted")
        return 1
    cli.engine.run(operation, {**values, "confirm": True})
    cli.result({"chunk_id": chunk_id, "deleted": True}, f"deleted chunk {chunk_id}")
    return 0


def list_events(
    cli: Cli,
    operation: Operation[Any, Any],
    values: dict[str, Any],
    *,
    export: Annotated[Flag, Parameter(help="Write lines of JSON instead of a page.")] = False,
) -> None:
    if not export:
        render.events(cli, cli.engine.run(operation, values), {})
        return
    wanted = {name: value for name, value in values.items() if name not in ("page", "per_page")}
    for part in cli.engine.download("export_events", **wanted):
        sys.stdout.write(part.decode())
