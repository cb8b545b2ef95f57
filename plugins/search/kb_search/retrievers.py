"""The two built-in ways of finding chunks."""

from __future__ import annotations

from collections.abc import Sequence

from kb_models.api import NO_EMBEDDING, Embedding
from kb_text.api import in_latin_letters, language_of, text_query

from kb_framework.api import Candidate, RetrievalQuery
from kb_framework.api.chunks import allowed_chunks, has_chunks, require_chunks
from kb_framework.api.parts import Tx
from kb_framework.api.retrieval import Candidates
from kb_framework.api.text_query import Expression
from kb_framework.errors import EmbedderUnavailable

# Title, headings, body.
_WEIGHTS = (2.5, 1.5, 1.0)
# What vectors count where the embedder does not know the query's language: names and numbers mean the same in any language
# that is written in Latin letters; of other scripts it sees no more than bytes, and would only do harm.
_UNKNOWN_LATIN = 0.5
_UNKNOWN_SCRIPT = 0.0


class LexicalRetriever:
    """Full text, by BM25."""

    def retrieve(self, query: RetrievalQuery, tx: Tx) -> Sequence[Candidate]:
        return self.retrieve_all([query], tx)[0]

    def retrieve_all(self, queries: Sequence[RetrievalQuery], tx: Tx) -> list[Sequence[Candidate]]:
        found: list[Sequence[Candidate]] = [()] * len(queries)
        for same in _alike(queries):
            query = queries[same[0]]
            allowed = None if query.condition is None else allowed_chunks(query, tx)
            texts = [text_query(queries[number].text, _WEIGHTS) for number in same]
            lists = tx.text.search(texts, allowed, query.limit)
            for number, columns in zip(same, lists, strict=True):
                found[number] = Candidates(*columns)
        for number, query in enumerate(queries):
            if query.expression is not None:
                found[number] = self._matching(query, query.expression, tx)
        if not any(found):
            require_chunks(tx, tx.text, "full text")
        return found

    def _matching(self, query: RetrievalQuery, expression: Expression, tx: Tx) -> Candidates:
        wanted = text_query(expression, _WEIGHTS)
        (columns,) = tx.text.search([wanted], allowed_chunks(query, tx), query.limit)
        return Candidates(*columns)


class VectorRetriever:
    """Nearness of meaning, by the chosen embedder."""

    def __init__(self, embedding: Embedding = NO_EMBEDDING) -> None:
        self._embedding = embedding

    def weight(self, query: RetrievalQuery) -> float:
        language = language_of(query.text)
        known = self._embedding.languages
        if language is None or known is None or language in known:
            return 1.0
        return _UNKNOWN_LATIN if in_latin_letters(language) else _UNKNOWN_SCRIPT

    def hint(self, query: RetrievalQuery, tx: Tx) -> str | None:
        # Whoever asks in a language that the model knows is not told of the others.
        return self._embedding.advice(tx) if self.weight(query) < 1.0 else None

    def retrieve(self, query: RetrievalQuery, tx: Tx) -> Sequence[Candidate]:
        return self.retrieve_all([query], tx)[0]

    def retrieve_all(self, queries: Sequence[RetrievalQuery], tx: Tx) -> list[Sequence[Candidate]]:
        vectors = self._vectors(queries)
        found: list[Sequence[Candidate]] = [()] * len(queries)
        space = self._embedding.space(tx)
        if space is None:
            if has_chunks(tx):
                raise EmbedderUnavailable("no chunk has a vector", hint="kb reindex makes them")
            return found
        index = tx.vector_index(space.index_name)
        for same in _alike(queries, expressions=True):
            query = queries[same[0]]
            allowed = None if query.condition is None else allowed_chunks(query, tx)
            # A text of which the model knows no word is near to nothing.
            if not (some := [number for number in same if any(vectors[number])]):
                continue
            given = [vectors[number] for number in some]
            lists = index.search(given, allowed, query.limit)
            for number, columns in zip(some, lists, strict=True):
                found[number] = Candidates(*columns)
        if not any(found):
            require_chunks(tx, index, "vector index")
        return found

    def _vectors(self, queries: Sequence[RetrievalQuery]) -> list[bytes]:
        texts = list(dict.fromkeys(query.text for query in queries if not query.vector))
        made = self._embedding.encode(texts) if texts else []
        if made is None:
            raise EmbedderUnavailable(
                f"search by meaning is not possible: {self._embedding.problem}"
            )
        known = dict(zip(texts, made, strict=True))
        return [query.vector or known[query.text] for query in queries]


def _alike(queries: Sequence[RetrievalQuery], *, expressions: bool = False) -> list[list[int]]:
    """The numbers of queries that may find the same and as much; those with expressions only where they are asked for."""
    groups: dict[tuple[int | None, int], list[int]] = {}
    for number, query in enumerate(queries):
        if query.expression is None or expressions:
            key = (None if query.condition is None else id(query.condition), query.limit)
            groups.setdefault(key, []).append(number)
    return list(groups.values())
