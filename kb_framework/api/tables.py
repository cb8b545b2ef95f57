"""The published tables. Filters, narrowings and guards are SQL expressions over these, on any engine.

Times are ISO 8601 UTC text of fixed width, which sorts and compares as time.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

Uuid = sa.String(36)
Json = sa.JSON
# SQLite gives rowid semantics (and AUTOINCREMENT) only to INTEGER.
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Time = sa.String(27)


organizations = sa.Table(
    "organizations",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    # Moves with every change to the organization's documents.
    sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("created_at", Time, nullable=False),
)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("organization_id", Uuid, sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("doc_type", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("path", sa.Text),
    sa.Column("media", sa.Text, nullable=False),
    sa.Column("lang", sa.Text),
    sa.Column("trust", sa.Text, nullable=False),
    sa.Column("metadata", Json, nullable=False),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("chunk_count", sa.Integer, nullable=False),
    # The key of the stored file; several documents may share one.
    sa.Column("file", sa.Text),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time, nullable=False),
    sa.Column("indexed_at", Time),
    sa.CheckConstraint("trust IN ('primary', 'secondary', 'generated')", name="documents_trust"),
    sa.Index("documents_by_organization", "organization_id", "id"),
    sa.Index("documents_by_content", "organization_id", "content_hash"),
    sa.Index("documents_by_type", "organization_id", "doc_type"),
    sa.Index("documents_by_file", "file"),
    sqlite_autoincrement=True,
)

document_tags = sa.Table(
    "document_tags",
    metadata,
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column(
        "document_id", BigId, sa.ForeignKey("documents.id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("tag", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("document_id", "tag"),
    sa.Index("document_tags_by_tag", "organization_id", "tag", "document_id"),
    sqlite_with_rowid=False,
)

chunks = sa.Table(
    "chunks",
    metadata,
    # `seq` numbers the rows of the full-text and vector tables; `id` is what the world sees.
    sa.Column("seq", BigId, primary_key=True),
    sa.Column("id", Uuid, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column(
        "document_id", BigId, sa.ForeignKey("documents.id", ondelete="CASCADE"), nullable=False
    ),
    sa.Column("job_id", Uuid, nullable=False),
    sa.Column("chunk_index", sa.Integer, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("metadata", Json, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("chunks_by_document", "document_id", "chunk_index"),
    sa.Index("chunks_by_organization", "organization_id", "seq"),
    sqlite_autoincrement=True,
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("uuid", Uuid, nullable=False, unique=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("filename", sa.Text),
    # For an ingest the document; for a bulk job the number of documents it affected. So it is no foreign key.
    sa.Column("document_id", sa.BigInteger),
    sa.Column("error", sa.Text),
    sa.Column("matched", sa.Integer),
    sa.Column("succeeded", sa.Integer),
    sa.Column("failed", sa.Integer),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("finished_at", Time),
    sa.Index("jobs_by_organization", "organization_id", "id"),
    sqlite_autoincrement=True,
)

# The bulk plugin's migration adds `job_type`; where it never ran, every job is an ingest.
typed_jobs = jobs.to_metadata(sa.MetaData())
typed_jobs.append_column(sa.Column("job_type", sa.Text, nullable=False, server_default="ingest"))

embedding_spaces = sa.Table(
    "embedding_spaces",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("dimensions", sa.Integer, nullable=False),
    sa.Column("index_name", sa.Text, nullable=False, unique=True),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("created_at", Time, nullable=False),
)

# Stored files whose last document is gone: removed after the commit, and again at the next start if that failed.
file_removals = sa.Table(
    "file_removals",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("created_at", Time, nullable=False),
)

# Stored content that does not match its hash. A row goes when the content is whole again.
integrity_metadata = sa.MetaData()

damage = sa.Table(
    "damage",
    integrity_metadata,
    # "file" with the key of a stored file, or "chunk" with the id of a chunk and its document.
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("document_id", sa.BigInteger),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("found_at", Time, nullable=False),
)

# Where the next check of a part goes on.
check_positions = sa.Table(
    "check_positions",
    integrity_metadata,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("position", sa.Text, nullable=False),
)

migrations = sa.Table(
    "kb_migrations",
    sa.MetaData(),
    sa.Column("plugin", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("applied_at", Time, nullable=False),
)

# The documents or chunks, by number, of the mutation that runs in this transaction; `state` tells which part is being applied.
plan_items = sa.Table(
    "plan_items",
    sa.MetaData(),
    sa.Column("item", BigId, primary_key=True),
    sa.Column("document_id", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Integer, nullable=False),
    prefixes=["TEMPORARY"],
)


# Who may ask. A released step of the base never changes, so these are a step of their own.
access_metadata = sa.MetaData()

users = sa.Table(
    "users",
    access_metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("removed_at", Time),
    sa.UniqueConstraint("organization_id", "name", name="users_by_name"),
)
