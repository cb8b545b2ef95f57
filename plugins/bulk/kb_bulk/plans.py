"""Plan tokens: an operation exactly as it was previewed, for whoever previewed it, and once.

A token carries the operation with its fields and a fingerprint of the documents or chunks that it is about, signed with a key
that is kept in the store. So a preview writes nothing, and any engine on the same store can execute its plan. What is written
is that a plan was executed, in the transaction that did it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
import uuid
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from kb_bulk.tables import bulk_keys, bulk_plans
from kb_framework.api import Actor, MutationKind, MutationResult
from kb_framework.api.jobs import select_jobs
from kb_framework.api.mutation import Fingerprint
from kb_framework.api.parts import Tx
from kb_framework.api.tables import typed_jobs
from kb_framework.api.times import format_time, now
from kb_framework.errors import InvalidInput, PlanExpired, SelectionChanged

# A plan unpacks to no more than this, whoever made it.
_MAX_BYTES = 64_000_000


class PlannedOperation(NamedTuple):
    """What a token says."""

    id: str
    kind: str
    fields: Mapping[str, Any]
    matched: int
    digest: str
    organization_id: str
    user_id: str
    expires: float


def issue(
    tx: Tx,
    kind: MutationKind,
    fields: Mapping[str, Any],
    found: Fingerprint,
    actor: Actor,
    seconds: int,
) -> tuple[str, str]:
    """Return the token of a preview, and the time until which it can be executed."""
    who = actor.organization_id, actor.user_id
    expires = time.time() + seconds
    plan = PlannedOperation(str(uuid.uuid4()), kind.name, fields, *found, *who, expires)
    return seal(plan, _key(tx)), format_time(datetime.fromtimestamp(expires, UTC))


def seal(plan: PlannedOperation, key: bytes) -> str:
    body = _packed(zlib.compress(json.dumps(plan, ensure_ascii=False).encode()))
    return f"{body}.{_signature(body, key)}"


def read(token: str) -> PlannedOperation:
    """What a token says, whether it may say so or not. Raises ValueError where it says nothing."""
    try:
        body = base64.urlsafe_b64decode(token.partition(".")[0].encode())
        plan = PlannedOperation(*json.loads(zlib.decompressobj().decompress(body, _MAX_BYTES)))
        return plan._replace(fields=dict(plan.fields))
    except (ValueError, TypeError, zlib.error, binascii.Error, RecursionError):
        raise ValueError("the plan cannot be read") from None


def genuine(tx: Tx, token: str, kind: MutationKind, actor: Actor) -> PlannedOperation:
    """What a token says, if it was made here, for this operation and this caller."""
    body, _, signature = token.partition(".")
    if not hmac.compare_digest(_signature(body, _key(tx)).encode(), signature.encode()):
        raise InvalidInput("plan: was not made by this engine, or was changed since", field="plan")
    plan = read(token)
    if (plan.organization_id, plan.user_id) != (actor.organization_id, actor.user_id):
        raise InvalidInput("plan: was made for somebody else", field="plan")
    if plan.kind != kind.name:
        raise InvalidInput(f"plan: is for the operation {plan.kind!r}", field="plan")
    return plan


class Once:
    """Executes a plan at most once, and only on the set that it was made for."""

    def __init__(self, plan: PlannedOperation, kind: MutationKind, actor: Actor) -> None:
        self._plan = plan
        self._kind = kind
        self._actor = actor

    def earlier(self, tx: Tx) -> MutationResult | None:
        """The result, if the plan was executed; a plan that was not, and is too old, is refused."""
        found = sa.select(bulk_plans.c.job_id).where(
            tx.owns(bulk_plans), bulk_plans.c.id == self._plan.id
        )
        job_id = tx.scalar(found)
        if job_id is not None:
            [job] = tx.rows(select_jobs(tx).where(typed_jobs.c.id == job_id))
            errors = json.loads(job["error"] or "[]")
            counts = job["matched"], job["succeeded"], job["failed"]
            return MutationResult(self._kind.name, self._actor, job_id, *counts, errors)
        if time.time() >= self._plan.expires:
            raise PlanExpired("the plan has expired; nothing was changed", hint="preview again")
        return None

    def require_same(self, found: Fingerprint) -> None:
        if found != (self._plan.matched, self._plan.digest):
            raise SelectionChanged(
                f"The selection has changed since the preview: {self._plan.matched} {self._kind.over} then, {found.matched} now, "
                "and not the same ones. Nothing was changed.",
                hint="preview again",
                planned=self._plan.matched,
                matched=found.matched,
            )

    def keep(self, tx: Tx, job_id: int) -> None:
        row = {
            "id": self._plan.id,
            "organization_id": tx.organization_id,
            "job_id": job_id,
            "created_at": now(),
        }
        tx.execute(sa.insert(bulk_plans).values(row))


def _key(tx: Tx) -> bytes:
    return bytes.fromhex(tx.scalar(sa.select(bulk_keys.c.key)))


def _signature(body: str, key: bytes) -> str:
    return _packed(hmac.new(key, body.encode(), hashlib.sha256).digest())


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
