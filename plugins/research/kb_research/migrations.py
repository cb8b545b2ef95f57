"""What the research plugin adds to the schema."""

from __future__ import annotations

from kb_framework.api.parts import Tx
from kb_research import limits
from kb_research.tables import metadata


def create_saved_items(tx: Tx) -> None:
    metadata.create_all(tx.connection)


def create_limits(tx: Tx) -> None:
    """Create the uses that limits count, which older databases have from a step of the host."""
    limits.metadata.create_all(tx.connection)
