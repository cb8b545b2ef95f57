"""What the research plugin adds to the schema."""

from __future__ import annotations

from kb_framework.store.store import Tx
from kb_research.tables import metadata


def create_saved_items(tx: Tx) -> None:
    metadata.create_all(tx.connection)
