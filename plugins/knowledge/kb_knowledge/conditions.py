"""Which chunks are meant: conditions for lists and selections, and the one rule about what may be found."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import Field

from kb_framework.api import Actor
from kb_framework.api.models import Text
from kb_framework.api.parts import Tx
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import InvalidInput
from kb_knowledge.tables import curated

Kind = Literal["fact", "angle", "example", "quote"]
Policy = Literal["normal", "inspiration_only", "never_generate"]
Status = Literal["active", "inactive", "all"]
Reason = Annotated[Text, Field(max_length=255)]
Condition = sa.ColumnElement[Any]
# Each is looked for in every chunk.
_MOST_WORDS = 20

# With it the candidates are looked at that curation keeps out; no request can ask for it.
UNCURATED = "uncurated"
_INACTIVE: Condition = curated.c.is_active.is_(False)
_NOT_FOR_MODELS: Condition = curated.c.usage_policy == "never_generate"


def narrow(actor: Actor, purpose: str, tx: Tx) -> Condition | None:
    """What a search may find: nothing that is inactive, and for a model nothing that must never be generated from.

    It names what is left out, which is little, so that the indexes answer; where nothing is left out, searches stay as fast as
    without it.
    """
    if purpose == UNCURATED:
        return None
    hidden = [
        _INACTIVE,
        *([_NOT_FOR_MODELS] if actor.reader == "model" or purpose == "model" else []),
    ]
    found = [
        chunks.c.seq.not_in(_these(tx, condition)) for condition in hidden if _any(tx, condition)
    ]
    return sa.and_(*found) if found else None


def _these(tx: Tx, condition: Condition) -> sa.Select:
    return sa.select(curated.c.seq).where(tx.owns(curated), condition)


def _any(tx: Tx, condition: Condition) -> bool:
    return (
        tx.once(
            ("hidden", condition), lambda: tx.scalar(sa.select(sa.exists(_these(tx, condition))))
        )
        is True
    )


def is_hidden() -> Condition:
    """Whether a chunk of `curated` is kept from models."""
    return _INACTIVE | _NOT_FOR_MODELS


# Selection filters: over `chunks`, as the host joins it with `documents`.


def kind(value: Kind) -> Condition:
    return _column("chunk_kind") == value


def policy(value: Policy) -> Condition:
    return _column("usage_policy") == value


def status(value: Status) -> Condition:
    return sa.true() if value == "all" else _column("is_active").is_(value == "active")


def source_type(value: Annotated[Text, Field(min_length=1, max_length=32)]) -> Condition:
    return _column("source_type") == value


def has_words(text: str) -> Condition:
    """Return the condition that every word is somewhere in the chunk or its document's title."""
    words = list(dict.fromkeys(text.split()))
    if len(words) > _MOST_WORDS:
        # Leaving words out would find more than was asked for.
        raise InvalidInput(f"q: at most {_MOST_WORDS} different words", field="q")
    texts = (chunks.c.content, documents.c.title)
    return sa.and_(
        *(sa.or_(*(text.icontains(word, autoescape=True) for text in texts)) for word in words)
    )


def _column(name: str) -> Condition:
    """Return a column of curation in a query that selects from the host's `chunks`, which does not know it."""
    return sa.literal_column(f"{chunks.name}.{name}", curated.c[name].type)
