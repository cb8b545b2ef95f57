"""The two built-in ways of finding chunks."""

from __future__ import annotations

import sqlalchemy as sa

from kb_framework.api import Candidate, RetrievalQuery
from kb_framework.embedding import Embedding
from kb_framework.errors import EmbedderUnavailable
from kb_framework.store.store import Tx
from kb_framework.store.tables import chunks, documents

# Title, headings, body.
_WEIGHTS = (2.0, 1.5, 1.0)


def allowed_chunks(query: RetrievalQuery, tx: Tx) -> sa.Select:
    """The chunks a search may return."""
    allowed = sa.select(chunks.c.seq).where(tx.owns(chunks))
    if query.condition is not None:
        allowed = allowed.join(documents, documents.c.id == chunks.c.document_id).where(query.condition)
    return allowed


class LexicalRetriever:
    """Full text, by BM25."""

    def retrieve(self, query: RetrievalQuery, tx: Tx) -> list[Candidate]:
        allowed = allowed_chunks(query, tx)
        found = tx.backend.search_text(tx.connection, query.text, allowed, query.limit, _WEIGHTS, tx.organization_id)
        return [Candidate(chunk, score) for chunk, score in found]


class VectorRetriever:
    """Nearness of meaning, by the chosen embedder."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def retrieve(self, query: RetrievalQuery, tx: Tx) -> list[Candidate]:
        vectors = self._embedding.encode([query.text])
        if vectors is None:
            raise EmbedderUnavailable(f"search by meaning is not possible: {self._embedding.problem}")
        space = self._embedding.space(tx)
        if space is None or not any(vectors[0]):
            return []
        allowed = None if query.condition is None else allowed_chunks(query, tx)
        found = tx.backend.search_vectors(tx.connection, space.index_name, tx.organization_id, vectors[0], allowed, query.limit)
        return [Candidate(chunk, score) for chunk, score in found]
