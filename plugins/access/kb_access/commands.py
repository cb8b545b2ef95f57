"""The command that takes a user by name."""

from __future__ import annotations

from kb_framework.api.cli import Cli
from kb_framework.api.models import is_chunk_id
from kb_framework.errors import ConfigInvalid, NotFound


def remove_user(user: str, *, cli: Cli) -> None:
    """Revoke all keys of a user.

    Parameters
    ----------
    user
        The user's name, or the id that `kb users` shows.

    Examples
    --------
    kb users remove ana
    """
    number = user if is_chunk_id(user) else _user_id(cli, user)
    cli.engine.remove_user(number)
    cli.result({"id": number, "removed": True}, f"the keys of user {user} are revoked")


def _user_id(cli: Cli, name: str) -> str:
    page, found = 1, []
    while True:
        users = cli.engine.list_users(page=page, per_page=100)
        found += [item for item in users["data"] if item["name"] == name]
        if page >= users["meta"]["total_pages"]:
            break
        page += 1
    if len(found) > 1:
        ids = ", ".join(f"{item['id']} ({item['organization']})" for item in found)
        raise ConfigInvalid(f"{len(found)} users are called {name!r}: {ids}")
    if not found:
        raise NotFound(f"there is no user {name!r}", hint="kb users lists them")
    return found[0]["id"]
