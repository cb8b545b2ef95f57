"""Sessions of people in a browser: opened by a link or a key, recognised by a cookie, ended with their key."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from kb_access.audit import AuditService, in_reach
from kb_access.authentication import actor_of_key
from kb_access.models import Session, SessionLink, SessionPage, SessionRef
from kb_access.settings import AccessSettings
from kb_access.tables import api_keys, sessions
from kb_framework.api import LOCAL_USER, Actor
from kb_framework.api.models import Question
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Plugins, Store, Tx
from kb_framework.api.tables import organizations, users
from kb_framework.api.times import format_time, now
from kb_framework.errors import Forbidden, NotFound, Unauthorized

COOKIE = "kb_session"
LINK_SECONDS = 60
MANAGE = "access.manage"


class SessionsService:
    def __init__(
        self, store: Store, plugins: Plugins, settings: AccessSettings, audit: AuditService
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._lifetime = timedelta(hours=settings.session_hours)
        self._audit = audit

    @property
    def seconds(self) -> int:
        """How long a session lasts."""
        return int(self._lifetime.total_seconds())

    def actor(self, cookies: Mapping[str, str]) -> Actor | None:
        """Return whose session these cookies name; None where they name none in force."""
        secret = cookies.get(COOKIE)
        if not secret:
            return None

        def recognised(tx: Tx) -> Actor | None:
            row = tx.execute(
                sa.select(sessions).where(*_in_force(), sessions.c.secret_hash == _hash(secret))
            ).first()
            if row is None:
                return None
            if row.key_id is None:
                return Actor()
            return actor_of_key(row.key_id, self._plugins.permissions, tx)

        with self._store.read() as tx:
            return recognised(tx)

    def link(self, _: Question, actor: Actor) -> SessionLink:
        """Make a token that opens a session of the caller, once and within a minute."""
        _require_bound(actor)
        secret, expires = secrets.token_urlsafe(32), _after(timedelta(seconds=LINK_SECONDS))
        with self._store.write(actor.organization_id) as tx:
            # Links that nobody opened and sessions that ended long ago are of no use to anybody.
            tx.execute(sa.delete(sessions).where(sessions.c.expires_at < _after(-self._lifetime)))
            tx.execute(sa.insert(sessions).values(_row(actor, secret, expires)))
        return SessionLink(token=secret, expires_at=expires)

    def open(self, token: str) -> str:
        """Turn a link's token into a session; return the secret for its cookie."""
        secret = secrets.token_urlsafe(32)
        with self._store.write() as tx:
            row = tx.execute(
                sa.select(sessions).where(
                    sessions.c.secret_hash == _hash(token),
                    sessions.c.opened_at.is_(None),
                    sessions.c.ended_at.is_(None),
                    sessions.c.expires_at > now(),
                )
            ).first()
            if row is None:
                raise Unauthorized(
                    "this link was used already, or is older than a minute",
                    hint="kb console makes a new one",
                )
            tx.execute(
                sa.update(sessions)
                .where(sessions.c.id == row.id)
                .values(
                    secret_hash=_hash(secret), opened_at=now(), expires_at=_after(self._lifetime)
                )
            )
        return secret

    def start(self, actor: Actor) -> str:
        """Begin a session of a caller who has just shown a key; return the secret for its cookie."""
        _require_bound(actor)
        secret = secrets.token_urlsafe(32)
        row = {**_row(actor, secret, _after(self._lifetime)), "opened_at": now()}
        with self._store.write(actor.organization_id) as tx:
            tx.execute(sa.insert(sessions).values(row))
        return secret

    def end_of(self, cookies: Mapping[str, str]) -> None:
        """End the session that these cookies name."""
        with self._store.write() as tx:
            tx.execute(
                sa.update(sessions)
                .where(sessions.c.secret_hash == _hash(cookies.get(COOKIE, "")))
                .values(ended_at=now())
            )

    def list(self, asked: PageIn, actor: Actor) -> SessionPage:
        """Return the caller's sessions; whoever manages access sees everybody's."""
        page = asked.wanted
        query = (
            sa.select(
                sessions,
                users.c.name.label("user"),
                organizations.c.name.label("organization"),
            )
            .outerjoin(users, users.c.id == sessions.c.user_id)
            .join(organizations, organizations.c.id == sessions.c.organization_id)
            .outerjoin(api_keys, api_keys.c.id == sessions.c.key_id)
        )
        with self._store.read(actor.organization_id) as tx:
            query = query.where(*_in_force(), _key_in_force(), self._reach(tx, actor))
            total = tx.scalar(sa.select(sa.func.count()).select_from(query.subquery()))
            rows = tx.rows(page.cut(query.order_by(sessions.c.created_at.desc(), sessions.c.id)))
        data = [
            Session(
                id=row["id"],
                user=row["user"] or "local",
                organization=row["organization"],
                key_id=row["key_id"],
                created_at=row["created_at"],
                expires_at=row["expires_at"],
            )
            for row in rows
        ]
        return SessionPage(data=data, meta=page.meta(total))

    def end(self, asked: SessionRef, actor: Actor) -> None:
        """End a session at once."""
        with self._audit.administer(actor) as under_way:
            tx = under_way.tx
            row = tx.execute(
                sa.select(sessions).where(
                    sessions.c.id == asked.session_id, *_in_force(), self._reach(tx, actor)
                )
            ).first()
            if row is None:
                raise NotFound(
                    f"there is no session {asked.session_id}", session_id=asked.session_id
                )
            tx.execute(sa.update(sessions).where(sessions.c.id == row.id).values(ended_at=now()))
            under_way.record("session.ended", row.id, row.organization_id, key_id=row.key_id)

    def _reach(self, tx: Tx, actor: Actor) -> sa.ColumnElement[bool]:
        """The sessions that an actor may see and end."""
        if actor.may(MANAGE):
            return in_reach(tx, actor, sessions)
        return sa.and_(tx.owns(sessions), sessions.c.user_id == actor.user_id)


def _require_bound(actor: Actor) -> None:
    """Raise for an actor whom another plugin recognised: nothing says when such a session has to end."""
    if actor.key_id is None and actor.user_id != LOCAL_USER:
        raise Forbidden("sessions need a key", hint="sign in with a key")


def _row(actor: Actor, secret: str, expires: str) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "organization_id": actor.organization_id,
        "user_id": actor.user_id,
        "key_id": actor.key_id,
        "secret_hash": _hash(secret),
        "created_at": now(),
        "expires_at": expires,
    }


def _in_force() -> tuple[sa.ColumnElement[bool], ...]:
    return (
        sessions.c.opened_at.is_not(None),
        sessions.c.ended_at.is_(None),
        sessions.c.expires_at > now(),
    )


def _key_in_force() -> sa.ColumnElement[bool]:
    unexpired = sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now())
    return sa.or_(sessions.c.key_id.is_(None), sa.and_(api_keys.c.revoked_at.is_(None), unexpired))


def _after(time: timedelta) -> str:
    return format_time(datetime.now(UTC) + time)


def _hash(secret: str) -> str:
    # Random bits, so nothing slow is needed, as for keys.
    return hashlib.sha256(secret.encode()).hexdigest()
