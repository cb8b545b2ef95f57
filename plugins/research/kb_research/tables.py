"""Searches as they were answered."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Json, Time, Uuid

metadata = sa.MetaData()

saved_items = sa.Table(
    "saved_research_items",
    metadata,
    sa.Column("seq", BigId, primary_key=True),
    sa.Column("id", Uuid, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("results", Json, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("saved_research_items_by_user", "organization_id", "user_id", "created_at"),
    sqlite_autoincrement=True,
)
