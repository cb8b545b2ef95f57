"""The access plugin's own table; keys, users and roles are the host's, which must be able to check them without this plugin."""

from __future__ import annotations

from kb_access.tables import metadata
from kb_framework.store.store import Tx


def create_events(tx: Tx) -> None:
    metadata.create_all(tx.connection)
