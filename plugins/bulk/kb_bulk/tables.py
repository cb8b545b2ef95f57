"""The bulk plugin's own tables."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Time, Uuid

metadata = sa.MetaData()

# What plans are signed with: in the store, so that any engine on it can tell a plan that another one made.
bulk_keys = sa.Table(
    "bulk_keys",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(64), nullable=False),
)

# The plans that were executed, each with the job that tells its result.
bulk_plans = sa.Table(
    "bulk_plans",
    metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("job_id", BigId, nullable=False),
    sa.Column("created_at", Time, nullable=False),
)
