"""Whether the embedder knows the languages of what is stored, and what to do if not."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from kb_framework.embedding import Embedding
from kb_framework.store.store import Tx
from kb_framework.store.tables import documents

# From so many documents, and from such a share of them on, a model that knows their language is worth installing.
_FEWEST = 5
_SHARE = 0.25


class LanguageAdvice:
    """A sentence for bases of which a good part is in a language that the embedder does not know.

    Documents are counted again only when the organization has changed a good deal since the last time: a search must not scan
    its documents.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._counted: dict[str, tuple[int, int, str | None]] = {}

    def on(self, tx: Tx) -> str | None:
        """What to say about this organization's documents, or None."""
        revision = tx.corpus_revision()
        before = self._counted.get(tx.organization_id)
        if before and abs(revision - before[0]) <= before[1] // 10:
            return before[2]
        counts = count_languages(tx, tx.owns(documents))
        said = advise(counts, self._embedding)
        self._counted[tx.organization_id] = (revision, sum(counts.values()), said)
        return said


def count_languages(tx: Tx, *conditions: sa.ColumnElement[bool]) -> dict[str, int]:
    """How many documents there are in each language, as far as it is known."""
    count = sa.select(documents.c.lang, sa.func.count()).where(documents.c.lang.is_not(None), *conditions)
    return {row[0]: row[1] for row in tx.execute(count.group_by(documents.c.lang))}


def advise(counts: Mapping[str, int], embedding: Embedding) -> str | None:
    known = embedding.languages
    if known is None:
        return None
    unknown = {language: count for language, count in counts.items() if language.partition("-")[0] not in known}
    number = sum(unknown.values())
    if number < _FEWEST or number < _SHARE * sum(counts.values()):
        return None
    most = max(unknown, key=lambda language: unknown[language])
    share = f"{number / sum(counts.values()):.0%}"
    words = f"{share} of the documents are in languages that the embedder {embedding.name!r} does not know, mostly {most!r}"
    better = next((other for other in embedding.others() if most.partition("-")[0] in (other.languages or ())), None)
    if better is None:
        return f"{words}: they are found by their words only"
    first = f"{better.problem}; then " if better.problem else ""
    return f"{words}; {better.name!r} does: {first}set KB_EMBEDDER={better.name} and run kb reindex"
