"""The two built-in ways of finding chunks."""

from __future__ import annotations

from kb_framework.api import Candidate, RetrievalQuery
from kb_framework.embedding import Embedding
from kb_framework.errors import EmbedderUnavailable
from kb_framework.languages import LanguageAdvice
from kb_framework.store.chunks import allowed_chunks
from kb_framework.store.store import Tx
from kb_framework.store.text import in_latin_letters, language_of

# Title, headings, body.
_WEIGHTS = (2.5, 1.5, 1.0)
# What vectors count where the embedder does not know the query's language: names and numbers mean the same in any language
# that is written in Latin letters; of other scripts it sees no more than bytes, and would only do harm.
_UNKNOWN_LATIN = 0.5
_UNKNOWN_SCRIPT = 0.0


class LexicalRetriever:
    """Full text, by BM25."""

    def retrieve(self, query: RetrievalQuery, tx: Tx) -> list[Candidate]:
        owner = tx.organization_id
        if query.expression is not None:
            allowed = allowed_chunks(query, tx)
            found = tx.backend.search_expression(tx.connection, owner, query.expression, allowed, query.limit, _WEIGHTS)
        else:
            allowed = None if query.condition is None else allowed_chunks(query, tx)
            found = tx.backend.search_text(tx.connection, owner, query.text, allowed, query.limit, _WEIGHTS)
        return list(map(Candidate._make, found))


class VectorRetriever:
    """Nearness of meaning, by the chosen embedder."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._advice = LanguageAdvice(embedding)

    def weight(self, query: RetrievalQuery) -> float:
        language = language_of(query.text)
        known = self._embedding.languages
        if language is None or known is None or language in known:
            return 1.0
        return _UNKNOWN_LATIN if in_latin_letters(language) else _UNKNOWN_SCRIPT

    def hint(self, query: RetrievalQuery, tx: Tx) -> str | None:
        # Whoever asks in a language that the model knows is not told of the others.
        return self._advice.on(tx) if self.weight(query) < 1.0 else None

    def retrieve(self, query: RetrievalQuery, tx: Tx) -> list[Candidate]:
        vectors = [query.vector] if query.vector else self._embedding.encode([query.text])
        if vectors is None:
            raise EmbedderUnavailable(f"search by meaning is not possible: {self._embedding.problem}")
        space = self._embedding.space(tx)
        if space is None or not any(vectors[0]):
            return []
        allowed = None if query.condition is None else allowed_chunks(query, tx)
        found = tx.backend.search_vectors(tx.connection, space.index_name, tx.organization_id, vectors[0], allowed, query.limit)
        return list(map(Candidate._make, found))
