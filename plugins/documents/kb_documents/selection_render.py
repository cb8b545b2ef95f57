"""What commands print of lists, views and counts."""

from __future__ import annotations

from typing import Any

from kb_documents.render import say_page
from kb_framework.api.cli import Cli, pairs

Answer = dict[str, Any]
# Columns that a terminal needs to show a list of documents with all its columns.
_WIDE = 100


def documents(cli: Cli, answer: Answer, _: Answer) -> None:
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
        for item in answer["data"]
    ]
    columns = ("id", "type", "title", "tags", "chunks", "updated", "path")
    # A narrow terminal has room for what one looks for and types: id, title, tags, path.
    shown = (0, 2, 3, 6) if cli.width < _WIDE else range(len(columns))
    cli.table(
        answer,
        [[row[index] for index in shown] for row in rows],
        [columns[index] for index in shown],
    )
    cli.hint(answer)
    say_page(cli, answer["meta"])


def views(cli: Cli, answer: Answer, _: Answer) -> None:
    rows = [
        (item["name"], _filters(item), item["description"] or "", item["problem"] or "")
        for item in answer["data"]
    ]
    cli.table(answer, rows, ("name", "filters", "description", "problem"))


def view(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, pairs({**answer, "filters": _filters(answer)}))


def saved(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, f"saved {answer['name']}: {_filters(answer)}")


def removed(cli: Cli, _: Any, given: Answer) -> None:
    cli.result({"removed": given["name"]}, f"removed {given['name']}; its documents stay")


def facets(cli: Cli, answer: Answer, _: Answer) -> None:
    rows = [
        (name, "(none)" if item["value"] is None else item["value"], item["count"])
        for name, values in answer.items()
        if isinstance(values, list)
        for item in values
    ]
    cli.table(answer, [("documents", "", answer["documents"]), *rows], ("by", "value", "documents"))
    cli.hint(answer)


def _filters(item: Answer) -> str:
    return " ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in item["filters"].items()
    )
