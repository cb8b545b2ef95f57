"""What commands print of documents, tags and jobs."""

from __future__ import annotations

import json
from typing import Any

from kb_framework.api.cli import Cli, pairs
from kb_framework.api.messages import plural

Answer = dict[str, Any]
# Characters of a cell in a list of jobs.
_CELL = 120


def added(cli: Cli, answer: Answer, _: Answer) -> None:
    document = answer["document"]
    cli.result(answer, f"added document {document['id']}: {document['title']}")


def say_page(cli: Cli, meta: dict[str, int]) -> None:
    if meta["total_pages"] > 1:
        cli.say(f"page {meta['page']} of {meta['total_pages']}, {meta['total']} in all")


# Tags


def tags(cli: Cli, answer: Answer, _: Answer) -> None:
    rows = [(item["count"], item["tag"]) for item in answer["data"]]
    cli.table(answer, rows, ("documents", "tag"))
    say_page(cli, answer["meta"])


def changed(cli: Cli, answer: Answer, _: Answer) -> int:
    done = f"{plural(answer['succeeded'], 'document')} changed, {answer['failed']} failed"
    cli.result(answer, f"{done} (job {answer['job_id']})")
    for item in answer["errors"] if not cli.json else ():
        cli.say(f"document {item['document_id']}: {item['error']}")
    return 1 if answer["failed"] else 0


# Jobs


def jobs(cli: Cli, answer: Answer, _: Answer) -> None:
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
    cli.table(answer, [[_cut(item[name]) for name in columns] for item in answer["data"]], columns)
    say_page(cli, answer["meta"])


def _cut(value: Any) -> Any:
    """Return the beginning of a long text: a filter may name a hundred thousand documents."""
    return f"{value[:_CELL]}…" if isinstance(value, str) and len(value) > _CELL else value


def job(cli: Cli, answer: Answer, _: Answer) -> None:
    if cli.json or answer["matched"] is None:
        cli.result(answer, pairs(answer))
        return
    # A job over a selection keeps its filter where others keep a file's name, and a list of errors instead of a sentence.
    errors = json.loads(answer["error"] or "[]")
    called = {"filename": "filter", "user": "by"}
    shown = {
        called.get(name, name): value
        for name, value in answer.items()
        if name not in {"error", "document_id", "user_id"}
    }
    cli.print(pairs(shown))
    if errors:
        columns = list(errors[0])
        cli.print("")
        cli.table(errors, [[item[name] for name in columns] for item in errors], columns)
