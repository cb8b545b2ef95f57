"""Uploads under way."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.store.tables import Json, Time, Uuid

metadata = sa.MetaData()

uploads = sa.Table(
    "uploads",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("fields", Json, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("expires_at", Time, nullable=False),
)
