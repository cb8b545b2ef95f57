"""Commands: note, list, show, remove, tag, tags, jobs."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.bootstrap import split_list
from kb_framework.edges.cli.console import STDIN, Cli, harmless, pairs
from kb_framework.edges.cli.lists import CommaList, CommaListOrNone
from kb_framework.errors import ConfigInvalid, EngineError, SafetyThresholdExceeded
from kb_framework.messages import plural

Flag = Parameter(negative=())
# Columns that a terminal needs to show a list of documents with all its columns.
_WIDE = 100
# Characters of a cell in a list of jobs.
_CELL = 120


def note(
    *text: str,
    title: str | None = None,
    tags: CommaListOrNone = None,
    type: str | None = None,
    source_ref: str | None = None,
    source_title: str | None = None,
    cli: Cli,
) -> None:
    """Add a note; without a text it is read from standard input.

    Parameters
    ----------
    text
        The note, in Markdown; several words need no quotes.
    title
        By default the first line.
    tags
        Comma-separated.
    type
        The document type; "note" by default.
    source_ref
        Where it is from, such as an address; hits cite it.
    source_title
        The title of the source.

    Examples
    --------
    kb note Keys are rotated every 90 days --tags security
    kb note - --title Minutes < minutes.txt
    """
    content = " ".join(text)
    if not text or content == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigInvalid("no text given: kb note TEXT, or pipe it in")
        content = sys.stdin.read()
    added = cli.engine.add_note(
        content,
        title=title,
        tags=tags,
        doc_type=type,
        source_ref=source_ref,
        source_title=source_title,
    )
    cli.result(added, f"added document {added['document']['id']}: {added['document']['title']}")


def list_documents(
    *,
    tags: CommaListOrNone = None,
    type: str | None = None,
    q: str | None = None,
    sort: Annotated[str, Parameter(allow_leading_hyphen=True)] = "id",
    missing: Annotated[bool, Flag] = False,
    page: int = 1,
    per_page: int = 20,
    cli: Cli,
) -> None:
    """List documents.

    Parameters
    ----------
    tags
        Only documents that have all of these.
    type
        Only documents of this type.
    q
        Part of the title or path.
    sort
        id, title, created_at, updated_at, bytes or doc_type; with - in front for descending.
    missing
        Only documents whose files vanished from a synced folder.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb list --tags draft,old
    kb list --type note --sort -updated_at --json
    """
    found = cli.engine.list_documents(
        tags=tags,
        doc_type=type,
        q=q,
        sort=sort,
        missing=missing or None,
        page=page,
        per_page=per_page,
    )
    rows = [
        (
            item["id"],
            item["doc_type"],
            item["title"],
            ",".join(item["tags"]),
            item["chunk_count"],
            item["updated_at"][:10],
            item["path"] or "",
        )
        for item in found["data"]
    ]
    columns = ("id", "type", "title", "tags", "chunks", "updated", "path")
    # A narrow terminal has room for what one looks for and types: id, title, tags, path.
    shown = (0, 2, 3, 6) if cli.width < _WIDE else range(len(columns))
    cli.table(
        found,
        [[row[index] for index in shown] for row in rows],
        [columns[index] for index in shown],
    )
    cli.hint(found)
    _say_page(cli, found["meta"])


def _say_page(cli: Cli, meta: dict[str, int]) -> None:
    if meta["total_pages"] > 1:
        cli.say(f"page {meta['page']} of {meta['total_pages']}, {meta['total']} in all")


def show(
    document: str,
    *,
    text: Annotated[bool, Flag] = False,
    file: Annotated[bool, Flag] = False,
    cli: Cli,
) -> None:
    """Show a document.

    Parameters
    ----------
    document
        Its id, path or title.
    text
        Print its text.
    file
        Write the stored file to standard output, as it came.

    Examples
    --------
    kb show 42
    kb show 42 --text
    """
    found = cli.engine.find_document(document)
    number = found["id"]
    if file:
        sys.stdout.buffer.write(cli.engine.get_file(number))
        return
    if text:
        chunks = cli.engine.get_document_chunks(number)
        cli.result({**found, "chunks": chunks}, "\n\n".join(chunk["content"] for chunk in chunks))
    else:
        # Files with the same content are one document.
        copies = [
            source["path"]
            for source in cli.engine.get_sources(number)
            if source["path"] != found["path"]
        ]
        shown = {**found, "copies": copies} if copies else found
        cli.result(
            shown,
            pairs(
                {**shown, "tags": ", ".join(found["tags"])}
                | ({"copies": ", ".join(copies)} if copies else {})
            ),
        )


def remove(
    *documents: str,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    dry_run: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Delete documents for good.

    Parameters
    ----------
    documents
        Their ids, paths or titles.
    yes
        Do not ask.
    dry_run
        Show what would be deleted, and delete nothing.

    Examples
    --------
    kb remove 42 43
    """
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
    failed: list[dict[str, Any]] = []
    for number in ids:
        try:
            cli.engine.delete_document(number)
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
    document: str,
    *,
    add: CommaList = (),
    remove: CommaList = (),
    set: CommaListOrNone = None,
    cli: Cli,
) -> None:
    """Add, remove or replace the tags of a document; without flags, show them.

    Parameters
    ----------
    document
        Its id, path or title.
    add
        Tags to add, comma-separated.
    remove
        Tags to remove, comma-separated.
    set
        Tags that replace all others, comma-separated; [] removes all.

    Examples
    --------
    kb tag 42 --add reviewed --remove draft
    """
    if set is not None and (add or remove):
        raise ConfigInvalid("--set replaces all tags; it does not go with --add or --remove")
    found = cli.engine.find_document(document)
    wanted = set if set is not None else [t for t in [*found["tags"], *add] if t not in remove]
    if set is not None or add or remove:
        found = cli.engine.set_document_tags(found["id"], list(dict.fromkeys(wanted)))
    cli.result({"id": found["id"], "tags": found["tags"]}, ", ".join(found["tags"]))


