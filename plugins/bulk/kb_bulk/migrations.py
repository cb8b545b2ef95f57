"""What the bulk plugin adds to the schema."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.store.jobs import has_job_types
from kb_framework.store.store import Tx


def add_job_type(tx: Tx) -> None:
    """Tell ingests from bulk operations; every job so far was an ingest."""
    if not has_job_types(tx):
        tx.execute(sa.text("ALTER TABLE jobs ADD COLUMN job_type TEXT NOT NULL DEFAULT 'ingest'"))
