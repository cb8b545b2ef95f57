"""The record of administration: in the database, in the transaction of the change, and in the log after it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from kb_access.models import AuditEvent, AuditPage
from kb_access.tables import audit_events
from kb_framework.api import DEFAULT_ORGANIZATION, Actor
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Plugins, Settings, Store, Tx
from kb_framework.api.times import now

log = logging.getLogger("kb.audit")

ANY_ORGANIZATION = "access.organizations"
# What is about this process, not about how the engine is administered.
_NOT_ADMINISTERED = {
    "KB_DATA_DIR",
    "KB_CONFIG_FILE",
    "KB_ENGINE_URL",
    "KB_API_KEY",
    "KB_DISABLED_PLUGINS",
}


def in_reach(tx: Tx, actor: Actor, table: sa.Table) -> sa.ColumnElement[bool]:
    """The rows that an actor administers: of the own organization, or of all."""
    return sa.true() if actor.may(ANY_ORGANIZATION) else tx.owns(table)


class Administration:
    """A transaction in which something is administered; what was done is told when it has been committed."""

    def __init__(self, tx: Tx, actor: Actor) -> None:
        self.tx = tx
        self._actor = actor
        self.events: list[dict[str, Any]] = []

    def record(self, action: str, subject: str, organization_id: str, **details: Any) -> None:
        event = {
            "id": str(uuid.uuid4()),
            "organization_id": organization_id,
            "user_id": self._actor.user_id,
            "key_id": self._actor.key_id,
            "action": action,
            "subject": subject,
            "details": details,
            "created_at": now(),
        }
        self.tx.execute(sa.insert(audit_events).values(event))
        self.events.append(event)


class AuditService:
    def __init__(self, store: Store, plugins: Plugins) -> None:
        self._store = store
        self._plugins = plugins

    @contextmanager
    def administer(self, actor: Actor) -> Iterator[Administration]:
        with self._store.write(actor.organization_id) as tx:
            under_way = Administration(tx, actor)
            yield under_way
        for event in under_way.events:
            fields = {
                name: event[name]
                for name in ("action", "subject", "user_id", "key_id", "organization_id")
            }
            log.info("%s %s", event["action"], event["subject"], extra=fields)

    def list(self, asked: PageIn, actor: Actor) -> AuditPage:
        page = asked.wanted
        columns = [audit_events.c[name] for name in AuditEvent.model_fields]
        with self._store.read(actor.organization_id) as tx:
            mine = in_reach(tx, actor, audit_events)
            total = tx.scalar(sa.select(sa.func.count()).select_from(audit_events).where(mine))
            rows = tx.rows(
                page.cut(sa.select(*columns).where(mine).order_by(audit_events.c.seq.desc()))
            )
        return AuditPage.model_validate({"data": rows, "meta": page.meta(total)})

    def note_configuration(self, settings: Settings) -> None:
        """Record which settings differ from those of the last start, and which plugins were switched on or off since."""
        current = {
            item.variable: item.shown for item in settings.values if item.origin != "default"
        }
        current = {name: value for name, value in current.items() if name not in _NOT_ADMINISTERED}
        off = {info.name for info in self._plugins.infos if info.state == "disabled"}
        with self._store.read() as tx:
            before, was_off = self._last_configuration(tx)
        if (before, was_off) == (current, off):
            return
        with self.administer(Actor()) as under_way:
            for name in sorted(before.keys() | current.keys()):
                old, new = before.get(name), current.get(name)
                if old != new:
                    under_way.record(
                        "setting.changed", name, DEFAULT_ORGANIZATION, before=old, after=new
                    )
            for name in sorted(off ^ was_off):
                action = "plugin.disabled" if name in off else "plugin.enabled"
                under_way.record(action, name, DEFAULT_ORGANIZATION)

    def _last_configuration(self, tx: Tx) -> tuple[dict[str, Any], set[str]]:
        """What the record says of settings that differ from their defaults, and of plugins that are off."""
        about = ("setting.changed", "plugin.disabled", "plugin.enabled")
        query = sa.select(audit_events.c.action, audit_events.c.subject, audit_events.c.details)
        settings: dict[str, Any] = {}
        off: set[str] = set()
        for action, subject, details in tx.execute(
            query.where(audit_events.c.action.in_(about)).order_by(audit_events.c.seq)
        ):
            if action == "plugin.disabled":
                off.add(subject)
            elif action == "plugin.enabled":
                off.discard(subject)
            elif details["after"] is None:
                settings.pop(subject, None)
            else:
                settings[subject] = details["after"]
        return settings, off
