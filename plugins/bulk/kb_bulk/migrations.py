"""What the bulk plugin adds to the schema."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from kb_bulk.tables import bulk_keys, metadata
from kb_framework.api.jobs import has_job_types
from kb_framework.api.parts import Tx


def add_job_type(tx: Tx) -> None:
    """Tell ingests from bulk operations; every job so far was an ingest."""
    if not has_job_types(tx):
        tx.execute(sa.text("ALTER TABLE jobs ADD COLUMN job_type TEXT NOT NULL DEFAULT 'ingest'"))


def create_plans(tx: Tx) -> None:
    """A key to sign plans with, and the plans that were executed."""
    metadata.create_all(tx.connection)
    tx.execute(sa.insert(bulk_keys).values(id=1, key=secrets.token_hex(32)))
