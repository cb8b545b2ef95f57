"""What chunks stand under: the title and headings that each was embedded with."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping

import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_framework.api.sql import among_given
from kb_framework.api.tables import chunks, documents

# The headings as text: they are compared, and hundreds of chunks are asked about in every search.
_QUERY = (
    sa.select(chunks.c.seq, documents.c.title, chunks.c.metadata["heading_path"].as_string())
    .join(documents, documents.c.id == chunks.c.document_id)
    .where(among_given(chunks.c.seq, "numbers"))
)
# How many are remembered while nobody writes.
_MOST = 20_000


def contexts(numbers: Collection[int], tx: Tx) -> Mapping[int, Hashable]:
    """The context of each chunk; those that have the same one stand beside each other, in one document or in several."""
    known: dict[int, Hashable] = tx.once("contexts", dict)
    missing = [number for number in numbers if number not in known]
    if missing:
        if len(known) > _MOST:
            known.clear()
            missing = list(numbers)
        for seq, title, headings in tx.execute(_QUERY, {"numbers": json.dumps(missing)}).all():
            known[seq] = title, headings if headings != "[]" else None
    return {number: known[number] for number in numbers if number in known}
