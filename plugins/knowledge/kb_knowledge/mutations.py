"""What can be done to chunks. Each says what it changes; the log is written around it, for whoever is asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import sqlalchemy as sa
from kb_documents.api import delete_chunks
from pydantic import Field

from kb_framework.api import Flag, Plan
from kb_framework.api.models import Body
from kb_framework.api.parts import Tx
from kb_knowledge import log
from kb_knowledge.conditions import Kind, Policy, Reason
from kb_knowledge.log import EventType
from kb_knowledge.tables import curated


class Curation(Body):
    """A change of one column."""

    event_type: ClassVar[EventType]

    reason: Annotated[Reason | None, Field(description="Why, for the log.")] = None

    def values(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def differs(self) -> sa.ColumnElement[bool]:
        ((name, value),) = self.values().items()
        return (
            curated.c[name].is_(not value) if isinstance(value, bool) else curated.c[name] != value
        )

    def record(self, plan: Plan, selected: sa.Select, tx: Tx) -> None:
        here = curated.c.seq.in_(selected) & self.differs()
        log.record(
            tx, plan.actor, self.event_type, curated, here, reason=self.reason, after=self.values()
        )

    def apply(self, tx: Tx, selected: sa.Select) -> None:
        here = curated.c.seq.in_(selected) & self.differs()
        tx.execute(sa.update(curated).where(here).values(self.values()))


class Deactivate(Curation):
    """Take chunks out of every search."""

    event_type = "deactivated"

    def values(self) -> Mapping[str, Any]:
        return {"is_active": False}


class Activate(Curation):
    """Let chunks be found again."""

    event_type = "activated"

    def values(self) -> Mapping[str, Any]:
        return {"is_active": True}


class Reclassify(Curation):
    """Say what chunks are."""

    event_type = "reclassified"

    chunk_kind: Annotated[
        Kind,
        Flag("--set-kind"),
        Field(description="The kind from now on; an angle is a view to write from."),
    ]

    def values(self) -> Mapping[str, Any]:
        return {"chunk_kind": self.chunk_kind}


class SetPolicy(Curation):
    """Say what chunks may be used for."""

    event_type = "policy_changed"

    usage_policy: Annotated[
        Policy,
        Flag("--set-policy"),
        Field(
            description="The policy from now on; what is for inspiration only is never stated as fact."
        ),
    ]

    def values(self) -> Mapping[str, Any]:
        return {"usage_policy": self.usage_policy}


class DeleteChunk(Body):
    """Remove a chunk for good."""

    reason: Reason | None = None

    def record(self, plan: Plan, selected: sa.Select, tx: Tx) -> None:
        here = curated.c.seq.in_(selected)
        log.record(tx, plan.actor, "deleted_hard", curated, here, reason=self.reason, after=None)

    def apply(self, tx: Tx, selected: sa.Select) -> None:
        delete_chunks(tx, selected)
