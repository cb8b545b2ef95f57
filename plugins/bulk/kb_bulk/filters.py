"""The filter of chunks by id; those of documents are the documents plugin's."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import Field

from kb_framework.api.chunks import has_id
from kb_framework.api.models import ChunkId


def chunk_ids(value: Annotated[list[ChunkId], Field(min_length=1)]) -> sa.ColumnElement[Any]:
    return has_id(value)
