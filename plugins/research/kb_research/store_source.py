"""The knowledge base itself as a source of research."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from kb_framework.api import ResearchQuery, ResearchResult, RetrievalQuery, Selection
from kb_framework.api.chunks import citation
from kb_framework.api.parts import Plugins, Retrieval, Selector, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents

_PAIR = ("lexical", "vector")
_POOL = 100
# The knowledge plugin's columns, by the name that whoever selects from `chunks` knows them by.
_TYPE = sa.literal_column("chunks.source_type", sa.Text())
_SOURCE = [
    sa.literal_column(f"chunks.{name}").label(name)
    for name in ("source_type", "source_ref", "source_title")
]
_KIND = [sa.literal_column(f"chunks.{name}").label(name) for name in ("chunk_kind", "usage_policy")]


class StoreSource:
    def __init__(
        self, store: Store, plugins: Plugins, selector: Selector, retrieval: Retrieval
    ) -> None:
        self._store = store
        self._selector = selector
        self._plugins = plugins
        self._retrieval = retrieval

    @property
    def filters(self) -> frozenset[str]:
        """All of them."""
        return frozenset(item.name for item in self._selector.offered("chunks"))

    def search(self, query: ResearchQuery) -> list[ResearchResult]:
        names = [item.name for item in self._plugins.retrievers]
        retrievers = _PAIR if set(_PAIR) <= set(names) else tuple(names)
        if not retrievers:
            return []
        limit = max(_POOL, query.limit)
        with self._store.read(query.actor.organization_id) as tx:
            condition = self._condition(tx, query)
            asked = RetrievalQuery(
                query.text, query.actor, limit, retrievers, "research", condition
            )
            hits = self._retrieval.search(asked, tx).hits[: query.limit]
            rows = _rows(tx, [hit.chunk for hit in hits])
        return [_result(rows[hit.chunk], hit.score) for hit in hits if hit.chunk in rows]

    def _condition(self, tx: Tx, query: ResearchQuery) -> sa.ColumnElement[bool] | None:
        conditions: list[sa.ColumnElement[bool]] = []
        if query.filters:
            chosen = Selection(query.filters)
            conditions.append(self._selector.condition(chosen, tx, "chunks"))
        if query.source_types:
            conditions.append(among(_source_type(), list(query.source_types)))
        if query.path_prefix is not None:
            conditions.append(documents.c.path.startswith(query.path_prefix, autoescape=True))
        return sa.and_(*conditions) if conditions else None


def _source_type() -> sa.ColumnElement[Any]:
    """What a chunk's source is: as it was said, else a document's file, else a note that somebody wrote."""
    return sa.func.coalesce(_TYPE, sa.case((documents.c.path.is_(None), "manual"), else_="doc"))


def _rows(tx: Tx, numbers: list[int]) -> dict[int, Mapping[str, Any]]:
    names = ("seq", "id", "document_id", "content", "metadata")
    query = sa.select(
        *(chunks.c[name] for name in names),
        *_SOURCE,
        *_KIND,
        documents.c.title,
        documents.c.path,
        _source_type().label("type"),
    ).join(documents, documents.c.id == chunks.c.document_id)
    return {
        row["seq"]: row
        for row in tx.rows(query.where(tx.owns(chunks), among(chunks.c.seq, numbers)))
    }


def _result(row: Mapping[str, Any], score: float) -> ResearchResult:
    place = citation(row["path"], row["document_id"], row["metadata"])
    decided = (row["chunk_kind"], row["usage_policy"]) != ("fact", "normal")
    return ResearchResult(
        row["content"],
        score,
        row["type"],
        row["source_ref"] or row["metadata"].get("source_ref") or place,
        row["source_title"] or row["metadata"].get("source_title") or row["title"],
        chunk_id=row["id"],
        document_id=row["document_id"],
        chunk_kind=row["chunk_kind"] if decided else None,
        usage_policy=row["usage_policy"] if decided else None,
    )
