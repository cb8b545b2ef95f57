"""Commands that are more than one operation: changes of several chunks, a question before deleting, an export."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.edges.cli.console import Cli
from kb_framework.edges.cli.operations import Option, cli_type, flag_names, shaped
from kb_framework.errors import ConfigInvalid, EngineError
from kb_framework.operations import input_model
from kb_framework.plugins import Plugins
from kb_knowledge import operations, render
from kb_knowledge.log import EventType

Flag = Parameter(negative=())
_CHANGES = {
    "chunks deactivate": operations.DEACTIVATE_CHUNK,
    "chunks activate": operations.ACTIVATE_CHUNK,
    "chunks reclassify": operations.RECLASSIFY_CHUNK,
    "chunks set-policy": operations.SET_CHUNK_POLICY,
}


def change(plugins: Plugins, name: str) -> Callable[..., int]:
    """Return the command that makes one change to each of several chunks."""
    operation = _CHANGES[name]
    command = plugins.commands.get(name)
    assert command
    options = [
        Option(*item)
        for item in input_model(plugins, operation).model_fields.items()
        if item[0] != "chunk_id"
    ]

    def run(chunk_ids: list[str], /, *, cli: Cli, **given: Any) -> int:
        def change_one(chunk_id: str) -> dict[str, Any]:
            return cli.engine.run(operation, {"chunk_id": chunk_id, **given})

        chosen = [given[option.name] for option in options if option.info.is_required()]
        return _change(cli, chunk_ids, change_one, "".join(chosen))

    ids = Annotated[list[str], Parameter(help="The chunks' ids.", negative=())]
    parameters = [inspect.Parameter("chunk_ids", inspect.Parameter.POSITIONAL_ONLY, annotation=ids)]
    for option in options:
        required = option.info.is_required()
        flags = Parameter(
            name=flag_names(option, command), help=option.info.description, negative=()
        )
        parameters.append(
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=Annotated[
                    cli_type(option.info.annotation, optional=not required), flags
                ],
                default=inspect.Parameter.empty if required else None,
            )
        )
    return shaped(run, parameters, command.help, command.examples)


def _change(
    cli: Cli, chunk_ids: list[str], change: Callable[[str], dict[str, Any]], state: str
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


def _told(chunk: dict[str, Any], state: str) -> str:
    state = state or ("active" if chunk["is_active"] else "inactive")
    return f"{chunk['id']} {'is' if chunk['changed'] else 'was already'} {state}"


def delete(
    chunk_id: str,
    *,
    reason: str | None = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    cli: Cli,
) -> int:
    """Delete a chunk for good. Only where KB_KNOWLEDGE_HARD_DELETE is set.

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
    wanted = {
        "user_id": user,
        "chunk_id": chunk,
        "event_type": type,
        "since": since,
        "until": until,
    }
    if not export:
        render.events(cli, cli.engine.list_events(**wanted, page=page, per_page=per_page), {})
        return
    for part in cli.engine.download("export_events", **wanted):
        sys.stdout.write(part.decode())
