"""The host's own commands."""

from __future__ import annotations

import dataclasses
import gc
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.api import Profile
from kb_framework.bootstrap import disable_plugin
from kb_framework.console import Cli, pairs
from kb_framework.errors import ConfigInvalid, InvalidInput, KBError

# All of them are locked at once, with their indexes, and a server has room for some thousand locks.
_MAX_PARTITIONS = 128


def serve(*, host: str = "127.0.0.1", port: int = 8420, cli: Cli) -> None:
    """Serve the knowledge base over HTTP: the API, its documentation, and MCP at /mcp.

    Commands on the same data folder find the server by themselves and become faster.

    Parameters
    ----------
    host
        The address to listen on. Without keys only loopback is allowed.
    port
        The port; 0 takes a free one.

    Examples
    --------
    kb serve
    kb serve --host 0.0.0.0 --port 8420
    """
    from kb_framework.server import serve as run_server

    gc.enable()
    run_server(cli.bootstrap, cli.plugins, host, port)


def mcp(
    *,
    profile: Literal["read", "write", "curate", "admin"] = "admin",
    cost: Annotated[bool, Parameter(negative=())] = False,
    cli: Cli,
) -> None:
    """Serve MCP tools over standard input and output, until the input ends.

    Parameters
    ----------
    profile
        Which tools to offer: read; write adds notes and uploads; curate adds changes; admin offers all.
    cost
        Print what each tool's description costs in tokens, and stop.

    Examples
    --------
    kb mcp --profile read
    kb mcp --cost
    """
    from kb_framework.mcp_server import serve_stdio, tool_costs

    chosen: Profile = profile
    if cost:
        costs = tool_costs(cli.plugins, chosen)
        rows = [(name, tokens) for name, tokens in costs.items()]
        cli.table(costs, [*rows, ("total", sum(costs.values()))], ("tool", "tokens"))
        return
    gc.enable()
    # The engine is opened by the first tool call, so that the handshake is answered at once.
    serve_stdio(lambda: cli.engine, cli.plugins, chosen)


def doctor(*, repair: Annotated[bool, Parameter(negative=())] = False, cli: Cli) -> int:
    """Check settings, plugins, database, full text, vectors and files. Exit 0 if all is well or only warnings, else 3.

    Parameters
    ----------
    repair
        Make anew what is derived from documents and chunks where it is wrong, say what was done, and check again.

    Examples
    --------
    kb doctor
    kb doctor --repair
    """
    try:
        report = _repaired(cli) if repair else cli.engine.get("/doctor")
    except KBError as error:
        report = {
            "status": "error",
            "checks": [{"name": "engine", "state": "error", "message": error.message}],
        }
    rows = [("repaired", "", sentence) for sentence in report.get("repairs", ())]
    if repair and not rows:
        rows = [("ok", "repair", "there was nothing to repair")]
    rows += [(check["state"], check["name"], check["message"]) for check in report["checks"]]
    cli.table(report, rows, ("state", "what", "finding"))
    return 3 if report["status"] == "error" else 0


def _repaired(cli: Cli) -> dict[str, Any]:
    with cli.counting("repairing") as advance:
        while not (report := cli.engine.post("/doctor/repair"))["finished"]:
            advance(report["done"], report["total"], f"repairing: {report['what']}")
    return report


def partition(number: int, /, *, cli: Cli) -> None:
    """Divide full text and vectors on PostgreSQL into partitions by organization; 1 makes plain tables of them again.

    It is done in one transaction, so what is interrupted has changed nothing. Engines and workers must be stopped meanwhile.

    Parameters
    ----------
    number
        How many partitions, up to 128.

    Examples
    --------
    kb db partition 8
    """
    from kb_framework.app import open_kb

    if not 1 <= number <= _MAX_PARTITIONS:
        raise InvalidInput(f"the number of partitions is {number}; it must be from 1 to {_MAX_PARTITIONS}")
    if cli.bootstrap.engine_url:
        raise ConfigInvalid("partitions are made in the database itself, not through an engine", hint="unset KB_ENGINE_URL")
    kb = open_kb(cli.bootstrap, cli.plugins)
    try:
        changed = kb.store.backend.partition(kb.store, number, lambda line: cli.say(f"kb: {line}"))
    finally:
        kb.close()
    shape = "plain tables" if number == 1 else f"{number} partitions"
    text = f"full text and vectors are in {shape} now" if changed else f"full text and vectors are in {shape} already"
    cli.result({"partitions": number, "changed": changed}, text)


