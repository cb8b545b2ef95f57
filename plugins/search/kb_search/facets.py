"""How the matching documents divide by tag, type, language and media.

Counted is every document with a chunk that matches by words, under all filters, however many there are; and with them the
documents of the candidates that were found by meaning, of which there is no end but the limit. One statement, one scan.
"""

from __future__ import annotations

import sqlalchemy as sa
from kb_documents.api import count_values
from kb_text.api import text_query

from kb_framework.api import RetrievalQuery
from kb_framework.api.parts import Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents
from kb_search.models import FacetOut, FacetsOut

_BY = ("tag", "doc_type", "lang", "media")
# How many values of each are returned, the most frequent first.
_VALUES = 100


def count_facets(tx: Tx, query: RetrievalQuery, found: list[int]) -> FacetsOut:
    """Return the counts over what a query, narrowed, matches by words, and over the chunks that were `found`."""
    matched = (
        sa.select(chunks.c.document_id.label("id"))
        .distinct()
        .join(documents, documents.c.id == chunks.c.document_id)
        .where(*matching(tx, query, found))
    )
    total, counts = count_values(tx, matched, _BY, _VALUES)
    values = {
        name: [FacetOut(value=item.value, count=item.count) for item in items]
        for name, items in counts.items()
    }
    return FacetsOut(documents=total, **values)


def matching(tx: Tx, query: RetrievalQuery, found: list[int]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that a chunk matches a narrowed query by its words, or is among the chunks that were found."""
    matches = among(chunks.c.seq, found)
    if "lexical" in query.retrievers:
        wanted = text_query(query.expression or query.text)
        matches = sa.or_(matches, tx.text.matches(wanted, chunks.c.seq))
    narrowed = [] if query.condition is None else [query.condition]
    return [tx.owns(chunks), matches, *narrowed]
