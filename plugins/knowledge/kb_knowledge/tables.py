"""The columns that curation adds to chunks, the log of who changed them, and what generations were made of."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Json, Time, Uuid, chunks

KINDS = ("fact", "angle", "example", "quote")
POLICIES = ("normal", "inspiration_only", "never_generate")
SOURCE_REF_CHARS = 2048

# Each with its type and what is checked, as the migration spells it.
COLUMNS = {
    "is_active": "BOOLEAN NOT NULL DEFAULT TRUE CHECK (is_active IN (TRUE, FALSE))",
    "chunk_kind": f"VARCHAR(16) NOT NULL DEFAULT 'fact' CHECK (chunk_kind IN {KINDS})",
    "usage_policy": f"VARCHAR(16) NOT NULL DEFAULT 'normal' CHECK (usage_policy IN {POLICIES})",
    "source_type": "VARCHAR(32)",
    "source_ref": f"VARCHAR({SOURCE_REF_CHARS})",
    "source_title": "VARCHAR(255)",
    "confidence": "DECIMAL(4, 3) CHECK (confidence BETWEEN 0 AND 1)",
}
SOURCE = ("source_type", "source_ref", "source_title", "confidence")
INDEXED = ("is_active", "chunk_kind", "usage_policy")

# `chunks` as it is once the migration has run.
curated = chunks.to_metadata(sa.MetaData())
for column in (
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("chunk_kind", sa.String(16), nullable=False),
    sa.Column("usage_policy", sa.String(16), nullable=False),
    sa.Column("source_type", sa.String(32)),
    sa.Column("source_ref", sa.String(SOURCE_REF_CHARS)),
    sa.Column("source_title", sa.String(255)),
    sa.Column("confidence", sa.Numeric(4, 3, asdecimal=False)),
):
    curated.append_column(column)

metadata = sa.MetaData()

# `seq` keeps the order of what happened in the same moment.
events = sa.Table(
    "knowledge_chunk_events",
    metadata,
    sa.Column("seq", BigId, primary_key=True),
    sa.Column("id", Uuid, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    # No foreign key: an event outlives its chunk.
    sa.Column("chunk_id", Uuid, nullable=False),
    sa.Column("event_type", sa.String(32), nullable=False),
    sa.Column("before", Json),
    sa.Column("after", Json),
    sa.Column("reason", sa.String(255)),
    sa.Column("created_at", Time, nullable=False),
    sa.CheckConstraint(
        "event_type IN ('deactivated', 'activated', 'reclassified', 'policy_changed', 'added_from_research', 'deleted_hard')",
        name="knowledge_chunk_events_type",
    ),
    sa.Index("knowledge_chunk_events_by_chunk", "organization_id", "chunk_id", "created_at"),
    sa.Index("knowledge_chunk_events_by_time", "organization_id", "created_at"),
    sqlite_autoincrement=True,
)

# Curation whose chunk is gone, by the text's hash: it is given to a chunk that has the same text again.
left_over = sa.Table(
    "knowledge_left_over",
    metadata,
    sa.Column("seq", BigId, primary_key=True),
    sa.Column("id", Uuid, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("chunk_id", Uuid, nullable=False),
    sa.Column("document_title", sa.Text, nullable=False),
    sa.Column("document_path", sa.Text),
    sa.Column("is_active", sa.Boolean, nullable=False),
    sa.Column("chunk_kind", sa.String(16), nullable=False),
    sa.Column("usage_policy", sa.String(16), nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("knowledge_left_over_by_hash", "organization_id", "content_hash"),
    sqlite_autoincrement=True,
)

snapshots = sa.Table(
    "knowledge_snapshots",
    metadata,
    sa.Column("seq", BigId, primary_key=True),
    sa.Column("id", Uuid, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("options", Json, nullable=False),
    sa.Column("prompt", sa.Text, nullable=False),
    # What a generator made of it: text, model, checked citations; none where there was no generator.
    sa.Column("answer", Json),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("knowledge_snapshots_by_time", "organization_id", "created_at"),
    sqlite_autoincrement=True,
)

snapshot_chunks = sa.Table(
    "knowledge_snapshot_chunks",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("snapshot_id", Uuid, nullable=False),
    sa.Column("chunk_id", Uuid, nullable=False),
    # The section it was in: facts, angles, examples, quotes.
    sa.Column("section", sa.String(16), nullable=False),
    sa.Column("label", sa.String(16), nullable=False),
    sa.Index("knowledge_snapshot_chunks_by_snapshot", "snapshot_id"),
    sa.Index("knowledge_snapshot_chunks_by_chunk", "organization_id", "chunk_id"),
)
