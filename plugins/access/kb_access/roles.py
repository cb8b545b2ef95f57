"""Roles: the built-in ones, and an organization's own."""

from __future__ import annotations

import sqlalchemy as sa

from kb_access.audit import AuditService
from kb_access.authentication import BUILT_IN_ROLES, role_permissions
from kb_access.models import Permission, Role, RoleIn, RoleList, RoleRef
from kb_access.service import require_held
from kb_access.tables import api_keys, roles
from kb_framework.api import Actor
from kb_framework.api.models import Question
from kb_framework.api.parts import Plugins, Store, Tx
from kb_framework.api.times import now
from kb_framework.errors import Conflict, InvalidInput, NotFound


class RolesService:
    def __init__(self, store: Store, plugins: Plugins, audit: AuditService) -> None:
        self._store = store
        self._plugins = plugins
        self._audit = audit

    def list(self, _: Question, actor: Actor) -> RoleList:
        with self._store.read(actor.organization_id) as tx:
            own = list(
                tx.connection.scalars(
                    sa.select(roles.c.name).where(tx.owns(roles)).order_by(roles.c.name)
                )
            )
            found = [self._role(tx, name) for name in (*BUILT_IN_ROLES, *own)]
        declared = [Permission(**item._asdict()) for item in self._plugins.permissions]
        return RoleList(data=found, permissions=declared)

    def set(self, wanted: RoleIn, actor: Actor) -> Role:
        """Define a role of the organization's own; keys that have it change with it."""
        name = wanted.name
        _require_own(name)
        with self._audit.administer(actor) as under_way:
            tx = under_way.tx
            known = (
                role_permissions(tx, self._plugins.permissions, actor.organization_id, "admin")
                or set()
            )
            unknown = sorted(set(wanted.permissions) - known)
            if unknown:
                raise InvalidInput(
                    f"permissions: there is no permission {unknown[0]!r} here",
                    hint="kb roles lists them",
                    field="permissions",
                )
            require_held(actor, set(wanted.permissions))
            here = (tx.owns(roles), roles.c.name == name)
            before = tx.scalar(sa.select(roles.c.permissions).where(*here))
            tx.execute(sa.delete(roles).where(*here))
            row = {
                "organization_id": tx.organization_id,
                "name": name,
                "permissions": sorted(set(wanted.permissions)),
            }
            tx.execute(sa.insert(roles).values({**row, "created_at": now()}))
            under_way.record(
                "role.set", name, tx.organization_id, before=before, after=row["permissions"]
            )
            return self._role(tx, name)

    def remove(self, asked: RoleRef, actor: Actor) -> None:
        name = asked.name
        _require_own(name)
        with self._audit.administer(actor) as under_way:
            tx = under_way.tx
            in_use = sa.select(api_keys.c.id).where(
                tx.owns(api_keys), api_keys.c.role == name, api_keys.c.revoked_at.is_(None)
            )
            if tx.execute(in_use.limit(1)).first() is not None:
                raise Conflict(f"the role {name!r} is in use", hint="revoke its keys first")
            if not tx.execute(
                sa.delete(roles).where(tx.owns(roles), roles.c.name == name)
            ).rowcount:
                raise NotFound(f"there is no role {name!r}", name=name)
            under_way.record("role.removed", name, tx.organization_id)

    def _role(self, tx: Tx, name: str) -> Role:
        permissions = (
            role_permissions(tx, self._plugins.permissions, tx.organization_id, name) or set()
        )
        return Role(name=name, built_in=name in BUILT_IN_ROLES, permissions=sorted(permissions))


def _require_own(name: str) -> None:
    if name in BUILT_IN_ROLES:
        raise Conflict(
            f"{name} is a built-in role, which stays as it is", hint="define a role of another name"
        )
