"""What commands print of research."""

from __future__ import annotations

from typing import Any

from kb_framework.api.cli import Cli


def found(cli: Cli, answer: dict[str, Any], _: dict[str, Any]) -> int:
    if answer["hint"]:
        cli.say(f"kb: {answer['hint']}")
    if cli.json:
        cli.result(answer)
    else:
        for number, item in enumerate(answer["results"], 1):
            cli.print(_snippet(number, item))
        if not answer["results"]:
            cli.say("nothing found")
    return 0 if answer["results"] else 1


def shown(cli: Cli, answer: dict[str, Any], given: dict[str, Any]) -> int:
    if cli.json:
        cli.result(answer)
        return 0
    return found(cli, {"hint": None, **answer}, given)


def _snippet(number: int, item: dict[str, Any]) -> str:
    state = (
        f"here as {item['chunk_id']}"
        if item["chunk_id"]
        else f"{item['suggested_kind']}, {item['suggested_policy']}?"
    )
    head = f"{number}. {item['source_title'] or ''}  {item['source_ref'] or ''}  ({item['source_type']}; {state})"
    return f"{head}\n   {' '.join(item['snippet_text'].split())[:300]}\n"


def added(cli: Cli, answer: dict[str, Any], _: dict[str, Any]) -> None:
    words = "added" if answer["status"] == "created" else "already here:"
    cli.result(answer, f"{words} chunk {answer['chunk_id']} of document {answer['document_id']}")


def recent(cli: Cli, answer: dict[str, Any], _: dict[str, Any]) -> None:
    rows = [
        (item["id"], item["created_at"], len(item["results"]), " ".join(item["query"].split())[:80])
        for item in answer["data"]
    ]
    cli.table(answer, rows, ("id", "time", "results", "query"))
