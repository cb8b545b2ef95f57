"""What search keeps: the key that signs cursors, the same for every process that serves a database."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

keys = sa.Table(
    "search_keys",
    metadata,
    sa.Column("purpose", sa.Text, primary_key=True),
    sa.Column("secret", sa.Text, nullable=False),
)
