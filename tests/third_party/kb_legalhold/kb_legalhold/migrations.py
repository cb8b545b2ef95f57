"""The plugin's own tables, a step each."""

from __future__ import annotations

from kb_framework.api.parts import Tx
from kb_legalhold.tables import legal_hold_log, legal_holds


def create_holds(tx: Tx) -> None:
    legal_holds.create(tx.connection)


def create_log(tx: Tx) -> None:
    legal_hold_log.create(tx.connection)
