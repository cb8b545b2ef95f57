"""A reranker that compares word with word: each word of the question with the nearest in meaning of the text.

A text's one vector blurs what it says; here a single sentence that answers the question is enough. It uses the token vectors of
the default embedder, so nothing more is to be installed, and takes some 40 ms of a processor for 50 chunks: that is why it is
not on by default.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import sqlalchemy as sa
from kb_text.api import language_of

from kb_framework.api import Hit, RetrievalQuery
from kb_framework.api.parts import Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents
from kb_models.texts import embedded_text
from kb_models.wordllama import WordLlama

# Its share in the new score; the rest is the score that fusion gave.
_SHARE = 0.15


class LateInteraction:
    @cached_property
    def _model(self) -> WordLlama:
        return WordLlama()

    def rerank(self, query: RetrievalQuery, hits: list[Hit], tx: Tx) -> list[Hit]:
        if language_of(query.text) not in (None, *self._model.languages):
            return hits
        texts = self._texts([hit.chunk for hit in hits], tx)
        nearness = self._nearness(query.text, [texts.get(hit.chunk, "") for hit in hits])
        floor = min(nearness)
        gains = [(value - floor) / ((1.0 - floor) or 1.0) for value in nearness]
        scored = [
            hit._replace(score=(1 - _SHARE) * hit.score + _SHARE * gain)
            for hit, gain in zip(hits, gains, strict=True)
        ]
        return sorted(scored, key=lambda hit: -hit.score)

    def _texts(self, numbers: list[int], tx: Tx) -> dict[int, str]:
        query = sa.select(chunks.c.seq, documents.c.title, chunks.c.content, chunks.c.metadata)
        query = query.join(documents, documents.c.id == chunks.c.document_id).where(
            among(chunks.c.seq, numbers)
        )
        return {
            row.seq: embedded_text(row.title, row.content, row.metadata)
            for row in tx.execute(query)
        }

    def _nearness(self, question: str, texts: list[str]) -> list[float]:
        """For each text the mean, over the words of the question, of how near its nearest word comes; 1 is all of them."""
        import numpy as np

        (asked,) = self._model.tokens([question])
        if not asked:
            return [0.0] * len(texts)
        cut = [sorted(set(tokens)) for tokens in self._model.tokens(texts)]
        # All texts share most of their tokens, so each is compared once.
        distinct = sorted({token for tokens in cut for token in tokens})
        places = {token: place for place, token in enumerate(distinct)}
        directions, lengths = self._directions(asked, np)
        nearness = directions @ self._directions(distinct, np)[0].T
        # Frequent words have short vectors, and say little.
        weights = lengths / (lengths.sum() or 1.0)
        columns = ([places[token] for token in tokens] for tokens in cut)
        return [
            float(weights @ nearness[:, chosen].max(axis=1)) if chosen else 0.0
            for chosen in columns
        ]

    def _directions(self, tokens: list[int], np: Any) -> tuple[Any, Any]:
        vectors = self._model.token_vectors(tokens)
        lengths = np.linalg.norm(vectors, axis=1)
        return vectors / np.maximum(lengths, 1e-9)[:, None], lengths
