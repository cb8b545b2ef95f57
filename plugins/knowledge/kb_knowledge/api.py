"""What other plugins may import: a chunk to be added by a person's decision, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_knowledge.adding import AddingService as AddingService


class NewChunk(NamedTuple):
    """A text that somebody wants in the knowledge base, and as what."""

    text: str
    chunk_kind: str
    usage_policy: str = "normal"
    source_type: str | None = None
    source_ref: str | None = None
    source_title: str | None = None
    reason: str | None = None


class AddedChunk(NamedTuple):
    chunk_id: str
    document_id: int
    status: Literal["created", "exists"]


__getattr__ = lazily(__name__, {"kb_knowledge.adding": "AddingService"})
