"""What commands print of knowledge."""

from __future__ import annotations

from typing import Any

from kb_framework.api.cli import Cli, harmless, pairs

Answer = dict[str, Any]

# Columns that a terminal needs to show chunks in a table.
_WIDE = 120


def chunks(cli: Cli, answer: Answer, _: Answer) -> None:
    columns = ("id", "document", "active", "kind", "policy", "source", "text")
    rows = [
        (
            item["id"],
            item["document_id"],
            "yes" if item["is_active"] else "no",
            item["chunk_kind"],
            item["usage_policy"],
            item["source_type"],
            " ".join((item["preview"] or "").split())[:80],
        )
        for item in answer["data"]
    ]
    if cli.json or cli.width >= _WIDE:
        cli.table(answer, rows, columns)
    else:
        for chunk_id, document, active, kind, policy, source, text in rows:
            states = ["inactive" if active == "no" else "", kind, policy, source or ""]
            cli.print(f"{chunk_id}  document {document}: {', '.join(filter(None, states))}")
            cli.print(f"   {harmless(text)}\n")
    cli.hint(answer)


def chunk(cli: Cli, answer: Answer, _: Answer) -> None:
    apart = {"content", "preview", "events"}
    about = {name: value for name, value in answer.items() if name not in apart}
    log = "\n".join(_event_line(event) for event in answer["events"])
    cli.result(answer, "\n\n".join(part for part in (pairs(about), answer["content"], log) if part))


def events(cli: Cli, answer: Answer, _: Answer) -> None:
    columns = ("time", "event", "chunk", "before", "after", "user", "reason")
    rows = [
        (
            event["created_at"],
            event["event_type"],
            event["chunk_id"],
            _short(event["before"]),
            _short(event["after"]),
            event["user_id"],
            event["reason"],
        )
        for event in answer["data"]
    ]
    cli.table(answer, rows, columns)


def _event_line(event: Answer) -> str:
    change = f"{_short(event['before'])} → {_short(event['after'])}" if event["after"] else ""
    parts = (event["created_at"], event["event_type"], change, event["reason"])
    return "  ".join(part for part in parts if part)


def _short(values: Answer | None) -> str:
    names = {"is_active", "chunk_kind", "usage_policy"}
    shown = {name: value for name, value in (values or {}).items() if name in names}
    return " ".join(f"{name}={value}" for name, value in shown.items())


def left_over(cli: Cli, answer: Answer, _: Answer) -> None:
    columns = ("time", "chunk", "document", "curation")
    rows = [
        (
            item["created_at"],
            item["chunk_id"],
            item["document_path"] or item["document_title"],
            _short(item),
        )
        for item in answer["data"]
    ]
    cli.table(answer, rows, columns)


def snapshots(cli: Cli, answer: Answer, _: Answer) -> None:
    columns = ("time", "snapshot", "used", "answered", "question")
    rows = [
        (
            item["created_at"],
            item["id"],
            _counted(item["options"]["knowledge_context_breakdown"]),
            "yes" if item["answered"] else "no",
            " ".join(item["query"].split())[:80],
        )
        for item in answer["data"]
    ]
    cli.table(answer, rows, columns)


def _counted(breakdown: dict[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in breakdown.items() if count)


def snapshot(cli: Cli, answer: Answer, _: Answer) -> None:
    used = "\n".join(f"[{item['label']}] {item['chunk_id']}" for item in answer["chunks"])
    said = answer["answer"]["text"] if answer["answer"] else ""
    parts = (answer["prompt"].strip(), used, said)
    cli.result(answer, "\n\n".join(part for part in parts if part))
