"""Hits grouped by document: the best chunk of each, and how many more of its chunks match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from kb_framework.api import Hit, RetrievalQuery
from kb_framework.api.parts import Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents
from kb_search.facets import matching


def learn_documents(tx: Tx, hits: Iterable[Hit], known: dict[int, int]) -> None:
    """Add the documents of the hits' chunks to those that are known, by chunk."""
    new = [hit.chunk for hit in hits if hit.chunk not in known]
    query = sa.select(chunks.c.seq, chunks.c.document_id).where(among(chunks.c.seq, new))
    known.update((row[0], row[1]) for row in tx.execute(query))


def count_others(
    tx: Tx, query: RetrievalQuery, ranking: Sequence[Hit], shown: Sequence[Hit]
) -> dict[int, int]:
    """Return for each hit, by its chunk, how many more chunks of its document match.

    A chunk matches by its words, or because it is in the ranking.
    """
    of_hits: dict[int, int] = {}
    learn_documents(tx, shown, of_hits)
    found = [hit.chunk for hit in ranking]
    counted = (
        sa.select(chunks.c.document_id, sa.func.count())
        .join(documents, documents.c.id == chunks.c.document_id)
        .where(among(chunks.c.document_id, set(of_hits.values())), *matching(tx, query, found))
        .group_by(chunks.c.document_id)
    )
    counts = {row[0]: row[1] for row in tx.execute(counted)}
    return {chunk: counts.get(document, 1) - 1 for chunk, document in of_hits.items()}
