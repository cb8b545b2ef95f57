"""The operations of access: keys, users, organizations, roles, the record of administration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import ANY_KEY, Command, Http, Operation

if TYPE_CHECKING:
    from kb_access import models
    from kb_framework.api.models import Question
    from kb_framework.api.paging import PageIn

MANAGE = "access.manage"
GROUP = "Access"
_MODELS = "kb_access.models"
_RENDER = "kb_access.render"
_KEY_ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

CREATE_KEY: Operation[models.KeyIn, models.NewKey] = Operation(
    "create_key",
    "access_keys.create",
    MANAGE,
    Http("POST", "/keys", status=201),
    input=f"{_MODELS}:KeyIn",
    output=f"{_MODELS}:NewKey",
    help="Make a key; `key` is shown this once. The first one switches access control on.",
    command=Command(
        "keys create",
        help="Make a key. It is shown this once. The first key switches access control on.",
        group=GROUP,
        about="Create, list, rotate and revoke API keys.",
        flags={"organization": "--org"},
        render=f"{_RENDER}:new_key",
        examples=(
            "kb keys create --user ana --role editor",
            "kb keys create --user bot --role viewer --org lab --json",
        ),
    ),
)

LIST_KEYS: Operation[models.KeysIn, models.KeyPage] = Operation(
    "list_keys",
    "access_keys.list",
    MANAGE,
    Http("GET", "/keys"),
    input=f"{_MODELS}:KeysIn",
    output=f"{_MODELS}:KeyPage",
    help="Keys, oldest first, also those that ended.",
    command=Command(
        "keys list",
        help="List keys, also those that ended; never their secrets.",
        group=GROUP,
        flags={"organization": "--org"},
        render=f"{_RENDER}:keys",
        examples=("kb keys list",),
    ),
)

REVOKE_KEY: Operation[models.KeyRef, models.Key] = Operation(
    "revoke_key",
    "access_keys.revoke",
    MANAGE,
    Http("DELETE", "/keys/{key_id:uuid}"),
    input=f"{_MODELS}:KeyRef",
    output=f"{_MODELS}:Key",
    help="Revoke a key, at once and for good.",
    command=Command(
        "keys revoke",
        help="Revoke a key, at once and for good. Access control stays on, also after the last one.",
        group=GROUP,
        positional=("key_id",),
        render=f"{_RENDER}:revoked_key",
        examples=(f"kb keys revoke {_KEY_ID}",),
    ),
)

ROTATE_KEY: Operation[models.KeyRef, models.NewKey] = Operation(
    "rotate_key",
    "access_keys.rotate",
    MANAGE,
    Http("POST", "/keys/{key_id:uuid}/rotate"),
    input=f"{_MODELS}:KeyRef",
    output=f"{_MODELS}:NewKey",
    help="Replace a key's secret; the old one ends at once.",
    command=Command(
        "keys rotate",
        help="Replace a key by a new one with the same id, role and end; the old one ends at once.",
        group=GROUP,
        positional=("key_id",),
        render=f"{_RENDER}:new_key",
        examples=(f"kb keys rotate {_KEY_ID}",),
    ),
)

LIST_USERS: Operation[PageIn, models.UserPage] = Operation(
    "list_users",
    "access_keys.users",
    MANAGE,
    Http("GET", "/users"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:UserPage",
    help="Users by name, with how many keys in force each has.",
    command=Command(
        "users",
        help="List users, with how many keys in force each has.",
        group=GROUP,
        render=f"{_RENDER}:users",
        examples=("kb users",),
    ),
)

REMOVE_USER: Operation[models.UserRef, None] = Operation(
    "remove_user",
    "access_keys.remove_user",
    MANAGE,
    Http("DELETE", "/users/{user_id:uuid}", status=204),
    input=f"{_MODELS}:UserRef",
    help="Revoke all keys of a user.",
)

LIST_ORGANIZATIONS: Operation[PageIn, models.OrganizationPage] = Operation(
    "list_organizations",
    "access_keys.organizations",
    MANAGE,
    Http("GET", "/organizations"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:OrganizationPage",
    help="The organizations that the caller administers.",
    command=Command(
        "orgs",
        help="List the organizations that you administer.",
        group=GROUP,
        render=f"{_RENDER}:organizations",
        examples=("kb orgs",),
    ),
)

CREATE_ORGANIZATION: Operation[models.OrganizationIn, models.Organization] = Operation(
    "create_organization",
    "access_keys.create_organization",
    "access.organizations",
    Http("POST", "/organizations", status=201),
    input=f"{_MODELS}:OrganizationIn",
    output=f"{_MODELS}:Organization",
    help="Make an organization.",
    command=Command(
        "orgs create",
        group=GROUP,
        positional=("name",),
        render=f"{_RENDER}:new_organization",
        examples=("kb orgs create lab",),
    ),
)

LIST_ROLES: Operation[Question, models.RoleList] = Operation(
    "list_roles",
    "access_roles.list",
    MANAGE,
    Http("GET", "/roles"),
    output=f"{_MODELS}:RoleList",
    help="Roles with their permissions, and every permission there is.",
    command=Command(
        "roles",
        help="List roles with their permissions.",
        group=GROUP,
        render=f"{_RENDER}:roles",
        examples=("kb roles",),
    ),
)

SET_ROLE: Operation[models.RoleIn, models.Role] = Operation(
    "set_role",
    "access_roles.set",
    MANAGE,
    Http("PUT", "/roles/{name:str}"),
    input=f"{_MODELS}:RoleIn",
    output=f"{_MODELS}:Role",
    help="Define a role of the organization's own.",
    command=Command(
        "roles set",
        help="Define a role of your own, or change it; its keys change with it.",
        group=GROUP,
        positional=("name",),
        render=f"{_RENDER}:role",
        examples=("kb roles set curator --permissions documents.read,knowledge.reclassify",),
    ),
)

REMOVE_ROLE: Operation[models.RoleRef, None] = Operation(
    "remove_role",
    "access_roles.remove",
    MANAGE,
    Http("DELETE", "/roles/{name:str}", status=204),
    input=f"{_MODELS}:RoleRef",
    help="Remove a role that no key in force has.",
    command=Command(
        "roles remove",
        help="Remove a role of your own that no key in force has.",
        group=GROUP,
        positional=("name",),
        render=f"{_RENDER}:removed_role",
        examples=("kb roles remove curator",),
    ),
)

WHOAMI: Operation[Question, models.Whoami] = Operation(
    "whoami",
    "access_keys.whoami",
    ANY_KEY,
    Http("GET", "/whoami"),
    output=f"{_MODELS}:Whoami",
    help="Whom the engine takes the caller for, and what they may do.",
    command=Command(
        "whoami",
        help="Show whom the engine takes you for, and what you may do.",
        group=GROUP,
        render=f"{_RENDER}:identity",
        examples=("kb whoami",),
    ),
)

LIST_AUDIT: Operation[PageIn, models.AuditPage] = Operation(
    "list_audit",
    "audit.list",
    "access.audit",
    Http("GET", "/audit"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:AuditPage",
    help="Who changed keys, users, organizations, roles, plugins and settings, newest first.",
    command=Command(
        "audit",
        help="Show who changed keys, users, organizations, roles, plugins and settings, newest first.",
        group=GROUP,
        render=f"{_RENDER}:events",
        examples=("kb audit",),
    ),
)

CREATE_SESSION_LINK: Operation[Question, models.SessionLink] = Operation(
    "create_session_link",
    "access_sessions.link",
    ANY_KEY,
    Http("POST", "/sessions/link", status=201),
    output=f"{_MODELS}:SessionLink",
    help="Make a token that opens a session of the console for the caller, once and within a minute.",
)

LIST_SESSIONS: Operation[PageIn, models.SessionPage] = Operation(
    "list_sessions",
    "access_sessions.list",
    ANY_KEY,
    Http("GET", "/sessions"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_MODELS}:SessionPage",
    help="The caller's sessions in browsers, newest first; everybody's for those who manage access.",
    command=Command(
        "sessions",
        help="List sessions of the console in browsers.",
        group=GROUP,
        render=f"{_RENDER}:sessions",
        examples=("kb sessions",),
    ),
)

END_SESSION: Operation[models.SessionRef, None] = Operation(
    "end_session",
    "access_sessions.end",
    ANY_KEY,
    Http("DELETE", "/sessions/{session_id:uuid}", status=204),
    input=f"{_MODELS}:SessionRef",
    help="End a session, at once.",
    command=Command(
        "sessions end",
        help="End a session of the console, at once.",
        group=GROUP,
        positional=("session_id",),
        render=f"{_RENDER}:ended_session",
        examples=(f"kb sessions end {_KEY_ID}",),
    ),
)

OPERATIONS: list[Operation[Any, Any]] = [
    CREATE_KEY,
    LIST_KEYS,
    REVOKE_KEY,
    ROTATE_KEY,
    LIST_USERS,
    REMOVE_USER,
    LIST_ORGANIZATIONS,
    CREATE_ORGANIZATION,
    LIST_ROLES,
    SET_ROLE,
    REMOVE_ROLE,
    WHOAMI,
    LIST_AUDIT,
    CREATE_SESSION_LINK,
    LIST_SESSIONS,
    END_SESSION,
]
