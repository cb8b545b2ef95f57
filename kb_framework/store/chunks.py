"""Chunks as they are read: the host's columns, and those that plugins added to the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql import visitors

from kb_framework.api import Actor, ChunkColumn, RetrievalQuery
from kb_framework.store.sql import among, among_given
from kb_framework.store.tables import Json, chunks, documents

if TYPE_CHECKING:
    from kb_framework.plugins import Plugins
    from kb_framework.store.store import Tx

FIELDS = ("id", "job_id", "chunk_index", "content", "content_hash", "metadata", "created_at")
_TYPES: dict[str, Any] = {"text": sa.Text(), "boolean": sa.Boolean(), "number": sa.Float(), "json": Json()}


def added_column(item: ChunkColumn) -> sa.ColumnElement[Any]:
    """A plugin's column of `chunks`, to be selected beside the host's."""
    return sa.literal_column(f"{chunks.name}.{item.name}", _TYPES[item.type]).label(item.name)


def chunk_columns(plugins: Plugins) -> list[sa.ColumnElement[Any]]:
    """What whoever reads a chunk is given."""
    return [*(chunks.c[name] for name in FIELDS), *_added(item for item in plugins.chunk_columns if item.in_chunks)]


# Made once: an alias takes longer to make than the query takes to run.
_named = chunks.alias()


def has_id(ids: Iterable[str]) -> sa.ColumnElement[bool]:
    """The condition that a chunk has one of these ids.

    By number, in a query of its own: beside a condition on the organization a planner may prefer to read all of its chunks.
    """
    return _is_one_of(among(_named.c.id, ids))


def has_given_id(name: str) -> sa.ColumnElement[bool]:
    """As `has_id`, for a statement that is made once: the ids are given to it under a name, as `among_given` says."""
    return _is_one_of(among_given(_named.c.id, name))


def _is_one_of(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return chunks.c.seq.in_(sa.select(_named.c.seq).where(condition))


def hit_columns(plugins: Plugins) -> list[sa.ColumnElement[Any]]:
    """What plugins add to every search hit."""
    return _added(item for item in plugins.chunk_columns if item.in_hits)


def allowed_chunks(query: RetrievalQuery, tx: Tx) -> sa.Select:
    """The numbers of the chunks that a search may return: what a retriever selects from."""
    allowed = sa.select(chunks.c.seq).where(tx.owns(chunks))
    if query.condition is None:
        return allowed
    # A condition on chunks alone need not look at the documents of all of them.
    about_documents = any(getattr(item, "table", None) is documents for item in visitors.iterate(query.condition))
    if about_documents:
        allowed = allowed.join(documents, documents.c.id == chunks.c.document_id)
    return allowed.where(query.condition)


def readable(plugins: Plugins, actor: Actor, tx: Tx) -> list[sa.ColumnElement[bool]]:
    """What a reader may be shown of a chunk that was asked for by its place or id: a model sees what it could find."""
    if actor.reader != "model":
        return []
    return plugins.narrow_retrieval(RetrievalQuery("", actor, 0, (), "read"), actor, "read", tx)


def _added(items: Iterable[ChunkColumn]) -> list[sa.ColumnElement[Any]]:
    return [added_column(item) for item in items]


def citation(path: str | None, document_id: int, metadata: Mapping[str, Any]) -> str:
    """Where to look for a chunk: `a.md#L3-L9`, `b.pdf#page=4`."""
    place = path or f"document/{document_id}"
    if "page" in metadata:
        return f"{place}#page={metadata['page']}"
    if "line_start" in metadata:
        return f"{place}#L{metadata['line_start']}-L{metadata['line_end']}"
    return place
