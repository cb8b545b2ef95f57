"""Turn a key into an actor with the permissions of its role."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from kb_access.keys import parse_key
from kb_access.tables import api_keys, roles
from kb_framework.api import DEFAULT_ORGANIZATION, Actor, Credentials, Permission
from kb_framework.api.parts import Tx
from kb_framework.api.times import now
from kb_framework.errors import Unauthorized

BUILT_IN_ROLES = ("viewer", "editor", "admin")
# What an unknown key is compared with, so that it takes as long as a known one.
_NOBODY = "0" * 64


def authenticate(
    credentials: Credentials, permissions: Iterable[Permission], tx: Tx
) -> Actor | None:
    """Return the actor of a key; None without a key. Raise `Unauthorized` for a key that is not in force."""
    if credentials.key is None:
        return None
    parsed = parse_key(credentials.key)
    if parsed is None:
        raise Unauthorized(
            "this is not a key",
            hint="a key is kb_ and 48 letters and digits; kb keys create makes one",
        )
    prefix, secret_hash = parsed
    row = tx.execute(sa.select(api_keys).where(api_keys.c.prefix == prefix)).first()
    known = hmac.compare_digest(row.secret_hash if row else _NOBODY, secret_hash)
    if row is None or not known or row.revoked_at or (row.expires_at and row.expires_at <= now()):
        # One answer for every reason: a thief learns nothing.
        raise Unauthorized(
            "the key is unknown, revoked or expired", hint="kb keys list shows which are in force"
        )
    return actor_of(row, permissions, tx)


def actor_of_key(key_id: str, permissions: Iterable[Permission], tx: Tx) -> Actor | None:
    """Return the actor of a key by its id; None for one that is not in force."""
    row = tx.execute(sa.select(api_keys).where(api_keys.c.id == key_id)).first()
    if row is None or row.revoked_at or (row.expires_at and row.expires_at <= now()):
        return None
    return actor_of(row, permissions, tx)


def actor_of(row: sa.Row, permissions: Iterable[Permission], tx: Tx) -> Actor:
    """Return the actor of a key's row, with what its role allows now."""
    granted = role_permissions(tx, permissions, row.organization_id, row.role) or set()
    if row.permissions is not None:
        granted &= set(row.permissions)
    return Actor(row.organization_id, row.user_id, frozenset(granted), key_id=row.id)


def note_use(times: Mapping[str, str], tx: Tx) -> None:
    """Store when keys were last used."""
    for key_id, time in times.items():
        tx.execute(sa.update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=time))


def role_permissions(
    tx: Tx, permissions: Iterable[Permission], organization_id: str, role: str
) -> set[str] | None:
    """Return the permissions of a role; None if there is no such role. Permissions that no plugin declares are left out."""
    runs_engine = organization_id == DEFAULT_ORGANIZATION
    declared = {item.name: item for item in permissions if runs_engine or not item.engine}
    if role in BUILT_IN_ROLES:
        return {name for name, item in declared.items() if _has(role, item)}
    here = sa.select(roles.c.permissions).where(
        roles.c.organization_id == organization_id, roles.c.name == role
    )
    custom = tx.scalar(here)
    return None if custom is None else declared.keys() & set(custom)


def _has(role: str, permission: Permission) -> bool:
    return BUILT_IN_ROLES.index(role) >= BUILT_IN_ROLES.index(permission.role)
