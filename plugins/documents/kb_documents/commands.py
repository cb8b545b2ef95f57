"""Commands on documents and tags that are more than one call."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from kb_documents import render
from kb_framework.api import Operation
from kb_framework.api.cli import Cli, CommaList, CommaListOrNone, harmless, pairs
from kb_framework.api.messages import plural
from kb_framework.api.models import split_list
from kb_framework.errors import ConfigInvalid, EngineError, SafetyThresholdExceeded

Values = dict[str, Any]
Flag = Parameter(negative=())
Documents = Annotated[str, Parameter(help="Their ids, paths or titles.")]
Document = Annotated[str, Parameter(help="Its id, path or title.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative=())]


def show(
    cli: Cli,
    operation: Operation[Any, Any],
    values: Values,
    *,
    text: Annotated[bool, Parameter(help="Print its text.", negative=())] = False,
    file: Annotated[
        bool, Parameter(help="Write the stored file to standard output, as it came.", negative=())
    ] = False,
) -> None:
    found = cli.engine.run(operation, values)
    number = found["id"]
    if file:
        for part in cli.engine.download("get_file", document_id=number):
            sys.stdout.buffer.write(part)
    elif text:
        chunks = cli.engine.get_document_chunks(number)["data"]
        cli.result({**found, "chunks": chunks}, "\n\n".join(chunk["content"] for chunk in chunks))
    else:
        _show_fields(cli, found)


def _show_fields(cli: Cli, found: Values) -> None:
    # Files with the same content are one document.
    sources = cli.engine.get_sources(found["id"])["data"]
    copies = [source["path"] for source in sources if source["path"] != found["path"]]
    shown = {**found, "copies": copies} if copies else found
    listed = {"tags": ", ".join(found["tags"])}
    listed |= {"copies": ", ".join(copies)} if copies else {}
    cli.result(shown, pairs({**shown, **listed}))


def remove(
    cli: Cli,
    operation: Operation[Any, Any],
    _: Values,
    *documents: Documents,
    yes: Yes = False,
    dry_run: Annotated[
        bool, Parameter(help="Show what would be deleted, and delete nothing.", negative=())
    ] = False,
) -> int:
    if not documents:
        raise ConfigInvalid("no document given: kb remove ID, or its path or title")
    ids = [
        int(named) if named.isdecimal() else cli.engine.find_document(named)["id"]
        for named in documents
    ]
    if dry_run or not yes:
        found = [cli.engine.get_document(number) for number in ids]
        for item in () if cli.json else found:
            cli.say(
                f"  {item['id']}  {harmless(item['title'])}"
                + (f"  {harmless(item['path'])}" if item["path"] else "")
            )
        if dry_run:
            cli.result({"would_remove": ids}, f"This would delete {plural(len(ids), 'document')}")
            return 0
        if not cli.confirm(f"Delete {plural(len(ids), 'document')}?", "--yes"):
            cli.say("nothing was deleted")
            return 1
    removed: list[int] = []
    failed: list[Values] = []
    for number in ids:
        try:
            cli.engine.run(operation, {"document_id": number})
            removed.append(number)
        except EngineError as error:
            if error.http_status >= 500:
                raise
            failed.append({"document_id": number, "error": error.message})
            if not cli.json:
                cli.say(f"kb: {error.message}")
    cli.result(
        {"removed": removed, "failed": failed}, f"{len(removed)} removed, {len(failed)} failed"
    )
    return 1 if failed else 0


def tag(
    cli: Cli,
    operation: Operation[Any, Any],
    _: Values,
    document: Document,
    *,
    add: Annotated[CommaList, Parameter(help="Tags to add, comma-separated.")] = (),
    remove: Annotated[CommaList, Parameter(help="Tags to remove, comma-separated.")] = (),
    set: Annotated[
        CommaListOrNone,
        Parameter(help="Tags that replace all others, comma-separated; [] removes all."),
    ] = None,
) -> None:
    if set is not None and (add or remove):
        raise ConfigInvalid("--set replaces all tags; it does not go with --add or --remove")
    found = cli.engine.find_document(document)
    wanted = set if set is not None else [t for t in [*found["tags"], *add] if t not in remove]
    if set is not None or add or remove:
        tags = list(dict.fromkeys(wanted))
        found = cli.engine.run(operation, {"document_id": found["id"], "tags": tags})
    cli.result({"id": found["id"], "tags": found["tags"]}, ", ".join(found["tags"]))


def merge_tags(
    cli: Cli,
    operation: Operation[Any, Any],
    values: Values,
    *,
    yes: Yes = False,
    dry_run: Annotated[
        bool, Parameter(help="Show what would be changed, and change nothing.", negative=())
    ] = False,
) -> int:
    old = [tag for part in values["tags"] for tag in split_list(part)]
    values = {**values, "tags": old}
    if dry_run or not yes:
        found = cli.engine.run(operation, {**values, "preview": True})
        if dry_run:
            documents = _share_of(found)
            cli.result(found, f"would replace {', '.join(old)} by {values['into']} on {documents}")
        else:
            _announce(cli, found, values)
        if not cli.json:
            _say_sample(cli, found)
        if dry_run:
            return 0
        if found["matched"] and not cli.confirm("Proceed?", "--yes"):
            cli.say("nothing was changed")
            return 1
    return render.changed(cli, cli.engine.run(operation, values), values)


def _announce(cli: Cli, found: Values, values: Values) -> None:
    if found["exceeds"] and not values.get("force"):
        raise SafetyThresholdExceeded(
            f"this would change {_share_of(found)} ({found['percent']}%), "
            f"more than the safety threshold of {found['threshold']}%",
            hint="--force proceeds all the same",
            **{name: found[name] for name in ("matched", "total", "percent", "threshold")},
        )
    replaced = f"{', '.join(values['tags'])} by {values['into']}"
    cli.say(f"This will replace {replaced} on {_share_of(found)}:")


def _say_sample(cli: Cli, found: Values) -> None:
    for item in found["sample"]:
        cli.say(f"  {item['id']}: {item['title']}")
    if found["matched"] > len(found["sample"]):
        cli.say(f"  … and {found['matched'] - len(found['sample'])} more")


def _share_of(found: Values) -> str:
    return f"{found['matched']} of {found['total']} documents"
