"""The documents plugin's own tables."""

from __future__ import annotations

import sqlalchemy as sa

from kb_documents.tables import (
    folders_metadata,
    left_out_metadata,
    metadata,
    queue_metadata,
    refused_metadata,
    source_metadata,
    views_metadata,
)
from kb_framework.api.parts import Tx


def create_uploads(tx: Tx) -> None:
    metadata.create_all(tx.connection)


def create_sources(tx: Tx) -> None:
    source_metadata.create_all(tx.connection)


def create_queue(tx: Tx) -> None:
    queue_metadata.create_all(tx.connection)


def create_refused(tx: Tx) -> None:
    refused_metadata.create_all(tx.connection)


def add_missing(tx: Tx) -> None:
    """Missing documents; and readings in place of times, because a clock can step back."""
    for statement in (
        "ALTER TABLE documents ADD COLUMN missing_since VARCHAR(27)",
        "CREATE INDEX documents_missing ON documents (organization_id, missing_since) WHERE missing_since IS NOT NULL",
        "ALTER TABLE document_sources ADD COLUMN reading VARCHAR(36)",
        "ALTER TABLE document_sources ADD COLUMN stamp TEXT",
        "ALTER TABLE document_sources DROP COLUMN seen_at",
    ):
        tx.execute(sa.text(statement))


def create_left_out(tx: Tx) -> None:
    left_out_metadata.create_all(tx.connection)


def create_folders(tx: Tx) -> None:
    folders_metadata.create_all(tx.connection)


def create_views(tx: Tx) -> None:
    views_metadata.create_all(tx.connection)
