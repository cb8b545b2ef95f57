"""What was administered, by whom. Rows are added, never changed or removed."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.tables import BigId, Json, Time, Uuid, users

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

keys_metadata = sa.MetaData()

# Roles beside the built-in ones.
roles = sa.Table(
    "roles",
    keys_metadata,
    sa.Column("organization_id", Uuid, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("permissions", Json, nullable=False),
    sa.Column("created_at", Time, nullable=False),
)

# A row stays when its key is revoked: once a key was made, no request is served without one.
api_keys = sa.Table(
    "api_keys",
    keys_metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, sa.ForeignKey(users.c.id), nullable=False),
    # The visible part of the key, by which it is looked up; the secret is stored as a hash.
    sa.Column("prefix", sa.Text, nullable=False, unique=True),
    sa.Column("secret_hash", sa.String(64), nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    # Fewer permissions than the role's; null for all of them.
    sa.Column("permissions", Json(none_as_null=True)),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("expires_at", Time),
    sa.Column("revoked_at", Time),
    sa.Column("last_used_at", Time),
    sa.Index("api_keys_by_organization", "organization_id", "created_at"),
)

sessions_metadata = sa.MetaData()

# A link that was not opened yet is a session without `opened_at`; its secret is replaced when it is opened.
sessions = sa.Table(
    "access_sessions",
    sessions_metadata,
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("organization_id", Uuid, nullable=False),
    sa.Column("user_id", Uuid, nullable=False),
    # The key that it is bound to; null for the local person's.
    sa.Column("key_id", Uuid),
    sa.Column("secret_hash", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("opened_at", Time),
    sa.Column("expires_at", Time, nullable=False),
    sa.Column("ended_at", Time),
    sa.Index("access_sessions_by_organization", "organization_id", "created_at"),
)
