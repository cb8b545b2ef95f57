"""Search, from a question to hits with snippets and citations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Actor, Hit, RetrievalQuery
from kb_framework.retrieval import Retrieval, Retrieved
from kb_framework.store.documents import has_all_tags
from kb_framework.store.sql import among
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import chunks, document_tags, documents
from kb_search.models import HitOut, RetrievalOut, SearchIn, SearchOut
from kb_search.snippet import cut_snippet

_POOL = 100


class SearchService:
    def __init__(self, store: Store, retrieval: Retrieval) -> None:
        self._store = store
        self._retrieval = retrieval

    def search(self, wanted: SearchIn, actor: Actor, purpose: str = "search") -> SearchOut:
        retrievers = ("lexical", "vector") if wanted.mode == "hybrid" else (wanted.mode,)
        query = RetrievalQuery(wanted.query, actor, max(_POOL, wanted.k), retrievers, purpose, _condition(wanted))
        with self._store.read(actor.organization_id) as tx:
            found = self._retrieval.search(query, tx)
            hits = self._hits(tx, found.hits[: wanted.k], wanted)
        return SearchOut(hits=hits, hint=_hint(found), trace=_trace(found) if wanted.trace else None)

    def _hits(self, tx: Tx, found: list[Hit], wanted: SearchIn) -> list[HitOut]:
        rows = self._rows(tx, [hit.chunk for hit in found])
        tags: dict[int, list[str]] = {row["document_id"]: [] for row in rows.values()}
        links = sa.select(document_tags.c.document_id, document_tags.c.tag)
        for number, tag in tx.execute(links.where(among(document_tags.c.document_id, list(tags)))):
            tags[number].append(tag)
        shown = [(hit, rows[hit.chunk]) for hit in found if hit.chunk in rows]
        return [_hit(rank, hit, row, sorted(tags[row["document_id"]]), wanted) for rank, (hit, row) in enumerate(shown, 1)]

    def _rows(self, tx: Tx, numbers: list[int]) -> dict[int, Mapping[str, Any]]:
        names = ("doc_type", "title", "path", "lang", "media", "trust", "indexed_at")
        query = sa.select(
            chunks.c.seq,
            chunks.c.id,
            chunks.c.document_id,
            chunks.c.content,
            chunks.c.metadata,
            *(documents.c[n] for n in names),
        ).join(documents, documents.c.id == chunks.c.document_id)
        return {row["seq"]: row for row in tx.rows(query.where(tx.owns(chunks), among(chunks.c.seq, numbers)))}


def _condition(wanted: SearchIn) -> sa.ColumnElement[bool] | None:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.tags:
        tagged = sa.select(document_tags.c.document_id).where(among(document_tags.c.tag, wanted.tags))
        conditions.append(has_all_tags(wanted.tags) if wanted.tags_match == "all" else documents.c.id.in_(tagged))
    if wanted.media is not None:
        conditions.append(among(documents.c.media, wanted.media))
    for column, value in (
        (documents.c.lang, wanted.lang),
        (documents.c.id, wanted.doc_id),
        (documents.c.doc_type, wanted.doc_type),
    ):
        if value is not None:
            conditions.append(column == value)
    return sa.and_(*conditions) if conditions else None


def _hit(rank: int, hit: Hit, row: Mapping[str, Any], tags: list[str], wanted: SearchIn) -> HitOut:
    hybrid = wanted.mode == "hybrid"
    return HitOut(
        rank=rank,
        score=hit.score,
        score_kind="fusion" if hybrid else {"lexical": "bm25", "vector": "cosine"}[wanted.mode],
        chunk_id=row["id"],
        doc_id=row["document_id"],
        doc_path=row["path"],
        title=row["title"],
        heading_path=list(row["metadata"].get("heading_path") or []),
        snippet=cut_snippet(row["content"], wanted.query, wanted.snippet_chars),
        citation=_citation(row),
        retrieval=RetrievalOut(
            method=wanted.mode,
            fusion_score=hit.score if hybrid else None,
            lexical_score=hit.scores.get("lexical"),
            vector_score=hit.scores.get("vector"),
            lexical_rank=hit.ranks.get("lexical"),
            vector_rank=hit.ranks.get("vector"),
        ),
        tags=tags,
        doc_type=row["doc_type"],
        lang=row["lang"],
        media=row["media"],
        trust=row["trust"],
        indexed_at=row["indexed_at"],
    )


def _citation(row: Mapping[str, Any]) -> str:
    """Where to look: `a.md#L3-L9`, `b.pdf#page=4`."""
    place = row["path"] or f"document/{row['document_id']}"
    metadata = row["metadata"]
    if "page" in metadata:
        return f"{place}#page={metadata['page']}"
    if "line_start" in metadata:
        return f"{place}#L{metadata['line_start']}-L{metadata['line_end']}"
    return place


def _hint(found: Retrieved) -> str | None:
    lost = [f"{reason} ({name} was left out)" for name, reason in found.degraded.items()]
    return "; ".join([*lost, *found.hints]) or None


def _trace(found: Retrieved) -> dict[str, Any]:
    return {
        "lists": {name: [{"chunk": item.chunk, "score": item.score} for item in items] for name, items in found.lists.items()},
        "fusion": [{"chunk": hit.chunk, "score": hit.score} for hit in found.hits],
        "degraded": found.degraded,
        "milliseconds": found.milliseconds,
    }
