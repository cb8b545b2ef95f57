"""Uploads under way, and where documents came from."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Json, Time, Uuid, documents

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


def _sources(metadata: sa.MetaData, *more: sa.Column) -> sa.Table:
    return sa.Table(
        "document_sources",
        metadata,
        sa.Column("organization_id", Uuid, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column(
            "document_id", BigId, sa.ForeignKey(documents.c.id, ondelete="CASCADE"), nullable=False
        ),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("modified_ns", sa.BigInteger),
        sa.Column("content_hash", sa.String(64), nullable=False),
        # The derived title. A document title that differs was chosen by a person and stays.
        sa.Column("title", sa.Text, nullable=False),
        *more,
        sa.PrimaryKeyConstraint("organization_id", "source"),
        sa.Index("document_sources_by_document", "document_id"),
    )


# The table as released first; a released step never changes.
_sources(source_metadata, sa.Column("seen_at", Time, nullable=False))

# A file on a disk, in the state in which it was last read. Files with equal content are sources of one document.
sources = _sources(
    sa.MetaData(),
    # Identifies one reading of a top-level file, archives and mails included. A file inside another carries the
    # reading of the outermost file: where the two differ, the outer file no longer holds it.
    sa.Column("reading", Uuid),
    # What the file system says beside size and time of change: inode and ctime. Null: unknown.
    sa.Column("stamp", sa.Text),
)

# `documents` with the column of the step `missing`: since when no source of the document exists any more.
followed = documents.to_metadata(sa.MetaData())
followed.append_column(sa.Column("missing_since", Time))

left_out_metadata = sa.MetaData()

# A file without text, such as an image, as it was when it was read; known so that it is not read again.
left_out = sa.Table(
    "left_out_sources",
    left_out_metadata,
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("modified_ns", sa.BigInteger, nullable=False),
    sa.Column("readers", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("organization_id", "source"),
)

folders_metadata = sa.MetaData()

# A folder that was synced, with the options to sync it by. `name` begins the paths of its documents.
synced_folders = sa.Table(
    "synced_folders",
    folders_metadata,
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("tags", Json, nullable=False),
    sa.Column("doc_type", sa.Text),
    sa.Column("include", Json, nullable=False),
    sa.Column("exclude", Json, nullable=False),
    # The machine that has the folder. Null: any.
    sa.Column("host", sa.Text),
    sa.PrimaryKeyConstraint("organization_id", "root"),
)

views_metadata = sa.MetaData()

# A named selection: its filters, as a request has them.
saved_views = sa.Table(
    "saved_views",
    views_metadata,
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("filters", Json, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time, nullable=False),
    sa.PrimaryKeyConstraint("organization_id", "name"),
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
