"""What commands print of access."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kb_framework.api.cli import Cli, pairs

Answer = dict[str, Any]


def new_key(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, answer["key"])
    if not cli.json:
        whose = f"{answer['user']} ({answer['role']} in {answer['organization']})"
        cli.say(f"key {answer['id']} of {whose}: it is not shown again")


def revoked_key(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, f"key {answer['id']} of {answer['user']} is revoked")


def keys(cli: Cli, answer: Answer, _: Answer) -> None:
    names = ("id", "prefix", "state", "user", "organization", "role", "expires_at", "last_used_at")
    _page(cli, answer, names)


def users(cli: Cli, answer: Answer, _: Answer) -> None:
    _page(cli, answer, ("id", "name", "organization", "keys", "removed_at"))


def organizations(cli: Cli, answer: Answer, _: Answer) -> None:
    _page(cli, answer, ("id", "name", "created_at"))


def new_organization(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, f"organization {answer['name']} is made ({answer['id']})")


def roles(cli: Cli, answer: Answer, _: Answer) -> None:
    rows = [(item["name"], ", ".join(item["permissions"])) for item in answer["data"]]
    cli.table(answer, rows, ("role", "permissions"))


def role(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, f"role {answer['name']}: {', '.join(answer['permissions'])}")


def removed_role(cli: Cli, _: None, given: Answer) -> None:
    cli.result({"name": given["name"], "removed": True}, f"role {given['name']} is removed")


def sessions(cli: Cli, answer: Answer, _: Answer) -> None:
    _page(cli, answer, ("id", "user", "organization", "created_at", "expires_at"))


def ended_session(cli: Cli, _: None, given: Answer) -> None:
    cli.result(
        {"session_id": given["session_id"], "ended": True}, f"session {given['session_id']} ended"
    )


def identity(cli: Cli, answer: Answer, _: Answer) -> None:
    cli.result(answer, pairs({**answer, "permissions": ", ".join(answer["permissions"])}))


def events(cli: Cli, answer: Answer, _: Answer) -> None:
    rows = [
        (
            item["created_at"][:19],
            item["user_id"],
            item["action"],
            item["subject"],
            json.dumps(item["details"]),
        )
        for item in answer["data"]
    ]
    cli.table(answer, rows, ("when", "user", "action", "subject", "details"))
    _say_page(cli, answer["meta"])


def _page(cli: Cli, answer: Answer, names: Sequence[str]) -> None:
    cli.table(answer, [[item[name] for name in names] for item in answer["data"]], names)
    _say_page(cli, answer["meta"])


def _say_page(cli: Cli, meta: dict[str, int]) -> None:
    if meta["total_pages"] > 1:
        cli.say(f"page {meta['page']} of {meta['total_pages']}, {meta['total']} in all")
