"""The entry point of the access plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from kb_framework.settings import Settings


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [api.Migration(1, "access_events", "kb_access.migrations:create_events")]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("access.manage", "Make and revoke keys, remove users, define roles."),
        api.Permission("access.audit", "Read the record of administration."),
        api.Permission("access.organizations", "Make organizations, and keys in any of them.", engine=True),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("access_keys", "kb_access.service:KeysService"),
        api.Service("access_roles", "kb_access.roles:RolesService"),
        api.Service("audit", "kb_access.audit:AuditService"),
    ]


@hookimpl
def kb_routes() -> list[api.Routes]:
    words = ("keys", "users", "organizations", "roles", "whoami", "audit")
    return [api.Routes("access", "kb_access.routes:handlers", under=words)]


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"access": True}


@hookimpl
def kb_serving(settings: Settings, services: Mapping[str, Any]) -> None:
    services["audit"].note_configuration(settings)


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, function: str, help: str) -> api.Command:
        return api.Command(name, f"kb_access.commands:{function}", help=help, group="Access")

    return [
        command("keys create", "create_key", "Make a key; it is shown once."),
        command("keys list", "list_keys", "List keys."),
        command("keys revoke", "revoke_key", "Revoke a key, at once and for good."),
        command("keys rotate", "rotate_key", "Replace a key by a new one; the old one ends at once."),
        command("users", "list_users", "List users."),
        command("users remove", "remove_user", "Revoke all keys of a user."),
        command("orgs", "list_organizations", "List organizations."),
        command("orgs create", "create_organization", "Make an organization."),
        command("roles", "list_roles", "List roles with their permissions."),
        command("roles set", "set_role", "Define a role of your own."),
        command("roles remove", "remove_role", "Remove a role of your own."),
        command("whoami", "whoami", "Show whom the engine takes you for, and what you may do."),
        command("audit", "audit", "Show who changed keys, roles, plugins and settings."),
    ]


@hookimpl
def kb_client_methods() -> list[api.ClientMethod]:
    names = (
        "create_key list_keys revoke_key rotate_key list_users remove_user list_organizations create_organization "
        "list_roles set_role remove_role whoami list_audit"
    )
    return [api.ClientMethod(name, f"kb_access.client:{name}") for name in names.split()]
