"""Jobs: what was done, by whom, to how many, with which outcome."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb_framework.api import LOCAL_USER, Actor
from kb_framework.api.tables import jobs, typed_jobs, users
from kb_framework.api.times import now

if TYPE_CHECKING:
    from kb_framework.storage.store import Tx

FIELDS = [
    "id",
    "uuid",
    "job_type",
    "status",
    "filename",
    "document_id",
    "error",
    "matched",
    "succeeded",
    "failed",
    "user_id",
    "created_at",
    "finished_at",
]

# Written for every document that is added, so built once.
_INSERT, _INSERT_TYPED = sa.insert(jobs), sa.insert(typed_jobs)


def has_job_types(tx: Tx) -> bool:
    """Whether the column exists. Once it does it stays, so the answer is kept."""
    if not tx.store.has_job_types:
        tx.store.has_job_types = any(
            column["name"] == "job_type" for column in sa.inspect(tx.connection).get_columns("jobs")
        )
    return tx.store.has_job_types


def insert_job(tx: Tx, actor: Actor, job_type: str, **values: Any) -> int:
    time = now()
    row = {
        "uuid": str(uuid.uuid4()),
        "organization_id": tx.organization_id,
        "user_id": actor.user_id,
        "created_at": time,
        "finished_at": time,
    } | values
    statement, kind = (
        (_INSERT_TYPED, {"job_type": job_type}) if has_job_types(tx) else (_INSERT, {})
    )
    result = tx.execute(statement, row | kind)
    return result.inserted_primary_key[0]  # type: ignore[index]


def finish_job(tx: Tx, job_id: int, *, status: str, **values: Any) -> None:
    """End a job that was written before it was done; it is about one file."""
    failed = int(status == "failed")
    row = {
        "status": status,
        "matched": 1,
        "succeeded": 1 - failed,
        "failed": failed,
        "finished_at": now(),
        **values,
    }
    tx.execute(sa.update(jobs).where(jobs.c.id == job_id).values(row))


def select_jobs(tx: Tx) -> sa.Select:
    """The organization's jobs with the fields that the world sees."""
    table = typed_jobs if has_job_types(tx) else jobs
    columns = [
        table.c[name] if name in table.c else sa.literal("ingest").label("job_type")
        for name in FIELDS
    ]
    named = sa.select(users.c.name).where(users.c.id == table.c.user_id).scalar_subquery()
    # Whoever works here without a key is nobody's row.
    user = sa.case((table.c.user_id == LOCAL_USER, "local"), else_=named).label("user")
    return sa.select(*columns, user).where(tx.owns(table))
