"""Commands: one per mutation kind. Each shows what it will do and asks, before it does it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from kb_bulk.wording import announcement, describe
from kb_framework.api import Flag, MutationKind, resolve
from kb_framework.console import Cli
from kb_framework.csv import CommaListOrNone, CommaNumbersOrNone
from kb_framework.errors import ConfigInvalid, PluginFailed, SafetyThresholdExceeded
from kb_framework.plugins import Plugins
from kb_framework.selection import Selector, check_contributions

_SWITCHES = {
    "force": (["--force", "-f"], "Proceed although the safety threshold is exceeded."),
    "yes": (["--yes", "-y"], "Do not ask."),
}


def build(plugins: Plugins, name: str) -> Callable[..., int]:
    check_contributions(plugins)
    kind = next((kind for kind in plugins.kinds if kind.command_name == name), None)
    if kind is None:
        raise PluginFailed(f"the command {name!r} cannot be used", hint="kb plugins says why")
    fields = _operation_flags(kind)

    def command(*, force: bool = False, yes: bool = False, cli: Cli, **given: Any) -> int:
        return _run(cli, kind, {key: value for key, value in given.items() if value is not None}, force, yes)

    def option(field: str, type_: Any, names: list[str], help: str, default: Any = None) -> inspect.Parameter:
        annotation = Annotated[type_, Parameter(name=names, help=help, negative=())]
        return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    options = [
        *(
            option(item.name, _cli_type(_filter_type(item.target)), [item.flag or _flag(item.name)], item.help)
            for item in Selector(plugins).offered(kind.over)
        ),
        *(option(field, _cli_type(type_), [flag], help) for field, (type_, flag, help) in fields.items()),
        *(option(field, bool, names, help, False) for field, (names, help) in _SWITCHES.items()),
    ]
    cli = inspect.Parameter("cli", inspect.Parameter.KEYWORD_ONLY, annotation=Cli)
    command.__signature__ = inspect.Signature([*options, cli])  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in [*options, cli]}
    help = f"{kind.help} Over a selection: filters are combined with AND, and at least one is needed."
    command.__doc__ = f"{help}\n\nExamples\n--------\nkb {name} {kind.example}" if kind.example else help
    return command


def _run(cli: Cli, kind: MutationKind, given: dict[str, Any], force: bool, yes: bool) -> int:
    filters = Selector(cli.plugins).offered(kind.over)
    chosen = {item.name: given[item.name] for item in filters if item.name in given}
    if not chosen:
        flags = ", ".join(item.flag or _flag(item.name) for item in filters)
        raise ConfigInvalid(f"no selection: give at least one of {flags}")
    execute = getattr(cli.engine, f"bulk_{kind.name}")
    asked: dict[str, Any] = given
    if not yes:
        preview = cli.engine.bulk_preview(kind.name, **given)
        count = preview["matched"]
        if not count:
            cli.result(preview, f"no {kind.over} match: {describe(cli.plugins, chosen)}")
            return 0
        if preview["exceeds"] and not force:
            raise SafetyThresholdExceeded(
                f"this would {kind.verb} {count} of {preview['total']} {kind.over} ({preview['percent']}%), "
                f"more than the safety threshold of {preview['threshold']}%",
                hint="--force proceeds all the same",
                **{name: preview[name] for name in ("matched", "total", "percent", "threshold")},
            )
        cli.say(announcement(cli.plugins, kind, count, chosen))
        if not cli.confirm("Proceed?", "--yes"):
            cli.say("nothing was changed")
            return 1
        # What was shown is what happens, whatever has changed meanwhile.
        asked = {"plan": preview["plan"]}
    result = execute(**asked, **({"force": True} if force else {}))
    if not cli.json and not result["matched"]:
        cli.print(f"no {kind.over} match: {describe(cli.plugins, chosen)}")
        return 0
    cli.result(
        result,
        f"{result['succeeded']} of {result['matched']} {kind.over} done, {result['failed']} failed (job {result['job_id']})",
    )
    for item in [] if cli.json else result["errors"][:20]:
        name = "chunk" if kind.over == "chunks" else "document"
        cli.say(f"{name} {item[f'{name}_id']}: {item['error']}")
    return 1 if result["failed"] else 0


def _operation_flags(kind: MutationKind) -> dict[str, tuple[Any, str, str]]:
    found = {}
    for field, info in resolve(kind.target).model_fields.items():
        flag = next((item.name for item in info.metadata if isinstance(item, Flag)), _flag(field))
        found[field] = (info.annotation, flag, info.description or "")
    return found


def _filter_type(target: str) -> Any:
    return inspect.signature(resolve(target), eval_str=True).parameters["value"].annotation


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _cli_type(annotation: Any) -> Any:
    """What the command line takes for a body's field: lists are comma-separated."""
    bare = _bare(annotation)
    if typing.get_origin(bare) is list:
        return CommaNumbersOrNone if _bare(typing.get_args(bare)[0]) is int else CommaListOrNone
    return (bare if bare in (int, float, bool) else str) | None


def _bare(annotation: Any) -> Any:
    """Without `Annotated` and `| None`."""
    if typing.get_origin(annotation) is Annotated:
        return _bare(typing.get_args(annotation)[0])
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    return _bare(parts[0]) if type(None) in typing.get_args(annotation) else annotation