def tags(*, page: int = 1, per_page: int = 100, cli: Cli) -> None:
    """List tags with how many documents have each, most used first.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb tags
    """
    found = cli.engine.list_tags(page=page, per_page=per_page)
    cli.table(found, [(item["count"], item["tag"]) for item in found["data"]], ("documents", "tag"))
    _say_page(cli, found["meta"])


def rename_tag(old: str, new: str, *, cli: Cli) -> int:
    """Rename a tag on every document; a name in use is refused (merge instead).

    Parameters
    ----------
    old
        The tag as it is.
    new
        The tag as it will be.

    Examples
    --------
    kb tags rename draft drafts
    """
    return _changed(cli, cli.engine.rename_tag(old, new))


def merge_tags(
    *tags: str,
    into: str,
    force: Annotated[bool, Parameter(name=["--force", "-f"], negative=())] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    dry_run: Annotated[bool, Flag] = False,
    cli: Cli,
) -> int:
    """Replace several tags by one, on every document that has any of them.

    Parameters
    ----------
    tags
        The tags to replace, comma-separated or one after the other.
    into
        The tag that replaces them.
    force
        Proceed although the safety threshold is exceeded.
    yes
        Do not ask.
    dry_run
        Show what would be changed, and change nothing.

    Examples
    --------
    kb tags merge todo,to-do --into tasks
    """
    old = [tag for part in tags for tag in split_list(part)]
    if dry_run or not yes:
        found = cli.engine.merge_tags(old, into, preview=True)
        documents = f"{found['matched']} of {found['total']} documents"
        if dry_run:
            cli.result(found, f"would replace {', '.join(old)} by {into} on {documents}")
        else:
            if found["exceeds"] and not force:
                raise SafetyThresholdExceeded(
                    f"this would change {documents} ({found['percent']}%), "
                    f"more than the safety threshold of {found['threshold']}%",
                    hint="--force proceeds all the same",
                    **{name: found[name] for name in ("matched", "total", "percent", "threshold")},
                )
            cli.say(f"This will replace {', '.join(old)} by {into} on {documents}:")
        for item in found["sample"] if not cli.json else ():
            cli.say(f"  {item['id']}: {item['title']}")
        if not cli.json and found["matched"] > len(found["sample"]):
            cli.say(f"  … and {found['matched'] - len(found['sample'])} more")
        if dry_run:
            return 0
        if found["matched"] and not cli.confirm("Proceed?", "--yes"):
            cli.say("nothing was changed")
            return 1
    return _changed(cli, cli.engine.merge_tags(old, into, force=force or None))


def _changed(cli: Cli, result: dict[str, Any]) -> int:
    done = f"{plural(result['succeeded'], 'document')} changed, {result['failed']} failed"
    cli.result(result, f"{done} (job {result['job_id']})")
    for item in result["errors"] if not cli.json else ():
        cli.say(f"document {item['document_id']}: {item['error']}")
    return 1 if result["failed"] else 0


def jobs(
    *,
    type: str | None = None,
    status: Literal["done", "failed", "partial_failure", "duplicate"] | None = None,
    page: int = 1,
    per_page: int = 20,
    cli: Cli,
) -> None:
    """List jobs, newest first: what was ingested or changed, and how it went.

    Parameters
    ----------
    type
        ingest, bulk_delete, bulk_tags, bulk_set_tags …
    status
        Only jobs that ended so.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb jobs --status failed
    kb jobs --type bulk_delete --json
    """
    found = cli.engine.list_jobs(job_type=type, status=status, page=page, per_page=per_page)
    columns = (
        "id",
        "job_type",
        "status",
        "filename",
        "matched",
        "succeeded",
        "failed",
        "created_at",
        "error",
    )
    cli.table(found, [[_cut(item[name]) for name in columns] for item in found["data"]], columns)
    _say_page(cli, found["meta"])


def _cut(value: Any) -> Any:
    """A filter may name a hundred thousand documents: in a list its beginning is enough."""
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value


def show_job(job_id: int, *, cli: Cli) -> None:
    """Show one job: who did what, to how many, with which filter, and what went wrong.

    Parameters
    ----------
    job_id
        Its number, as `kb jobs` shows it.

    Examples
    --------
    kb jobs show 17
    """
    job = cli.engine.get_job(job_id)
    if cli.json or job["matched"] is None:
        cli.result(job, pairs(job))
        return
    # A job over a selection keeps its filter where others keep a file's name, and a list of errors instead of a sentence.
    errors = json.loads(job["error"] or "[]")
    called = {"filename": "filter", "user": "by"}
    told = {
        str(called.get(name, name)): job[name]
        for name in job
        if name not in {"error", "document_id", "user_id"}
    }
    cli.print(pairs(told))
    if errors:
        columns = list(errors[0])
        cli.print("")
        cli.table(errors, [[item[name] for name in columns] for item in errors], columns)
