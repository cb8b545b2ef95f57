"""The host's own commands."""

from __future__ import annotations

import dataclasses
import gc
import sys
from dataclasses import replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.api import Profile
from kb_framework.bootstrap import current_name, disable_plugin
from kb_framework.discovery import HOST_DISTRIBUTION, PluginInfo
from kb_framework.edges.cli.console import Cli, pairs
from kb_framework.errors import InvalidInput, KBError
from kb_framework.plugins import Plugins
from kb_framework.targets import did_you_mean, differences

# How many names of a kind are listed.
_LISTED = 12


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
    from kb_framework.edges.http.serve import serve as run_server

    gc.enable()
    run_server(cli.bootstrap, cli.plugins, host, port)


def mcp(
    *,
    profile: Literal["read", "write", "curate", "admin"] = "curate",
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
    from kb_framework.edges.mcp.stdio import serve_stdio
    from kb_framework.edges.mcp.tools import tool_costs

    chosen: Profile = profile
    if cost:
        costs = tool_costs(cli.plugins, chosen)
        rows = [(name, tokens) for name, tokens in costs.items()]
        cli.table(costs, [*rows, ("total", sum(costs.values()))], ("tool", "tokens"))
        return
    gc.enable()
    # The engine is opened by the first tool call, so that the handshake is answered at once.
    serve_stdio(lambda: cli.engine, cli.plugins, chosen)


def schema(cli: Cli, found: dict[str, Any], _: dict[str, Any]) -> None:
    cli.result(found, pairs({**found, "wire": ", ".join(sorted(found["wire"]))}))


def plugins(*, cli: Cli) -> None:
    """List plugins: version, distribution, state, hooks, what each contributes, and why one failed.

    Where an engine runs that has other plugins than this command, the state says so.

    Examples
    --------
    kb plugins
    """
    infos = [*cli.plugins.infos, *_ask_engine(cli)]
    data = [dataclasses.asdict(info) for info in infos]
    rows = [
        (
            info.name,
            info.version,
            info.distribution,
            f"{info.state}, {info.engine}" if info.engine else info.state,
            info.reason
            or "; ".join(info.errors[-1:])
            or "; ".join(
                [
                    ", ".join(
                        f"{len(names)} {what.replace('_', ' ')}"
                        for what, names in info.contributes.items()
                    ),
                    *info.shadowed,
                ]
            ),
        )
        for info in infos
    ]
    cli.table(data, rows, ("name", "version", "distribution", "state", "contributes, or why not"))


def _ask_engine(cli: Cli) -> list[PluginInfo]:
    """Note what the engine knows: what failed or raised in it, and how its plugins differ. Returns those that only it has."""
    try:
        found = cli.engine.health()["plugins"]
    except KBError as error:
        cli.say(f"kb: the engine could not be asked: {error.message}")
        return []
    different = _differences(cli, found.get("loaded") or {})
    for info in cli.plugins.infos:
        info.errors = found["errors"].get(info.name, [])
        info.engine = different.pop(cli.plugins.handle(info), None)
        if info.state == "active" and info.name in found["failed"]:
            info.state, info.reason, info.engine = "failed", found["failed"][info.name], None
    return [
        PluginInfo(name, "", found["loaded"][name].split()[1], "absent", engine=words)
        for name, words in different.items()
    ]


def _differences(cli: Cli, theirs: dict[str, str]) -> dict[str, str]:
    ours = cli.plugins.prints
    if cli.bootstrap.engine_url:
        # On another machine the same source has other times.
        theirs, ours = (
            {name: " ".join(words.split()[:2]) for name, words in side.items()}
            for side in (theirs, ours)
        )
    return differences(theirs, ours) if theirs else {}


def check(name: str | None = None, /, *, cli: Cli) -> int:
    """Check plugins: hooks, targets, constructors, permissions, precedence, import times. Exit 1 if anything is an error.

    Parameters
    ----------
    name
        The plugin; all of them if none is named.

    Examples
    --------
    kb plugins check
    kb plugins check search --json
    """
    from kb_framework.pipelines.selection import check_contributions
    from kb_framework.plugin_check import check_plugins

    _require_plugin(name, cli)
    check_contributions(cli.plugins)
    found = check_plugins(cli.plugins, name)
    data = {
        "ok": all(item.state != "error" for item in found),
        "findings": [item._asdict() for item in found],
    }
    cli.table(data, found, ("plugin", "state", "finding"))
    return 0 if data["ok"] else 1


def _require_plugin(name: str | None, cli: Cli) -> None:
    known = {info.name for info in cli.plugins.infos} | {
        f"{i.distribution}:{i.name}" for i in cli.plugins.infos
    }
    if name is not None and name not in known:
        raise InvalidInput(
            f"there is no plugin {name!r}" + did_you_mean(name, sorted(known)),
            hint="kb plugins lists them",
        )


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
    name = current_name(name)
    _require_plugin(name, cli)
    gone = _contributed(name, cli) if disabled else {}
    disable_plugin(cli.bootstrap, name, disabled=disabled)
    state = "disabled" if disabled else "enabled"
    cli.result(
        {"name": name, "state": state, **({"gone": gone} if disabled else {})}, f"{name} is {state}"
    )
    for what, names in {} if cli.json else gone.items():
        listed = ", ".join(names[:_LISTED]) + (
            f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        )
        cli.say(f"gone from the next command on: {what.replace('_', ' ')} {listed}")
    if gone and not cli.json:
        cli.say(
            f"kb plugins enable {name} brings it back; a running kb serve keeps it until it is restarted"
        )
    if not disabled and name in set(cli.bootstrap.disabled_plugins) and _named_by_setting(name):
        sys.stderr.write(f"kb: KB_DISABLED_PLUGINS still names {name}\n")


def _contributed(name: str, cli: Cli) -> dict[str, list[str]]:
    """What a plugin contributes and guards. One from outside is not imported for it: it may be the one that is broken."""
    info = next(
        info
        for info in cli.plugins.infos
        if name in (info.name, f"{info.distribution}:{info.name}")
    )
    if info.distribution != HOST_DISTRIBUTION:
        return {}
    others = cli.bootstrap.disabled_plugins - {name, info.name}
    info = next(
        item
        for item in Plugins(replace(cli.bootstrap, disabled_plugins=others)).infos
        if item.name == info.name
    )
    guards = [hook for hook in info.hooks if hook.startswith(("kb_guard_", "kb_narrow_"))]
    shown = (
        "commands",
        "tools",
        "mutation_kinds",
        "selection_filters",
        "extractors",
        "retrievers",
        "research_sources",
    )
    return {what: info.contributes[what] for what in shown if what in info.contributes} | (
        {"guards": guards} if guards else {}
    )


def _named_by_setting(name: str) -> bool:
    import os

    return name in os.environ.get("KB_DISABLED_PLUGINS", "")
