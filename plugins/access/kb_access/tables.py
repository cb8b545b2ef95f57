"""What was administered, by whom. Rows are added, never changed or removed."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.store.tables import BigId, Json, Time, Uuid

metadata = sa.MetaData()

audit_events = sa.Table(
    "access_events",
    metadata,
    sa.Column("seq", BigId, primary_key=True),
    sa.Column("id", Uuid, nullable=False, unique=True),
    # Whose matter it is; the user may be of another organization.
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    sa.Column("key_id", Uuid),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("details", Json, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Index("access_events_by_organization", "organization_id", "seq"),
    sqlite_autoincrement=True,
)
