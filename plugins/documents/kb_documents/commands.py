"""Commands: note, list, show, remove, tag, tags, jobs."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.console import STDIN, Cli, pairs
from kb_framework.csv import CommaList, CommaListOrNone
from kb_framework.errors import ConfigInvalid, EngineError

Flag = Parameter(negative=())
# Characters of a cell in a list of jobs.
_CELL = 120


def note(
    text: str | None = None,
    *,
    title: str | None = None,
    tags: CommaListOrNone = None,
    type: str | None = None,
    cli: Cli,
) -> None:
    """Add a note; without a text it is read from standard input.

    Parameters
    ----------
    text
        The note, in Markdown.
    title
        By default the first line.
    tags
        Comma-separated.
    type
        The document type; "note" by default.

    Examples
    --------
    kb note "Keys are rotated every 90 days" --tags security
    kb note - --title Minutes < minutes.txt
    """
    if text is None or text == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigInvalid("give the note's text, or pipe it in")
        text = sys.stdin.read()
    added = cli.engine.add_note(text, title=title, tags=tags, doc_type=type)
    cli.result(added, f"added document {added['document']['id']}: {added['document']['title']}")


def list_documents(
    *,
    tags: CommaListOrNone = None,
    type: str | None = None,
    q: str | None = None,
    sort: Annotated[str, Parameter(allow_leading_hyphen=True)] = "id",
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
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb list --tags draft,old
    kb list --type note --sort -updated_at --json
    """
    found = cli.engine.list_documents(tags=tags, doc_type=type, q=q, sort=sort, page=page, per_page=per_page)
    rows = [
        (
            item["id"],
            item["doc_type"],
            item["title"],
            ",".join(item["tags"]),
            item["chunk_count"],
            item["updated_at"][:10],
        )
        for item in found["data"]
    ]
    cli.table(found, rows, ("id", "type", "title", "tags", "chunks", "updated"))
    _say_page(cli, found["meta"])


def _say_page(cli: Cli, meta: dict[str, int]) -> None:
    if meta["total_pages"] > 1:
        cli.say(f"page {meta['page']} of {meta['total_pages']}, {meta['total']} in all")


def show(document_id: int, *, text: Annotated[bool, Flag] = False, file: Annotated[bool, Flag] = False, cli: Cli) -> None:
    """Show a document.

    Parameters
    ----------
    document_id
        Its id.
    text
        Print its text.
    file
        Write the stored file to standard output, as it came.

    Examples
    --------
    kb show 42
    kb show 42 --text
    """
    if file:
        sys.stdout.buffer.write(cli.engine.get_file(document_id))
        return
    document = cli.engine.get_document(document_id)
    if text:
        chunks = cli.engine.get_document_chunks(document_id)
        cli.result({**document, "chunks": chunks}, "\n\n".join(chunk["content"] for chunk in chunks))
    else:
        cli.result(document, pairs({**document, "tags": ", ".join(document["tags"])}))


def remove(*ids: int, yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False, cli: Cli) -> int:
    """Delete documents by id, for good.

    Parameters
    ----------
    ids
        The documents.
    yes
        Do not ask.

    Examples
    --------
    kb remove 42 43
    """
    if not ids:
        raise ConfigInvalid("give the ids of documents to delete")
    if not yes:
        for number in ids:
            cli.say(f"{number}: {cli.engine.get_document(number)['title']}")
        if not cli.confirm(f"Delete {len(ids)} document{'s' * (len(ids) > 1)}?", "--yes"):
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
    cli.result({"removed": removed, "failed": failed}, f"{len(removed)} removed, {len(failed)} failed")
    return 1 if failed else 0


def tag(
    document_id: int,
    *,
    add: CommaList = (),
    remove: CommaList = (),
    set: CommaListOrNone = None,
    cli: Cli,
) -> None:
    """Add, remove or replace the tags of a document; without flags, show them.

    Parameters
    ----------
    document_id
        Its id.
    add
        Tags to add, comma-separated.
    remove
        Tags to remove, comma-separated.
    set
        The tags it shall have, instead of all others.

    Examples
    --------
    kb tag 42 --add reviewed --remove draft
    """
    if set is not None and (add or remove):
        raise ConfigInvalid("--set replaces all tags; it does not go with --add or --remove")
    document = cli.engine.get_document(document_id)
    wanted = set if set is not None else [t for t in [*document["tags"], *add] if t not in remove]
    if set is not None or add or remove:
        document = cli.engine.set_document_tags(document_id, list(dict.fromkeys(wanted)))
    cli.result({"id": document_id, "tags": document["tags"]}, ", ".join(document["tags"]))


def tags(*, page: int = 1, per_page: int = 100, cli: Cli) -> None:
    """List tags with how many documents have each, most used first.

    Examples
    --------
    kb tags
    """
    found = cli.engine.list_tags(page=page, per_page=per_page)
    cli.table(found, [(item["count"], item["tag"]) for item in found["data"]], ("documents", "tag"))
    _say_page(cli, found["meta"])


def rename_tag(old: str, new: str, *, cli: Cli) -> int:
    """Rename a tag on every document; a name in use is refused (merge instead).

    Examples
    --------
    kb tags rename draft drafts
    """
    return _changed(cli, cli.engine.rename_tag(old, new))


def merge_tags(*tags: str, into: str, cli: Cli) -> int:
    """Replace several tags by one, on every document that has any of them.

    Examples
    --------
    kb tags merge todo,to-do --into tasks
    """
    return _changed(cli, cli.engine.merge_tags(list(tags), into))


def _changed(cli: Cli, result: dict[str, Any]) -> int:
    cli.result(result, f"{result['succeeded']} documents changed, {result['failed']} failed")
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
    told = {str(called.get(name, name)): job[name] for name in job if name not in {"error", "document_id", "user_id"}}
    cli.print(pairs(told))
    if errors:
        columns = list(errors[0])
        cli.print("")
        cli.table(errors, [[item[name] for name in columns] for item in errors], columns)
