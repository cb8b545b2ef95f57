"""The access plugin's tables. Users and organizations are the host's, since jobs name them."""

from __future__ import annotations

from kb_access.tables import keys_metadata, metadata, sessions_metadata
from kb_framework.api.parts import Tx


def create_events(tx: Tx) -> None:
    metadata.create_all(tx.connection)


def create_keys(tx: Tx) -> None:
    """Create keys and roles, which older databases have from a step of the host."""
    keys_metadata.create_all(tx.connection)


def create_sessions(tx: Tx) -> None:
    sessions_metadata.create_all(tx.connection)
