"""Commands: one per mutation kind. Each shows what it will do and asks, before it does it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from kb_bulk.models import body_model
from kb_bulk.wording import announcement, describe, noun, sample_lines
from kb_framework.api import MutationKind, SelectionFilter, resolve
from kb_framework.edges.cli.console import Cli
from kb_framework.edges.cli.lists import CommaListOrNone, CommaNumbersOrNone, says_commas
from kb_framework.edges.cli.operations import Option, cli_type, flag_names, flag_of, shaped
from kb_framework.errors import (
    ConfigInvalid,
    MutationRefused,
    PluginFailed,
    SafetyThresholdExceeded,
)
from kb_framework.messages import plural
from kb_framework.pipelines.selection import Selector, check_contributions
from kb_framework.plugins import Plugins

# Types of options whose values are separated by commas.
_LISTS = (CommaListOrNone, CommaNumbersOrNone)
# How many objections or errors are listed.
_SHOWN = 20
_SWITCHES = {
    "force": (["--force", "-f"], "Proceed although the safety threshold is exceeded."),
    "yes": (["--yes", "-y"], "Do not ask."),
    "dry_run": (["--dry-run"], "Show what would be changed, and change nothing."),
}


def build(plugins: Plugins, name: str) -> Callable[..., int]:
    check_contributions(plugins)
    kind = next((kind for kind in plugins.kinds if kind.command_name == name), None)
    if kind is None:
        raise PluginFailed(f"the command {name!r} cannot be used", hint="kb plugins says why")

    def command(
        *, force: bool = False, yes: bool = False, dry_run: bool = False, cli: Cli, **given: Any
    ) -> int:
        chosen = {key: value for key, value in given.items() if value is not None}
        return _run(cli, kind, chosen, force=force, yes=yes, dry_run=dry_run)

    fields = body_model(plugins, kind).model_fields
    flags = {item.name: [_filter_flag(item)] for item in Selector(plugins).offered(kind.over)}
    flags |= {
        field: flag_names(Option(field, fields[field]))
        for field in resolve(kind.target).model_fields
    }
    options = [
        *(
            _option(field, fields[field].annotation, names, fields[field].description or "")
            for field, names in flags.items()
        ),
        *(_option(field, bool, names, help, False) for field, (names, help) in _SWITCHES.items()),
    ]
    help = f"{kind.help} Filters select the {kind.over}: at least one is needed, and all that are given must match."
    return shaped(command, options, help, (f"kb {name} {kind.example}",) if kind.example else ())


def _run(
    cli: Cli, kind: MutationKind, given: dict[str, Any], *, force: bool, yes: bool, dry_run: bool
) -> int:
    filters = Selector(cli.plugins).offered(kind.over)
    chosen = {item.name: given[item.name] for item in filters if item.name in given}
    if not chosen:
        flags = ", ".join(map(_filter_flag, filters))
        raise ConfigInvalid(f"no selection: give at least one of {flags}")
    for field, info in resolve(kind.target).model_fields.items():
        if info.is_required() and field not in given:
            help = info.description or ""
            raise ConfigInvalid(
                f"{flag_names(Option(field, info))[0]} is required: {help[:1].lower()}{help[1:]}"
            )
    execute = getattr(cli.engine, f"bulk_{kind.name}")
    asked: dict[str, Any] = given
    if dry_run or not yes:
        with cli.interruptible("nothing was changed"):
            preview = cli.engine.bulk_preview(kind.name, **given)
        count = preview["matched"]
        if not count:
            cli.result(preview, f"no {kind.over} match: {describe(cli.plugins, chosen)}")
            cli.hint(preview)
            return 0
        if dry_run:
            if not cli.json:
                cli.print("\n".join(sample_lines(kind, preview)))
            told = announcement(cli.plugins, kind, count, chosen).replace(
                "This will", "This would", 1
            )
            cli.result(
                preview, told + ("; --force is needed" if preview["exceeds"] and not force else "")
            )
            for line in [] if cli.json else _objections(kind, preview):
                cli.say(line)
            return 0
        if preview["exceeds"] and not force:
            raise SafetyThresholdExceeded(
                f"this would {kind.verb} {count} of {plural(preview['total'], noun(kind))} ({preview['percent']}%), "
                f"more than the safety threshold of {preview['threshold']}%",
                hint="--force proceeds all the same",
                **{name: preview[name] for name in ("matched", "total", "percent", "threshold")},
            )
        for line in sample_lines(kind, preview):
            cli.say(line)
        cli.say(announcement(cli.plugins, kind, count, chosen))
        _say_objections(cli, kind, preview)
        with cli.interruptible("nothing was changed"):
            proceed = cli.confirm("Proceed?", "--yes")
        if not proceed:
            cli.say("nothing was changed")
            return 1
        # What was shown is what happens, whatever has changed meanwhile.
        asked = {"plan": preview["plan"]}
    with cli.interruptible("either all of it was done or nothing; kb jobs lists it if it was done"):
        result = execute(**asked, **({"force": True} if force else {}))
    if not cli.json and not result["matched"]:
        cli.print(f"no {kind.over} match: {describe(cli.plugins, chosen)}")
        cli.hint(result)
        return 0
    done = f"{result['succeeded']} of {plural(result['matched'], noun(kind))} done, {result['failed']} failed"
    cli.result(result, f"{done} (job {result['job_id']})")
    for item in [] if cli.json else result["errors"][:_SHOWN]:
        name = noun(kind)
        cli.say(f"{name} {item[f'{name}_id']}: {item['error']}")
    return 1 if result["failed"] else 0


def _say_objections(cli: Cli, kind: MutationKind, preview: dict[str, Any]) -> None:
    """Say what guards will refuse; where that is everything, there is nothing to ask."""
    lines = _objections(kind, preview)
    if lines and preview["refused"] == preview["matched"]:
        raise MutationRefused(lines[1].strip())
    for line in lines:
        cli.say(line)


def _objections(kind: MutationKind, preview: dict[str, Any]) -> list[str]:
    """What guards will refuse, line by line."""
    name = noun(kind)
    lines = [f"{preview['refused']} of them will be refused:"] if preview["objections"] else []
    for item in preview["objections"][:_SHOWN]:
        number = item[f"{name}_id"]
        lines.append(
            f"  {item['error']}" if number is None else f"  {name} {number}: {item['error']}"
        )
    return lines


def _option(
    field: str, type_: Any, names: list[str], help: str, default: Any = None
) -> inspect.Parameter:
    taken = _taken(type_) if default is None else type_
    if taken in _LISTS:
        help = says_commas(help)
    annotation = Annotated[taken, Parameter(name=names, help=help, negative=())]
    return inspect.Parameter(
        field, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def _taken(annotation: Any) -> Any:
    """Return what a flag takes. A word of a choice is any text: what the engine says of a wrong one is the same everywhere."""
    taken = cli_type(annotation)
    if taken is bool:
        return bool | None
    return taken if taken in (*_LISTS, int | None, float | None) else str | None


def _filter_flag(item: SelectionFilter) -> str:
    return item.flag or flag_of(item.name)
