"""The command of every mutation kind: it shows what it will do, and asks before it does it."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from kb_bulk.wording import announcement, describe, noun, sample_lines
from kb_framework.api import MutationKind, Operation, SelectionFilter, resolve
from kb_framework.api.cli import Cli, Option, flag_names, flag_of
from kb_framework.api.messages import plural
from kb_framework.api.parts import Selector
from kb_framework.errors import ConfigInvalid, MutationRefused, SafetyThresholdExceeded

# How many objections or errors are listed.
_SHOWN = 20
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative=())]
DryRun = Annotated[
    bool, Parameter(help="Show what would be changed, and change nothing.", negative=())
]


def run(
    cli: Cli,
    operation: Operation[Any, Any],
    values: dict[str, Any],
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Show what a kind would do, ask, and do it."""
    kind: MutationKind = operation.subject
    force, given = bool(values.pop("force", False)), values
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
        result = cli.engine.run(operation, {**asked, **({"force": True} if force else {})})
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


def _filter_flag(item: SelectionFilter) -> str:
    return item.flag or flag_of(item.name)
