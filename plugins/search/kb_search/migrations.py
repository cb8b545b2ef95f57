"""Steps that bring a database to the schema of search."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_search.tables import keys, metadata


def create_keys(tx: Tx) -> None:
    metadata.create_all(tx.connection)
    tx.execute(sa.insert(keys).values(purpose="cursors", secret=secrets.token_hex(32)))
