"""HTTP: keys, users, organizations, roles, the record of administration."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from litestar import delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, PathParameter
from litestar.status_codes import HTTP_200_OK

from kb_access import models
from kb_access.audit import AuditService
from kb_access.roles import RolesService
from kb_access.service import KeysService
from kb_framework.api import ANY_KEY, Actor
from kb_framework.http import PageNumber, PerPage, QueryText
from kb_framework.paging import Page

MANAGE = {"permission": "access.manage"}
RoleName = Annotated[str, PathParameter(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]


@post("/keys", sync_to_thread=True, opt=MANAGE)
def create_key(
    data: JSONBody[models.KeyIn], access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor]
) -> models.NewKey:
    """Make a key; `key` is shown this once. The first one switches access control on."""
    return access_keys.create(data, actor)


@get("/keys", sync_to_thread=True, opt=MANAGE)
def list_keys(
    access_keys: NamedDependency[KeysService],
    actor: NamedDependency[Actor],
    organization: QueryText = None,
    page: PageNumber = 1,
    per_page: PerPage = 20,
) -> models.KeyPage:
    """Keys, oldest first, also those that ended."""
    return access_keys.list(actor, Page(page, per_page), organization)


@delete("/keys/{key_id:uuid}", sync_to_thread=True, status_code=HTTP_200_OK, opt=MANAGE)
def revoke_key(key_id: FromPath[UUID], access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor]) -> models.Key:
    """Revoke a key, at once and for good."""
    return access_keys.revoke(str(key_id), actor)


@post("/keys/{key_id:uuid}/rotate", sync_to_thread=True, status_code=HTTP_200_OK, opt=MANAGE)
def rotate_key(key_id: FromPath[UUID], access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor]) -> models.NewKey:
    """Replace a key's secret; the old one ends at once."""
    return access_keys.rotate(str(key_id), actor)


@get("/users", sync_to_thread=True, opt=MANAGE)
def list_users(
    access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor], page: PageNumber = 1, per_page: PerPage = 20
) -> models.UserPage:
    """Users by name, with how many keys in force each has."""
    return access_keys.users(actor, Page(page, per_page))


@delete("/users/{user_id:uuid}", sync_to_thread=True, opt=MANAGE)
def remove_user(user_id: FromPath[UUID], access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor]) -> None:
    """Revoke all keys of a user."""
    access_keys.remove_user(str(user_id), actor)


@get("/organizations", sync_to_thread=True, opt=MANAGE)
def list_organizations(
    access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor], page: PageNumber = 1, per_page: PerPage = 20
) -> models.OrganizationPage:
    """The organizations that the caller administers."""
    return access_keys.organizations(actor, Page(page, per_page))


@post("/organizations", sync_to_thread=True, opt={"permission": "access.organizations"})
def create_organization(
    data: JSONBody[models.OrganizationIn], access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor]
) -> models.Organization:
    """Make an organization."""
    return access_keys.create_organization(data, actor)


@get("/roles", sync_to_thread=True, opt=MANAGE)
def list_roles(access_roles: NamedDependency[RolesService], actor: NamedDependency[Actor]) -> models.RoleList:
    """Roles with their permissions, and every permission there is."""
    return access_roles.list(actor)


@put("/roles/{name:str}", sync_to_thread=True, opt=MANAGE)
def set_role(
    name: RoleName,
    data: JSONBody[models.RoleIn],
    access_roles: NamedDependency[RolesService],
    actor: NamedDependency[Actor],
) -> models.Role:
    """Define a role of the organization's own."""
    return access_roles.set(name, data, actor)


@delete("/roles/{name:str}", sync_to_thread=True, opt=MANAGE)
def remove_role(name: RoleName, access_roles: NamedDependency[RolesService], actor: NamedDependency[Actor]) -> None:
    """Remove a role that no key in force has."""
    access_roles.remove(name, actor)


@get("/whoami", sync_to_thread=True, opt={"permission": ANY_KEY})
def whoami(access_keys: NamedDependency[KeysService], actor: NamedDependency[Actor]) -> models.Whoami:
    """Whom the engine takes the caller for, and what they may do."""
    return access_keys.whoami(actor)


@get("/audit", sync_to_thread=True, opt={"permission": "access.audit"})
def list_audit(
    audit: NamedDependency[AuditService], actor: NamedDependency[Actor], page: PageNumber = 1, per_page: PerPage = 20
) -> models.EventPage:
    """Who changed keys, users, organizations, roles, plugins and settings, newest first."""
    return audit.list(actor, Page(page, per_page))


handlers = [
    create_key,
    list_keys,
    revoke_key,
    rotate_key,
    list_users,
    remove_user,
    list_organizations,
    create_organization,
    list_roles,
    set_role,
    remove_role,
    whoami,
    list_audit,
]
