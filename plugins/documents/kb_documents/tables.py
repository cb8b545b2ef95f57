"""Uploads under way, and where documents came from."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.store.tables import BigId, Json, Time, Uuid, documents

metadata = sa.MetaData()
source_metadata = sa.MetaData()

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

queue_metadata = sa.MetaData()

# Files that wait to become documents, each with a job of the same UUID. Whoever works on one has it on lease.
ingest_queue = sa.Table(
    "ingest_queue",
    queue_metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("job_id", sa.BigInteger, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("filename", sa.Text, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("fields", Json, nullable=False),
    sa.Column("actor", Json, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("lease", Uuid),
    sa.Column("leased_until", Time),
    sa.Column("created_at", Time, nullable=False),
)

# A file on somebody's disk, as it was when it was last read. Several may hold the same content, and so be one document.
sources = sa.Table(
    "document_sources",
    source_metadata,
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("document_id", BigId, sa.ForeignKey(documents.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("modified_ns", sa.BigInteger),
    sa.Column("content_hash", sa.String(64), nullable=False),
    # What the title was derived to be: a title that differs was chosen by a person, and stays.
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("seen_at", Time, nullable=False),
    sa.PrimaryKeyConstraint("organization_id", "source"),
    sa.Index("document_sources_by_document", "document_id"),
)

refused_metadata = sa.MetaData()

# A file that could not be read, as it was then. While it and what reads files (`readers`) are the same, so is the reason.
refused = sa.Table(
    "refused_sources",
    refused_metadata,
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("modified_ns", sa.BigInteger, nullable=False),
    sa.Column("readers", sa.String(64), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("organization_id", "source"),
)
