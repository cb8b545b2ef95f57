"""What a hold forbids."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api import Objection, Plan
from kb_framework.api.parts import Tx
from kb_legalhold.tables import legal_holds


def objections(plan: Plan, tx: Tx) -> list[Objection]:
    """One for each document on hold, with the matters that hold it.

    The plan's kind does not matter: a kind that some other plugin contributes changes documents as much as a delete does.
    """
    held = sa.select(legal_holds.c.document_id, legal_holds.c.matter).where(
        legal_holds.c.document_id.in_(plan.documents)
    )
    matters: dict[int, list[str]] = {}
    for number, matter in tx.execute(
        held.order_by(legal_holds.c.document_id, legal_holds.c.matter)
    ):
        matters.setdefault(number, []).append(repr(matter))
    return [
        Objection(f"the document is on legal hold: {', '.join(names)}", number)
        for number, names in matters.items()
    ]
