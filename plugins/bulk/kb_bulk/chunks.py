"""Chunks by id: many in one query."""

from __future__ import annotations

import json
import struct
from typing import Any

import sqlalchemy as sa

from kb_bulk.models import ChunksFound, ChunksIn, FoundChunks
from kb_bulk.settings import BulkSettings
from kb_framework.api import Actor, Selection
from kb_framework.api.chunks import chunk_columns, has_given_id, readable
from kb_framework.api.models import is_chunk_id
from kb_framework.api.parts import Plugins, Store, Tx
from kb_framework.api.tables import chunks, documents, typed_jobs
from kb_framework.errors import InvalidRequest, InvalidUuid

MAX_IDS = 100
_SOURCE = {"job_name": "filename", "job_type": "job_type", "created_at": "created_at"}


class ChunksService:
    def __init__(self, store: Store, plugins: Plugins, settings: BulkSettings) -> None:
        self._store = store
        self._plugins = plugins
        self._seconds = settings.chunks_seconds
        self._queries: dict[tuple[bool, bool, bool], sa.Select] = {}

    def get(self, wanted: ChunksIn, actor: Actor) -> ChunksFound:
        """The chunks that are there, by id, and the ids of those that are not: also of those that the caller may not see."""
        asked = _unique(wanted.chunk_ids)
        with self._store.read(actor.organization_id, seconds=self._seconds) as tx:
            selection = Selection({"chunk_ids": list(asked)})
            limits = [
                *self._plugins.narrow_selection(selection, actor, "read", tx),
                *readable(self._plugins, actor, tx),
            ]
            given = {"owner": tx.organization_id, "ids": json.dumps(list(asked))}
            rows = tx.rows(self._query(tx, wanted, bool(limits)).where(*limits), given)
        found = [_shown(dict(row), wanted) for row in rows]
        there = {chunk["id"] for chunk in found}
        return ChunksFound(
            data=FoundChunks(
                chunks=found,
                found_count=len(found),
                requested_count=len(asked),
                not_found=[given for key, given in asked.items() if key not in there],
            )
        )

    def _query(self, tx: Tx, wanted: ChunksIn, limited: bool) -> sa.Select:
        """Made once for each form: making it takes as long as running it."""
        form = (wanted.include_source, wanted.include_embeddings, limited)
        if form not in self._queries:
            columns = chunk_columns(self._plugins)
            # Only a plugin's condition may speak of the document.
            source = (
                chunks.join(documents, documents.c.id == chunks.c.document_id)
                if limited
                else chunks
            )
            if wanted.include_source:
                source = source.outerjoin(typed_jobs, typed_jobs.c.uuid == chunks.c.job_id)
                columns += [
                    typed_jobs.c[column].label(f"source_{name}") for name, column in _SOURCE.items()
                ]
            if wanted.include_embeddings:
                columns.append(tx.vector_of(chunks.c.seq).label("embedding"))
            mine = chunks.c.organization_id == sa.bindparam("owner")
            query = sa.select(*columns).select_from(source).where(mine, has_given_id("ids"))
            self._queries[form] = query.order_by(chunks.c.id)
        return self._queries[form]


def _unique(given: Any) -> dict[str, str]:
    """The ids, each once and in one spelling, with how they were spelled."""
    if not isinstance(given, list):
        raise InvalidRequest("chunk_ids array is required", field="chunk_ids")
    if not 1 <= len(given) <= MAX_IDS:
        raise InvalidRequest(
            f"chunk_ids must contain 1-{MAX_IDS} items", provided=len(given), max_allowed=MAX_IDS
        )
    found: dict[str, str] = {}
    for index, item in enumerate(given):
        if not isinstance(item, str) or not is_chunk_id(item):
            raise InvalidUuid(f"Invalid UUID format at index {index}", index=index)
        found.setdefault(item.lower(), item)
    return found


def _shown(row: dict[str, Any], wanted: ChunksIn) -> dict[str, Any]:
    if wanted.include_source:
        row["source"] = {name: row.pop(f"source_{name}") for name in _SOURCE}
    if wanted.include_embeddings and row["embedding"] is not None:
        row["embedding"] = list(struct.unpack(f"<{len(row['embedding']) // 4}f", row["embedding"]))
    return row
