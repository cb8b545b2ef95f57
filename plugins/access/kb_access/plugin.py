"""The entry point of the access plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from kb_access.audit import AuditService
    from kb_framework.api.parts import Settings, Tx


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [
        api.Migration(1, "access_events", "kb_access.migrations:create_events"),
        api.Migration(2, "keys", "kb_access.migrations:create_keys"),
        api.Migration(3, "sessions", "kb_access.migrations:create_sessions"),
    ]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("access", "kb_access.settings:AccessSettings")]


@hookimpl
def kb_permissions() -> list[api.Permission]:
    return [
        api.Permission("access.manage", "Make and revoke keys, remove users, define roles."),
        api.Permission(
            "access.other_users",
            "Make and rotate keys of users that exist already, other than oneself.",
        ),
        api.Permission("access.audit", "Read the record of administration."),
        api.Permission(
            "access.organizations", "Make organizations, and keys in any of them.", engine=True
        ),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("access_keys", "kb_access.service:KeysService", ("access",)),
        api.Service("access_roles", "kb_access.roles:RolesService"),
        api.Service("access_sessions", "kb_access.sessions:SessionsService"),
        api.Service("audit", "kb_access.audit:AuditService"),
    ]


@hookimpl
def kb_operations() -> list[api.Operation[Any, Any]]:
    from kb_access.operations import OPERATIONS

    return OPERATIONS


@hookimpl
def kb_authenticate(
    credentials: api.Credentials, permissions: Sequence[api.Permission], tx: Tx
) -> api.Actor | None:
    from kb_access.authentication import authenticate

    return authenticate(credentials, permissions, tx)


@hookimpl
def kb_keys_used(times: Mapping[str, str], tx: Tx) -> None:
    from kb_access.authentication import note_use

    note_use(times, tx)


@hookimpl
def kb_serving(all_settings: Settings, audit: AuditService) -> None:
    audit.note_configuration(all_settings)


@hookimpl
def kb_commands() -> list[api.Command]:
    return [
        api.Command(
            "users remove",
            "kb_access.commands:remove_user",
            help="Revoke all keys of a user.",
            group="Access",
        ),
    ]


@hookimpl
def kb_checks() -> list[api.Check]:
    return [api.Check("folder", "kb_access.checks:FolderCheck", rank=20)]
