"""How the matching documents divide by tag, type, language and media.

Counted is every document with a chunk that matches by words, under all filters, however many there are; and with them the
documents of the candidates that were found by meaning, of which there is no end but the limit. One statement, one scan.
"""

from __future__ import annotations

import sqlalchemy as sa
from kb_text.api import text_query

from kb_framework.api import RetrievalQuery
from kb_framework.storage.sql import among
from kb_framework.storage.store import Tx
from kb_framework.storage.tables import chunks, document_tags, documents
from kb_search.models import FacetOut, FacetsOut

_FIELDS = ("doc_type", "lang", "media")
# How many values of one kind are told; the most frequent come first.
_VALUES = 100


def count_facets(tx: Tx, query: RetrievalQuery, found: list[int]) -> FacetsOut:
    """The counts over what a query, narrowed, matches by words, and over the chunks that were `found`."""
    matching = among(chunks.c.seq, found)
    if "lexical" in query.retrievers:
        wanted = text_query(query.expression or query.text)
        matching = sa.or_(matching, tx.text.matches(wanted, chunks.c.seq))
    allowed = [tx.owns(chunks), matching, *([] if query.condition is None else [query.condition])]
    matched = (
        sa.select(chunks.c.document_id.label("id"))
        .distinct()
        .join(documents, documents.c.id == chunks.c.document_id)
    )
    # It is read five times; evaluated once.
    once = matched.where(*allowed).cte("matched")
    rows = [sa.select(sa.literal("documents"), sa.null(), sa.func.count()).select_from(once)]
    for name in _FIELDS:
        column = documents.c[name]
        rows.append(
            sa.select(sa.literal(name), column, sa.func.count())
            .join(once, once.c.id == documents.c.id)
            .group_by(column)
        )
    tag = document_tags.c.tag
    rows.append(
        sa.select(sa.literal("tag"), tag, sa.func.count())
        .join(once, once.c.id == document_tags.c.document_id)
        .group_by(tag)
    )
    counts: dict[str, list[FacetOut]] = {name: [] for name in (*_FIELDS, "tag")}
    total = 0
    for name, value, count in tx.execute(sa.union_all(*rows)):
        if name == "documents":
            total = count
        else:
            counts[name].append(FacetOut(value=value, count=count))
    for values in counts.values():
        values.sort(key=lambda item: (-item.count, item.value or ""))
    return FacetsOut(documents=total, **{name: values[:_VALUES] for name, values in counts.items()})
