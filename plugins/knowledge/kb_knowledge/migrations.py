"""What the knowledge plugin adds to the schema."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_framework.api.sql import Forbidden
from kb_knowledge.tables import COLUMNS, INDEXED, events, left_over, snapshot_chunks, snapshots


def add_curation(tx: Tx) -> None:
    """Every chunk that is there becomes an active fact of normal use, as its defaults say."""
    for name, definition in COLUMNS.items():
        tx.execute(sa.text(f"ALTER TABLE chunks ADD COLUMN {name} {definition}"))
    for name in INDEXED:
        tx.execute(sa.text(f"CREATE INDEX chunks_by_{name} ON chunks (organization_id, {name})"))
    # Where the same text is, or was, is asked with every chunk that is added. The hash leads, so that nobody who wants all chunks
    # of an organization is given them in the order of their hashes.
    tx.execute(sa.text("CREATE INDEX chunks_by_text ON chunks (content_hash, organization_id)"))


def create_events(tx: Tx) -> None:
    """The log can be added to, and nothing else: the database itself refuses to change or delete what it says."""
    for table in (events, left_over):
        table.create(tx.connection)
    for verb in ("UPDATE", "DELETE"):
        tx.execute(Forbidden(events.name, verb, "events cannot be changed or deleted"))


def create_snapshots(tx: Tx) -> None:
    for table in (snapshots, snapshot_chunks):
        table.create(tx.connection)
