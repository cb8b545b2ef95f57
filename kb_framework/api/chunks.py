"""Chunks as they are read: the host's columns, and those that plugins added to the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql import visitors

from kb_framework.api import Actor, ChunkColumn, RetrievalQuery
from kb_framework.api.sql import among, among_given
from kb_framework.api.tables import Json, chunks, documents
from kb_framework.errors import StoreUnusable

if TYPE_CHECKING:
    from kb_framework.api.engine import TextIndex, VectorIndex
    from kb_framework.plugins import Plugins
    from kb_framework.storage.store import Tx

FIELDS = ("id", "job_id", "chunk_index", "content", "content_hash", "metadata", "created_at")
# In a chunk's metadata, where its document was added with a source.
SOURCE = ("source_ref", "source_title")
_TYPES: dict[str, Any] = {
    "text": sa.Text(),
    "boolean": sa.Boolean(),
    "number": sa.Float(),
    "json": Json(),
}


def added_column(item: ChunkColumn) -> sa.ColumnElement[Any]:
    """A plugin's column of `chunks`, to be selected beside the host's."""
    return sa.literal_column(f"{chunks.name}.{item.name}", _TYPES[item.type]).label(item.name)


def chunk_columns(plugins: Plugins) -> list[sa.ColumnElement[Any]]:
    """The columns returned for a chunk."""
    added = _added(
        item for item in plugins.chunk_columns if item.in_chunks and item.name not in SOURCE
    )
    return [*(chunks.c[name] for name in FIELDS), *added, *source_columns(plugins)]


def source_columns(plugins: Plugins) -> list[sa.ColumnElement[Any]]:
    """Where a chunk's text is from: as its document was added with, unless a plugin keeps it for each chunk."""
    found = []
    for name in SOURCE:
        own = chunks.c.metadata[name].as_string()
        item = plugins.chunk_columns.get(name)
        found.append(
            (sa.func.coalesce(added_column(item).element, own) if item else own).label(name)
        )
    return found


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
    """The columns of every search hit beyond the host's: where its text is from, and what plugins add."""
    added = _added(
        item for item in plugins.chunk_columns if item.in_hits and item.name not in SOURCE
    )
    return [*added, *source_columns(plugins)]


def allowed_chunks(query: RetrievalQuery, tx: Tx) -> sa.Select:
    """The numbers of the chunks that a search may return: what a retriever selects from."""
    return numbers_of_chunks(tx, [] if query.condition is None else [query.condition])


def numbers_of_chunks(tx: Tx, conditions: Sequence[sa.ColumnElement[bool]]) -> sa.Select:
    """Select the numbers of the organization's chunks that meet conditions on chunks and documents."""
    found = sa.select(chunks.c.seq).where(tx.owns(chunks), *conditions)
    # Conditions on chunks alone need not read the documents of all of them.
    about_documents = any(
        getattr(item, "table", None) is documents
        for condition in conditions
        for item in visitors.iterate(condition)
    )
    return (
        found.join(documents, documents.c.id == chunks.c.document_id) if about_documents else found
    )


def has_chunks(tx: Tx, index: TextIndex | VectorIndex | None = None) -> bool:
    """Return whether the organization has a chunk; with an index, whether it has one that is in the index."""
    some = sa.select(chunks.c.seq).where(tx.owns(chunks))
    if index is not None:
        some = some.where(index.has(chunks.c.seq))
    return tx.scalar(some.limit(1)) is not None


def require_chunks(tx: Tx, index: TextIndex | VectorIndex, name: str) -> None:
    """Refuse an index without any of the organization's chunks: that it finds nothing is no answer."""
    if not has_chunks(tx, index) and has_chunks(tx):
        raise StoreUnusable(
            f"the {name} is damaged: it holds none of the chunks", hint="kb doctor --repair"
        )


def readable(plugins: Plugins, actor: Actor, tx: Tx) -> list[sa.ColumnElement[bool]]:
    """What a reader may be shown of a chunk that was asked for by its place or id: a model sees what it could find."""
    if actor.reader != "model":
        return []
    return plugins.narrow_retrieval(RetrievalQuery("", actor, 0, (), "read"), actor, "read", tx)


def _added(items: Iterable[ChunkColumn]) -> list[sa.ColumnElement[Any]]:
    return [added_column(item) for item in items]


def citation(
    path: str | None, document_id: int, metadata: Mapping[str, Any], source_ref: str | None = None
) -> str:
    """Where to look for a chunk: `a.md#L3-L9`, `b.pdf#page=4`, `document/7 (https://example.org/page)`."""
    place = path or f"document/{document_id}"
    if "page" in metadata:
        place += f"#page={metadata['page']}"
    elif "line_start" in metadata:
        place += f"#L{metadata['line_start']}-L{metadata['line_end']}"
    source = source_ref or metadata.get(SOURCE[0])
    return f"{place} ({source})" if source else place
