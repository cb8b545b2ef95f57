"""Jobs: lists of them, and one by its number."""

from __future__ import annotations

import sqlalchemy as sa

from kb_documents.models import Job, JobIn, JobPage, JobsIn
from kb_framework.api import Actor
from kb_framework.api.jobs import select_jobs
from kb_framework.api.parts import Store
from kb_framework.errors import NotFound


class JobsService:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, asked: JobsIn, actor: Actor) -> JobPage:
        """Return a page of jobs, newest first."""
        wanted = {"job_type": asked.job_type, "status": asked.status}
        with self._store.read(actor.organization_id) as tx:
            found = select_jobs(tx).subquery()
            here = [found.c[name] == value for name, value in wanted.items() if value]
            if asked.document_id is not None:
                # For a change of many it is how many they were.
                here += [found.c.job_type == "ingest", found.c.document_id == asked.document_id]
            total = tx.scalar(sa.select(sa.func.count()).select_from(found).where(*here))
            query = sa.select(found).where(*here).order_by(found.c.id.desc())
            rows = tx.rows(asked.wanted.cut(query))
        return JobPage(
            data=[Job.model_validate(row) for row in rows], meta=asked.wanted.meta(total)
        )

    def get(self, asked: JobIn, actor: Actor) -> Job:
        with self._store.read(actor.organization_id) as tx:
            found = select_jobs(tx).subquery()
            rows = tx.rows(sa.select(found).where(found.c.id == asked.job_id))
        if not rows:
            raise NotFound(f"there is no job {asked.job_id}", job_id=asked.job_id)
        return Job.model_validate(rows[0])
