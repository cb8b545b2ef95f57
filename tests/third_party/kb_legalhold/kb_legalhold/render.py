"""What commands print of holds."""

from __future__ import annotations

from typing import Any

from kb_framework.api.cli import Cli


def holds(cli: Cli, found: dict[str, Any], _: dict[str, Any]) -> None:
    columns = ("id", "document_id", "matter", "reason", "sealed", "created_at")
    cli.table(found, [[item[name] for name in columns] for item in found["data"]], columns)
    meta = found["meta"]
    if meta["total_pages"] > 1:
        cli.say(f"page {meta['page']} of {meta['total_pages']}, {meta['total']} in all")


def placed(cli: Cli, answer: dict[str, Any], _: dict[str, Any]) -> None:
    words = "{placed} documents put on hold for {matter}, {already_held} already held"
    cli.result(answer, words.format(**answer))


def released(cli: Cli, answer: dict[str, Any], _: dict[str, Any]) -> None:
    cli.result(answer, f"{answer['released']} holds released")
