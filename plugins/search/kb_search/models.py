"""What search takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from kb_framework.validation import Body, Id, Tag, Text

Mode = Literal["lexical", "vector", "hybrid"]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


class SearchIn(Body):
    query: Annotated[Text, Field(max_length=10_000), AfterValidator(_not_blank)]
    mode: Mode = "hybrid"
    k: Annotated[int, Field(ge=1, le=100)] = 10
    snippet_chars: Annotated[int, Field(ge=20, le=5000)] = 300
    tags: list[Tag] | None = None
    tags_match: Literal["any", "all"] = "any"
    lang: Text | None = None
    media: list[Text] | None = None
    doc_id: Id | None = None
    doc_type: Text | None = None
    trace: bool = False


class RetrievalOut(BaseModel):
    method: str
    fusion_score: float | None
    lexical_score: float | None
    vector_score: float | None
    lexical_rank: int | None
    vector_rank: int | None


class HitOut(BaseModel):
    rank: int
    score: float
    score_kind: str
    chunk_id: str
    doc_id: int
    doc_path: str | None
    title: str
    heading_path: list[str]
    snippet: str
    citation: str
    retrieval: RetrievalOut
    tags: list[str]
    doc_type: str
    lang: str | None
    media: str
    trust: str
    indexed_at: str | None


class SearchOut(BaseModel):
    schema_version: Literal["search_response.v1"] = "search_response.v1"
    hits: list[HitOut]
    next_cursor: str | None = None
    truncated: bool = False
    trace: dict[str, Any] | None = None
    hint: str | None = None
