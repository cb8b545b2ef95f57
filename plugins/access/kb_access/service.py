"""Keys, users and organizations."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from kb_access.audit import ANY_ORGANIZATION, Administration, AuditService, in_reach
from kb_access.authentication import role_permissions
from kb_access.keys import make_key
from kb_access.models import (
    Key,
    KeyIn,
    KeyPage,
    KeyRef,
    KeysIn,
    NewKey,
    Organization,
    OrganizationIn,
    OrganizationPage,
    User,
    UserPage,
    UserRef,
    Whoami,
)
from kb_access.tables import api_keys
from kb_framework.api import EVERYTHING, LOCAL_USER, Actor
from kb_framework.api.models import Question
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Access, Plugins, Store, Tx
from kb_framework.api.tables import organizations, users
from kb_framework.api.times import now
from kb_framework.errors import Conflict, Forbidden, InvalidInput, NotFound

OTHER_USERS = "access.other_users"


class KeysService:
    def __init__(self, store: Store, access: Access, plugins: Plugins, audit: AuditService) -> None:
        self._store = store
        self._access = access
        self._plugins = plugins
        self._audit = audit

    # Keys

    def create(self, wanted: KeyIn, actor: Actor) -> NewKey:
        """Make a key, with its user and organization where they are missing. Nobody gives away more than they have."""
        with self._audit.administer(actor) as under_way:
            tx = under_way.tx
            organization_id = self._organization(under_way, wanted.organization, actor)
            self._require_grantable(tx, organization_id, wanted.role, wanted.permissions, actor)
            user_id = self._user(under_way, organization_id, wanted.user, actor)
            made = make_key()
            row = {
                "id": str(uuid.uuid4()),
                "organization_id": organization_id,
                "user_id": user_id,
                "prefix": made.prefix,
                "secret_hash": made.secret_hash,
                "role": wanted.role,
                "permissions": sorted(set(wanted.permissions)) if wanted.permissions else None,
                "created_at": now(),
                "expires_at": wanted.expires,
            }
            tx.execute(sa.insert(api_keys).values(row))
            told = {
                "user": wanted.user,
                "role": wanted.role,
                "permissions": row["permissions"],
                "expires_at": wanted.expires,
            }
            under_way.record("key.created", row["id"], organization_id, prefix=made.prefix, **told)
            return NewKey(**self._key(tx, row["id"], actor).model_dump(), key=made.text)

    def list(self, asked: KeysIn, actor: Actor) -> KeyPage:
        page = asked.wanted
        with self._store.read(actor.organization_id) as tx:
            query = _select_keys().where(in_reach(tx, actor, api_keys))
            if asked.organization is not None:
                query = query.where(organizations.c.name == asked.organization)
            total = tx.scalar(sa.select(sa.func.count()).select_from(query.subquery()))
            rows = tx.rows(page.cut(query.order_by(api_keys.c.created_at, api_keys.c.id)))
        return KeyPage(data=[_shown(row) for row in rows], meta=page.meta(total))

    def revoke(self, asked: KeyRef, actor: Actor) -> Key:
        with self._audit.administer(actor) as under_way:
            key = self._key(under_way.tx, asked.key_id, actor)
            if key.revoked_at is None:
                self._revoke(under_way, api_keys.c.id == key.id)
            return self._key(under_way.tx, key.id, actor)

    def rotate(self, asked: KeyRef, actor: Actor) -> NewKey:
        """Another secret for the same key; the old one ends at once."""
        with self._audit.administer(actor) as under_way:
            key = self._key(under_way.tx, asked.key_id, actor)
            if key.state != "active":
                raise Conflict(f"the key is {key.state}", hint="make a new one: kb keys create")
            _require_own(key.user_id, actor)
            # Who is given the new secret can do whatever the key can.
            self._require_grantable(
                under_way.tx, key.organization_id, key.role, key.permissions, actor
            )
            made = make_key()
            values = {"prefix": made.prefix, "secret_hash": made.secret_hash, "last_used_at": None}
            under_way.tx.execute(sa.update(api_keys).where(api_keys.c.id == key.id).values(values))
            under_way.record(
                "key.rotated", key.id, key.organization_id, before=key.prefix, prefix=made.prefix
            )
            return NewKey(**self._key(under_way.tx, key.id, actor).model_dump(), key=made.text)

    def _key(self, tx: Tx, key_id: str, actor: Actor) -> Key:
        rows = tx.rows(_select_keys().where(api_keys.c.id == key_id, in_reach(tx, actor, api_keys)))
        if not rows:
            raise NotFound(f"there is no key {key_id}", key_id=key_id)
        return _shown(rows[0])

    def _revoke(self, under_way: Administration, which: sa.ColumnElement[bool]) -> None:
        in_force = (which, api_keys.c.revoked_at.is_(None))
        for row in under_way.tx.rows(
            sa.select(api_keys.c.id, api_keys.c.organization_id, api_keys.c.prefix).where(*in_force)
        ):
            under_way.record("key.revoked", row["id"], row["organization_id"], prefix=row["prefix"])
        under_way.tx.execute(sa.update(api_keys).where(*in_force).values(revoked_at=now()))

    def _require_grantable(
        self, tx: Tx, organization_id: str, role: str, only: list[str] | None, actor: Actor
    ) -> None:
        allowed = role_permissions(tx, self._plugins.permissions, organization_id, role)
        if allowed is None:
            raise InvalidInput(
                f"role: there is no role {role!r}", hint="kb roles lists them", field="role"
            )
        beyond = sorted(set(only or ()) - allowed)
        if beyond:
            raise InvalidInput(
                f"permissions: the role {role} does not have {beyond[0]!r}", field="permissions"
            )
        require_held(actor, set(only) if only else allowed)

    # Users and organizations

    def _organization(self, under_way: Administration, name: str | None, actor: Actor) -> str:
        if name is None:
            return actor.organization_id
        found = under_way.tx.scalar(
            sa.select(organizations.c.id).where(organizations.c.name == name)
        )
        if found != actor.organization_id:
            actor.require(ANY_ORGANIZATION)
        return found or self._add_organization(under_way, name)

    def _add_organization(self, under_way: Administration, name: str) -> str:
        row = {"id": str(uuid.uuid4()), "name": name, "created_at": now()}
        under_way.tx.execute(sa.insert(organizations).values(row))
        under_way.record("organization.created", row["id"], row["id"], name=name)
        return row["id"]

    def _user(
        self, under_way: Administration, organization_id: str, name: str, actor: Actor
    ) -> str:
        here = (users.c.organization_id == organization_id, users.c.name == name)
        found = under_way.tx.scalar(sa.select(users.c.id).where(*here))
        if found:
            _require_own(found, actor)
            under_way.tx.execute(
                sa.update(users).where(users.c.id == found).values(removed_at=None)
            )
            return found
        row = {
            "id": str(uuid.uuid4()),
            "organization_id": organization_id,
            "name": name,
            "created_at": now(),
        }
        under_way.tx.execute(sa.insert(users).values(row))
        under_way.record("user.created", row["id"], organization_id, name=name)
        return row["id"]

    def users(self, asked: PageIn, actor: Actor) -> UserPage:
        page = asked.wanted
        keys = (
            sa.select(sa.func.count())
            .where(api_keys.c.user_id == users.c.id, _active())
            .scalar_subquery()
        )
        named = sa.select(users, organizations.c.name.label("organization"), keys.label("keys"))
        named = named.join(organizations, organizations.c.id == users.c.organization_id)
        with self._store.read(actor.organization_id) as tx:
            mine = in_reach(tx, actor, users)
            total = tx.scalar(sa.select(sa.func.count()).select_from(users).where(mine))
            rows = tx.rows(page.cut(named.where(mine).order_by(users.c.name, users.c.id)))
        return UserPage(data=[User.model_validate(row) for row in rows], meta=page.meta(total))

    def remove_user(self, asked: UserRef, actor: Actor) -> None:
        """Revoke all keys of a user. The name stays, because what was done keeps saying who did it."""
        user_id = asked.user_id
        with self._audit.administer(actor) as under_way:
            tx = under_way.tx
            row = tx.execute(
                sa.select(users).where(users.c.id == user_id, in_reach(tx, actor, users))
            ).first()
            if row is None:
                raise NotFound(f"there is no user {user_id}", user_id=user_id)
            self._revoke(under_way, api_keys.c.user_id == user_id)
            tx.execute(sa.update(users).where(users.c.id == user_id).values(removed_at=now()))
            under_way.record("user.removed", user_id, row.organization_id, name=row.name)

    def organizations(self, asked: PageIn, actor: Actor) -> OrganizationPage:
        page = asked.wanted
        columns = [organizations.c[name] for name in Organization.model_fields]
        mine = (
            sa.true()
            if actor.may(ANY_ORGANIZATION)
            else organizations.c.id == actor.organization_id
        )
        with self._store.read(actor.organization_id) as tx:
            total = tx.scalar(sa.select(sa.func.count()).select_from(organizations).where(mine))
            rows = tx.rows(
                page.cut(
                    sa.select(*columns)
                    .where(mine)
                    .order_by(organizations.c.created_at, organizations.c.id)
                )
            )
        return OrganizationPage(
            data=[Organization.model_validate(row) for row in rows], meta=page.meta(total)
        )

    def create_organization(self, wanted: OrganizationIn, actor: Actor) -> Organization:
        with self._audit.administer(actor) as under_way:
            taken = under_way.tx.scalar(
                sa.select(organizations.c.id).where(organizations.c.name == wanted.name)
            )
            if taken:
                raise Conflict(f"there is an organization {wanted.name!r} already", field="name")
            made = self._add_organization(under_way, wanted.name)
            columns = [organizations.c[name] for name in Organization.model_fields]
            return Organization.model_validate(
                under_way.tx.rows(sa.select(*columns).where(organizations.c.id == made))[0]
            )

    def whoami(self, _: Question, actor: Actor) -> Whoami:
        with self._store.read(actor.organization_id) as tx:
            name = tx.scalar(
                sa.select(organizations.c.name).where(organizations.c.id == actor.organization_id)
            )
            row = (
                tx.execute(_select_keys().where(api_keys.c.id == actor.key_id)).first()
                if actor.key_id
                else None
            )
        is_owner = actor.key_id is None and actor.user_id == LOCAL_USER
        # An actor without a key whom another plugin recognised has permissions, but no role.
        user, role = ("local", "admin") if is_owner else (actor.user_id, "external")
        return Whoami(
            access_control=self._access.is_on(),
            local=is_owner,
            user=row.user if row else user,
            user_id=actor.user_id,
            organization=name,
            organization_id=actor.organization_id,
            key_id=actor.key_id,
            role=row.role if row else role,
            permissions=sorted(
                self._every_permission() if actor.permissions == EVERYTHING else actor.permissions
            ),
        )

    def _every_permission(self) -> set[str]:
        return {item.name for item in self._plugins.permissions}


def require_held(actor: Actor, permissions: set[str]) -> None:
    """Whoever hands out a permission must have it."""
    beyond = sorted(permissions - actor.permissions) if actor.permissions != EVERYTHING else []
    if beyond:
        raise Forbidden(
            f"you cannot give away {beyond[0]}, which you do not have", permission=beyond[0]
        )


def _require_own(user_id: str, actor: Actor) -> None:
    """Raise for a key of another user: what is done with it carries that user's name."""
    if user_id != actor.user_id:
        actor.require(OTHER_USERS)


def _active() -> sa.ColumnElement[bool]:
    return sa.and_(
        api_keys.c.revoked_at.is_(None),
        sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now()),
    )


def _select_keys() -> sa.Select:
    hidden = {"secret_hash"}
    query = sa.select(
        *(column for column in api_keys.c if column.name not in hidden),
        users.c.name.label("user"),
        organizations.c.name.label("organization"),
    )
    return query.join(users, users.c.id == api_keys.c.user_id).join(
        organizations, organizations.c.id == api_keys.c.organization_id
    )


def _shown(row: Mapping[str, Any]) -> Key:
    expired = row["expires_at"] is not None and row["expires_at"] <= now()
    state = "revoked" if row["revoked_at"] else "expired" if expired else "active"
    return Key.model_validate({**row, "state": state})
