"""The documents plugin's own tables."""

from __future__ import annotations

from kb_documents.tables import metadata, queue_metadata, refused_metadata, source_metadata
from kb_framework.store.store import Tx


def create_uploads(tx: Tx) -> None:
    metadata.create_all(tx.connection)


def create_sources(tx: Tx) -> None:
    source_metadata.create_all(tx.connection)


def create_queue(tx: Tx) -> None:
    queue_metadata.create_all(tx.connection)


def create_refused(tx: Tx) -> None:
    refused_metadata.create_all(tx.connection)
