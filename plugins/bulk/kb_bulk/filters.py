"""The built-in selection filters: each is its type and its SQL condition."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
from kb_documents.api import has_all_tags
from pydantic import Field

from kb_framework.storage.chunks import has_id
from kb_framework.storage.sql import among
from kb_framework.storage.tables import documents
from kb_framework.validation import ChunkId, Id, Tag, Text

Condition = sa.ColumnElement[Any]


def document_ids(value: Annotated[list[Id], Field(min_length=1)]) -> Condition:
    return among(documents.c.id, value)


def chunk_ids(value: Annotated[list[ChunkId], Field(min_length=1)]) -> Condition:
    return has_id(value)


def tags(value: Annotated[list[Tag], Field(min_length=1)]) -> Condition:
    return has_all_tags(value)


def doc_type(value: Annotated[Text, Field(min_length=1)]) -> Condition:
    return documents.c.doc_type == value


def from_id(value: Id) -> Condition:
    return documents.c.id >= value


def to_id(value: Id) -> Condition:
    return documents.c.id <= value
