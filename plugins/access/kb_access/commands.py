"""Commands: keys, users, orgs, roles, whoami, audit."""

from __future__ import annotations

import json
from typing import Any

from kb_framework.console import Cli, pairs
from kb_framework.csv import CommaList, CommaListOrNone


def create_key(
    *,
    user: str,
    role: str,
    org: str | None = None,
    permissions: CommaListOrNone = None,
    expires: str | None = None,
    cli: Cli,
) -> None:
    """Make a key. It is shown this once. The first key switches access control on.

    Parameters
    ----------
    user
        Whose key it is; made if not there.
    role
        viewer, editor, admin, or a role of your own.
    org
        The organization; by default your own. Made if not there.
    permissions
        Of the role's permissions only these, comma-separated: documents.read for one that only reads.
    expires
        90d, 12h or an ISO time; by default never.

    Examples
    --------
    kb keys create --user ana --role editor
    kb keys create --user bot --role viewer --org lab --json
    """
    made = cli.engine.create_key(user, role, organization=org, permissions=permissions, expires=expires)
    _show_new(cli, made)


def _show_new(cli: Cli, made: dict[str, Any]) -> None:
    cli.result(made, made["key"])
    if not cli.json:
        cli.say(f"key {made['id']} of {made['user']} ({made['role']} in {made['organization']}): it is not shown again")


def list_keys(*, org: str | None = None, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List keys, also those that ended; never their secrets.

    Parameters
    ----------
    org
        Only of this organization.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb keys list
    """
    found = cli.engine.list_keys(organization=org, page=page, per_page=per_page)
    names = ("id", "prefix", "state", "user", "organization", "role", "expires_at", "last_used_at")
    cli.table(found, [[item[name] or "" for name in names] for item in found["data"]], names)
    _say_page(cli, found["meta"])


def _say_page(cli: Cli, meta: dict[str, int]) -> None:
    if meta["total_pages"] > 1:
        cli.say(f"page {meta['page']} of {meta['total_pages']}, {meta['total']} in all")


def revoke_key(id: str, *, cli: Cli) -> None:
    """Revoke a key, at once and for good. Access control stays on, also after the last one.

    Parameters
    ----------
    id
        The key's id, as `kb keys list` shows it.

    Examples
    --------
    kb keys revoke 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    revoked = cli.engine.revoke_key(id)
    cli.result(revoked, f"key {revoked['id']} of {revoked['user']} is revoked")


def rotate_key(id: str, *, cli: Cli) -> None:
    """Replace a key by a new one with the same id, role and end; the old one ends at once.

    Parameters
    ----------
    id
        The key's id, as `kb keys list` shows it.

    Examples
    --------
    kb keys rotate 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    _show_new(cli, cli.engine.rotate_key(id))


def list_users(*, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List users, with how many keys in force each has.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb users
    """
    found = cli.engine.list_users(page=page, per_page=per_page)
    names = ("id", "name", "organization", "keys", "removed_at")
    cli.table(found, [[item[name] if item[name] is not None else "" for name in names] for item in found["data"]], names)
    _say_page(cli, found["meta"])


def remove_user(id: str, *, cli: Cli) -> None:
    """Revoke all keys of a user.

    Parameters
    ----------
    id
        The user's id, as `kb users` shows it.

    Examples
    --------
    kb users remove ana
    """
    cli.engine.remove_user(id)
    cli.result({"id": id, "removed": True}, f"the keys of user {id} are revoked")


def list_organizations(*, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List the organizations that you administer.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb orgs
    """
    found = cli.engine.list_organizations(page=page, per_page=per_page)
    names = ("id", "name", "created_at")
    cli.table(found, [[item[name] for name in names] for item in found["data"]], names)
    _say_page(cli, found["meta"])


def create_organization(name: str, *, cli: Cli) -> None:
    """Make an organization.

    Parameters
    ----------
    name
        What it is called.

    Examples
    --------
    kb orgs create lab
    """
    made = cli.engine.create_organization(name)
    cli.result(made, f"organization {made['name']} is made ({made['id']})")


def list_roles(*, cli: Cli) -> None:
    """List roles with their permissions.

    Examples
    --------
    kb roles
    """
    found = cli.engine.list_roles()
    cli.table(found, [(item["name"], ", ".join(item["permissions"])) for item in found["data"]], ("role", "permissions"))


def set_role(name: str, *, permissions: CommaList, cli: Cli) -> None:
    """Define a role of your own, or change it; its keys change with it.

    Parameters
    ----------
    name
        Small letters, digits, - and _.
    permissions
        Comma-separated; `kb roles --json` lists all there are.

    Examples
    --------
    kb roles set curator --permissions documents.read,knowledge.curate
    """
    made = cli.engine.set_role(name, permissions)
    cli.result(made, f"role {made['name']}: {', '.join(made['permissions'])}")


def remove_role(name: str, *, cli: Cli) -> None:
    """Remove a role of your own that no key in force has.

    Parameters
    ----------
    name
        The role.

    Examples
    --------
    kb roles remove curator
    """
    cli.engine.remove_role(name)
    cli.result({"name": name, "removed": True}, f"role {name} is removed")


def whoami(*, cli: Cli) -> None:
    """Show whom the engine takes you for, and what you may do.

    Examples
    --------
    kb whoami
    """
    found = cli.engine.whoami()
    cli.result(found, pairs({**found, "permissions": ", ".join(found["permissions"])}))


def audit(*, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """Show who changed keys, users, organizations, roles, plugins and settings, newest first.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb audit
    """
    found = cli.engine.list_audit(page=page, per_page=per_page)
    rows = [
        (item["created_at"][:19], item["user_id"], item["action"], item["subject"], json.dumps(item["details"]))
        for item in found["data"]
    ]
    cli.table(found, rows, ("when", "user", "action", "subject", "details"))
    _say_page(cli, found["meta"])
