"""Holds in force, and what happened to documents meanwhile."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Time, Uuid

metadata = sa.MetaData()

legal_holds = sa.Table(
    "legal_holds",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    # No foreign key: a hold must not vanish with its document, and must not bind the host once this plugin is switched off.
    sa.Column("document_id", BigId, nullable=False),
    sa.Column("matter", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("sealed", sa.Boolean, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.UniqueConstraint(
        "organization_id", "document_id", "matter", name="legal_holds_once_per_matter"
    ),
    # Guards, filters and narrowings look holds up by document.
    sa.Index("legal_holds_by_document", "document_id", "sealed"),
    sqlite_autoincrement=True,
)

legal_hold_log = sa.Table(
    "legal_hold_log",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    # How many documents the action changed, and how many holds were in force after it.
    sa.Column("documents", sa.Integer, nullable=False),
    sa.Column("holds", sa.Integer, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("legal_hold_log_by_organization", "organization_id", "id"),
    sqlite_autoincrement=True,
)
