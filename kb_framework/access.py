"""Who asks, and what they may do: the one place that turns a key into an actor with permissions.

A key is `kb_` and 48 letters and digits: 10 that may be seen and by which it is looked up, 32 that are secret, and 6 that check
the rest, so that a scanner, or a person who lost a letter, can tell without asking. Of the secret only a SHA-256 is kept: a
password needs a slow hash, because people choose guessable ones; 190 random bits cannot be guessed, however fast the hash is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from kb_framework.api import DEFAULT_ORGANIZATION, Actor, Permission
from kb_framework.errors import Unauthorized
from kb_framework.store.tables import api_keys, now, roles

if TYPE_CHECKING:
    from kb_framework.plugins import Plugins
    from kb_framework.store.store import Store, Tx

BUILT_IN_ROLES = ("viewer", "editor", "admin")

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_VISIBLE, _SECRET, _CHECK = 10, 32, 6
_FORMAT = re.compile(rf"kb_([0-9A-Za-z]{{{_VISIBLE}}})([0-9A-Za-z]{{{_SECRET}}})([0-9A-Za-z]{{{_CHECK}}})")
# What an unknown key is compared with, so that it takes as long as a known one.
_NOBODY = "0" * 64


class NewKey(NamedTuple):
    """A key at the only moment at which it can be read, with what is kept of it."""

    text: str
    prefix: str
    secret_hash: str


def make_key() -> NewKey:
    visible = _random(_VISIBLE)
    secret = _random(_SECRET)
    return NewKey(f"kb_{visible}{secret}{_checksum(visible + secret)}", f"kb_{visible}", _hash(secret))


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(text: str) -> str:
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECK):
        number, rest = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[rest] + digits
    return digits


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def parse_key(text: str) -> tuple[str, str] | None:
    """The prefix and the hash of the secret, or None for what cannot be a key."""
    match = _FORMAT.fullmatch(text)
    if match is None or _checksum(match[1] + match[2]) != match[3]:
        return None
    return f"kb_{match[1]}", _hash(match[2])


class Access:
    def __init__(self, store: Store, plugins: Plugins) -> None:
        self._store = store
        self._plugins = plugins
        self._on = False

    def is_on(self) -> bool:
        """Whether a key was ever made. It never goes back, so that revoking the last key opens nothing."""
        if not self._on:
            any_key = sa.select(api_keys.c.id).limit(1)
            self._on = self._store.look(DEFAULT_ORGANIZATION, lambda tx: tx.execute(any_key).first()) is not None
        return self._on

    def actor(self, key: str | None) -> Actor:
        """Who shows this key, or `Unauthorized`. Without a key it is the local person, as long as there are no keys."""
        if key is None:
            if self.is_on():
                raise Unauthorized("a key is needed", hint="send it as: Authorization: Bearer KEY")
            return Actor()
        parsed = parse_key(key)
        if parsed is None:
            raise Unauthorized("this is not a key", hint="a key is kb_ and 48 letters and digits; kb keys create makes one")
        prefix, secret_hash = parsed

        def shown(tx: Tx) -> Actor:
            row = tx.execute(sa.select(api_keys).where(api_keys.c.prefix == prefix)).first()
            known = hmac.compare_digest(row.secret_hash if row else _NOBODY, secret_hash)
            if row is None or not known or row.revoked_at or (row.expires_at and row.expires_at <= now()):
                # One answer for all of it: a thief learns nothing.
                raise Unauthorized("the key is unknown, revoked or expired", hint="kb keys list shows which are in force")
            permissions = frozenset(self.permissions_of(tx, row.organization_id, row.role, row.permissions))
            return Actor(organization_id=row.organization_id, user_id=row.user_id, permissions=permissions, key_id=row.id)

        return self._store.look(DEFAULT_ORGANIZATION, shown)

    def permissions_of(self, tx: Tx, organization_id: str, role: str, only: list[str] | None = None) -> set[str]:
        """What a role allows in an organization, or those of it that are in `only`."""
        granted = self.role_permissions(tx, organization_id, role) or set()
        return granted if only is None else granted & set(only)

    def role_permissions(self, tx: Tx, organization_id: str, role: str) -> set[str] | None:
        """The permissions of a role; None if there is no such role. What no plugin declares, nobody has."""
        declared = {item.name: item for item in self._plugins.permissions if not item.engine or _runs_engine(organization_id)}
        if role in BUILT_IN_ROLES:
            return {name for name, item in declared.items() if _has(role, item)}
        here = sa.select(roles.c.permissions).where(roles.c.organization_id == organization_id, roles.c.name == role)
        custom = tx.scalar(here)
        return None if custom is None else declared.keys() & set(custom)

    def every_permission(self) -> set[str]:
        return {item.name for item in self._plugins.permissions}

    def used(self, times: Mapping[str, str]) -> None:
        """Remember when keys were last used."""
        with self._store.write(queue="keys used") as tx:
            for key_id, time in times.items():
                tx.execute(sa.update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=time))


def _runs_engine(organization_id: str) -> bool:
    """Whether an organization's admins look after the whole engine: those of the first do."""
    return organization_id == DEFAULT_ORGANIZATION


def _has(role: str, permission: Permission) -> bool:
    return BUILT_IN_ROLES.index(role) >= BUILT_IN_ROLES.index(permission.role)