def schema(*, cli: Cli) -> None:
    """Show version, capabilities, error codes, models and counts of the engine.

    Examples
    --------
    kb schema --json
    """
    found: dict[str, Any] = cli.engine.get("/schema")
    cli.result(found, pairs({**found, "wire": ", ".join(sorted(found["wire"]))}))


def config(*, cli: Cli) -> None:
    """Show every setting, its value and where it came from; secrets are masked.

    Examples
    --------
    kb config
    """
    from pydantic import SecretStr

    from kb_framework.app import load_plugin_settings

    settings = load_plugin_settings(cli.bootstrap, cli.plugins)
    shown = [
        {
            "variable": item.variable,
            "value": str(item.value) if isinstance(item.value, SecretStr) or not _plain(item.value) else item.value,
            "source": item.origin,
            "description": item.description,
        }
        for item in settings.values
    ]
    data = {"settings": shown, "unknown": list(settings.unknown_variables)}
    cli.table(data, [list(item.values()) for item in shown], ("variable", "value", "source", "description"))
    for name in settings.unknown_variables:
        cli.say(f"kb: no setting is called {name}: a spelling mistake?")


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list)


def plugins(*, cli: Cli) -> None:
    """List plugins: version, distribution, state, hooks, what each contributes, and why one failed.

    Examples
    --------
    kb plugins
    """
    _ask_engine(cli)
    data = [dataclasses.asdict(info) for info in cli.plugins.infos]
    rows = [
        (
            info.name,
            info.version,
            info.distribution,
            info.state,
            info.reason
            or "; ".join(info.errors[-1:])
            or ", ".join(f"{len(names)} {what.replace('_', ' ')}" for what, names in info.contributes.items()),
        )
        for info in cli.plugins.infos
    ]
    cli.table(data, rows, ("name", "version", "distribution", "state", "contributes, or why not"))


def _ask_engine(cli: Cli) -> None:
    """What failed while the engine opened, and what hooks raised in it, is known to the engine."""
    try:
        found = cli.engine.get("/health")["plugins"]
    except KBError as error:
        cli.say(f"kb: the engine could not be asked: {error.message}")
        return
    for info in cli.plugins.infos:
        info.errors = found["errors"].get(info.name, [])
        if info.state == "active" and info.name in found["failed"]:
            info.state, info.reason = "failed", found["failed"][info.name]


def disable(name: str, *, cli: Cli) -> None:
    """Switch a plugin off, without loading it. Takes effect from the next command (and the next `kb serve`).

    Parameters
    ----------
    name
        The plugin, or distribution:plugin where two have the same name.

    Examples
    --------
    kb plugins disable research
    """
    _switch(name, cli, disabled=True)


def enable(name: str, *, cli: Cli) -> None:
    """Switch a plugin on again.

    Parameters
    ----------
    name
        The plugin, as it was disabled.

    Examples
    --------
    kb plugins enable research
    """
    _switch(name, cli, disabled=False)


def _switch(name: str, cli: Cli, *, disabled: bool) -> None:
    known = {info.name for info in cli.plugins.infos} | {f"{i.distribution}:{i.name}" for i in cli.plugins.infos}
    if name not in known:
        raise InvalidInput(f"there is no plugin {name!r}", hint="kb plugins lists them")
    disable_plugin(cli.bootstrap, name, disabled=disabled)
    state = "disabled" if disabled else "enabled"
    cli.result({"name": name, "state": state}, f"{name} is {state}")
    if not disabled and name in set(cli.bootstrap.disabled_plugins) and _named_by_setting(name):
        sys.stderr.write(f"kb: KB_DISABLED_PLUGINS still names {name}\n")


def _named_by_setting(name: str) -> bool:
    import os

    return name in os.environ.get("KB_DISABLED_PLUGINS", "")
