"""Write stored files to an archive: each is verified, and a damaged one is left out and named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa
from kb_files.api import WHAT_TO_DO, Integrity, chunk_damaged

from kb_framework.api.files import PART
from kb_framework.api.parts import Tx
from kb_framework.api.tables import documents
from kb_framework.errors import FileDamaged
from kb_maintenance.archive import ArchiveWriter


def files_of(tx: Tx, *conditions: sa.ColumnElement[bool]) -> dict[str, Mapping[str, Any]]:
    """The stored files of documents by key, each with its first document."""
    query = sa.select(documents.c.file, documents.c.id, documents.c.title, documents.c.path)
    rows = tx.rows(
        query.where(documents.c.file.is_not(None), *conditions).order_by(documents.c.id.desc())
    )
    return {row["file"]: row for row in rows}


def write_files(
    writer: ArchiveWriter, files: Mapping[str, Mapping[str, Any]], integrity: Integrity
) -> Iterator[bytes]:
    for key, document in sorted(files.items()):
        try:
            copy = integrity.open_file(key, document)
        except FileDamaged as error:
            writer.damaged.append(
                {
                    "file": key,
                    "document": _named(document),
                    "message": f"{error.message}: {error.hint}",
                }
            )
            continue
        with copy:
            yield from writer.file(key, iter(partial(copy.read, PART), b""))


def damaged_chunk(chunk_id: str, document: Mapping[Any, Any]) -> dict[str, Any]:
    """What an archive says of a chunk that it holds though its text has changed."""
    message = f"{chunk_damaged(chunk_id, document)}: {WHAT_TO_DO}"
    return {"chunk": chunk_id, "document": _named(document), "message": message}


def _named(document: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("id", "title", "path")}
