"""Whether the embedder knows the languages of the stored documents, and what to do if not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_framework.api.tables import documents

if TYPE_CHECKING:
    from kb_models.embedding import Embedding

# A model that knows a language pays off from this many documents in it, and this share of all documents.
_FEWEST = 5
_SHARE = 0.25


class LanguageAdvice:
    """A sentence for organizations of which a good part is in a language that the embedder does not know.

    Documents are counted again only after the organization has changed a good deal: a search must not scan its documents.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._counted: dict[str, tuple[int, int, str | None]] = {}

    def on(self, tx: Tx) -> str | None:
        """Return the advice on this organization's documents, or None."""
        revision = tx.corpus_revision()
        before = self._counted.get(tx.organization_id)
        if before and abs(revision - before[0]) <= before[1] // 10:
            return before[2]
        counts = count_languages(tx, tx.owns(documents))
        advice = advise(counts, self._embedding)
        self._counted[tx.organization_id] = (revision, sum(counts.values()), advice)
        return advice


def count_languages(tx: Tx, *conditions: sa.ColumnElement[bool]) -> dict[str, int]:
    """Return the number of documents in each language, as far as it is known."""
    count = sa.select(documents.c.lang, sa.func.count()).where(
        documents.c.lang.is_not(None), *conditions
    )
    return {row[0]: row[1] for row in tx.execute(count.group_by(documents.c.lang))}


def advise(counts: Mapping[str, int], embedding: Embedding) -> str | None:
    known = embedding.languages
    if known is None:
        return None
    unknown = {
        language: count
        for language, count in counts.items()
        if language.partition("-")[0] not in known
    }
    number = sum(unknown.values())
    if number < _FEWEST or number < _SHARE * sum(counts.values()):
        return None
    most = max(unknown, key=lambda language: unknown[language])
    share = f"{number / sum(counts.values()):.0%}"
    words = f"{share} of the documents are in languages that the embedder {embedding.name!r} does not know, mostly {most!r}"
    better = next(
        (
            other
            for other in embedding.others()
            if most.partition("-")[0] in (other.languages or ())
        ),
        None,
    )
    if better is None:
        return f"{words}: they are found by their words only"
    first = f"{better.problem}; then " if better.problem else ""
    return f"{words}; {better.name!r} does: {first}kb config set embedder {better.name}; kb reindex"
