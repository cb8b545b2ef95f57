"""The default gate: a hit must come near the best one, and hold enough of the question, by its words or by its meaning.

The thresholds were chosen on questions with known answers and on questions that have none: `benchmarks/gate.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kb_text.api import find_terms, query_terms

from kb_framework.api import Hit, Rejection, ScoredChunk
from kb_knowledge.settings import KnowledgeSettings

_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[\x00-\u024f]+")
# They are in every text, so that sharing them says nothing.
_COMMON = frozenset(
    [
        "a",
        "about",
        "also",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "between",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "more",
        "most",
        "no",
        "not",
        "of",
        "on",
        "or",
        "other",
        "our",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "there",
        "these",
        "this",
        "those",
        "to",
        "use",
        "used",
        "using",
        "was",
        "we",
        "were",
        "what",
        "which",
        "who",
        "why",
        "with",
    ]
)

# Fused scores say how a hit compares with the others: where all are equally good, the last of them has nothing. So a hit that
# comes this near to the best in what one retriever itself says is as good as it.
_NEAR = {"lexical": 0.7}
_NEAR_OTHERS = 0.95

Forms = frozenset[tuple[str, bool]]


class Gate:
    def __init__(self, settings: KnowledgeSettings) -> None:
        self._score = settings.gate_score
        self._coverage = settings.gate_coverage
        self._cosine = settings.gate_cosine

    def reject(self, question: str, hits: list[ScoredChunk]) -> list[Rejection]:
        words = question_words(question)
        shares = score_shares(hits)
        return [
            Rejection(hit.chunk, reason)
            for hit in hits
            if (reason := self._reason(hit, shares[hit.chunk], words))
        ]

    def _reason(self, hit: ScoredChunk, share: float, words: list[Forms]) -> str | None:
        if share < self._score:
            return f"its score is {share:.2f} of the best one's, below {self._score:g}"
        cosine = hit.scores.get("vector") or 0.0
        if cosine >= self._cosine:
            return None
        covered = coverage(words, f"{hit.title}\n{hit.content}")
        if covered < self._coverage:
            return f"it holds {covered:.2f} of the question's words, below {self._coverage:g}"
        return None


def score_shares(hits: Sequence[ScoredChunk | Hit]) -> dict[int, float]:
    """How near each hit comes to the best one, by number."""
    best = max((hit.score for hit in hits), default=0.0)
    tops: dict[str, float] = {}
    for hit in hits:
        for name, score in hit.scores.items():
            tops[name] = max(tops.get(name, 0.0), score)
    shares = {}
    for hit in hits:
        near = any(
            score >= _NEAR.get(name, _NEAR_OTHERS) * tops[name] > 0
            for name, score in hit.scores.items()
        )
        shares[hit.chunk] = 1.0 if near or best <= 0 else hit.score / best
    return shares


def question_words(question: str) -> list[Forms]:
    """The question's words, each as the forms it may have in a text."""
    found = list(dict.fromkeys(word.lower() for word in _WORD.findall(question)))
    telling = [word for word in found if word not in _COMMON] or found
    return [forms for word in telling for forms in _forms(word)]


def _forms(word: str) -> Iterable[Forms]:
    terms = query_terms(word)
    # A word of letters has several forms, of which one is enough; a run of characters without spaces is made of parts.
    if _LATIN.fullmatch(word) or len(terms) <= 1:
        return [frozenset(terms)] if terms else []
    return [frozenset([term]) for term in terms]


def coverage(words: list[Forms], text: str) -> float:
    """Which share of the words a text holds."""
    if not words:
        return 1.0
    there = {term for _, _, term in find_terms(text, frozenset().union(*words))}
    return sum(any(term in there for term, _ in forms) for forms in words) / len(words)
