"""What the database knows of the side index."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Time, Uuid

metadata = sa.MetaData()

# The source of an index over text; one over vectors has the name of the vector index.
TEXT = "text"

side_indexes = sa.Table(
    "side_indexes",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    # Whether it is complete, so that it can be searched.
    sa.Column("live", sa.Boolean, nullable=False),
    # When it was begun, chunks up to `upto` existed; those up to `built_to` are in segments. Later ones came by the tail.
    sa.Column("upto", sa.BigInteger, nullable=False),
    sa.Column("built_to", sa.BigInteger, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.UniqueConstraint("organization_id", "source"),
    sqlite_autoincrement=True,
)

side_segments = sa.Table(
    "side_segments",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("side_id", BigId, nullable=False),
    sa.Column("folder", sa.Text, nullable=False),
    # One that is not live is being written, or was left behind by a process that ended.
    sa.Column("live", sa.Boolean, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("side_segments_by_index", "side_id", "id"),
    sqlite_autoincrement=True,
)

# Chunks that are in no segment yet.
side_tail = sa.Table(
    "side_tail",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("side_id", BigId, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("side_id", "seq"),
    # Every index of SQLite ends with the row's own number, so this one gives a tail in the order of writing.
    sa.Index("side_tail_by_index", "side_id"),
    sqlite_autoincrement=True,
)

# What segments hold of these chunks is void, in those that were begun earlier (whose id is lower) than `before`.
side_removed = sa.Table(
    "side_removed",
    metadata,
    sa.Column("side_id", BigId, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("before", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("side_id", "seq"),
    sqlite_with_rowid=False,
)
