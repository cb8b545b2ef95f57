"""Files that documents came from: which are below a folder, and which path a document is known by."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa

from kb_documents.document_rows import touch
from kb_documents.folders import INSIDE
from kb_documents.missing import missing_ids
from kb_documents.tables import sources
from kb_framework.api.parts import Tx
from kb_framework.api.tables import documents

# In the metadata of a file inside another: that other's document.
_PARENT = ("parent_id", "parent_path")


def below(tx: Tx, root: str, *columns: sa.ColumnElement[Any]) -> sa.Select:
    """Select the sources, below a folder, of documents that are not missing."""
    start = root.rstrip("/") + "/"
    return sa.select(*columns).where(
        tx.owns(sources),
        sources.c.source.startswith(start, autoescape=True),
        is_found(tx),
    )


def is_found(tx: Tx) -> sa.ColumnElement[bool]:
    """Return the condition that a source is that of a document which is not missing."""
    return sources.c.document_id.not_in(missing_ids(tx))


def take_path(tx: Tx, document_id: int) -> None:
    """Give a document the path of a source that is left, and of the file it is inside of; a title made of its name follows."""
    columns = (
        sources.c.source,
        sources.c.path,
        documents.c.title,
        documents.c.metadata,
        documents.c.path.label("former"),
    )
    query = sa.select(*columns).join(documents, documents.c.id == sources.c.document_id)
    query = query.where(tx.owns(sources), sources.c.document_id == document_id)
    row = tx.execute(query.order_by(sources.c.source).limit(1)).first()
    if row is None:
        return
    values = {"path": row.path, "metadata": {**row.metadata, **_parent(tx, row.source)}}
    if "parent_id" in row.metadata and INSIDE not in row.source:
        values["metadata"] = {
            name: value for name, value in row.metadata.items() if name not in _PARENT
        }
    if (
        row.former
        and row.path
        and row.title == PurePosixPath(row.former).name != PurePosixPath(row.path).name
    ):
        values["title"] = PurePosixPath(row.path).name
        mine = (
            tx.owns(sources),
            sources.c.document_id == document_id,
            sources.c.title == row.title,
        )
        tx.execute(sa.update(sources).where(*mine).values(title=values["title"]))
    touch(tx, sa.select(documents.c.id).where(documents.c.id == document_id), **values)


def _parent(tx: Tx, source: str) -> dict[str, Any]:
    """Return, for its metadata, the document that a file is inside of; nothing where there is none."""
    outer = sa.select(sources.c.document_id, sources.c.path)
    found = tx.execute(
        outer.where(tx.owns(sources), sources.c.source == source.rpartition(INSIDE)[0])
    ).first()
    return dict(zip(_PARENT, found, strict=True)) if found else {}
