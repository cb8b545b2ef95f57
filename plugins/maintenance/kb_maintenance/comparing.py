"""Which documents of an archive are here already: by natural keys, since ids are of one database only."""

from __future__ import annotations

import dataclasses
import itertools
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from kb_framework.api.parts import Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, jobs
from kb_maintenance.contents import Entry
from kb_maintenance.rows import for_table, tags_of

State = Literal["new", "identical", "different"]
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Ids may differ between databases; a document without its file is still the same.
_IGNORED = {"id", "file", "document_id"}


@dataclass(frozen=True, slots=True)
class Compared:
    state: State
    document: dict[str, Any]
    chunks: list[dict[str, Any]]
    existing: int | None = None


def natural_key(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Content and path; notes have no path, and two may say the same, so the moment tells them apart."""
    path = document["path"]
    return (document["content_hash"], path, None if path is not None else document["created_at"])


def with_own_ids(
    tx: Tx, rows: Sequence[Mapping[str, Any]], *keys: sa.ColumnElement[Any]
) -> list[dict[str, Any]]:
    """The rows; ids that another organization has are replaced, always by the same, so that nobody learns of the other's.

    That is so for chunks and jobs wherever they are named, and for the rows' own `keys`.
    """
    named = {
        value
        for row in rows
        for value in row.values()
        if isinstance(value, str) and _UUID.fullmatch(value)
    }
    others: set[str] = set()
    for key in (chunks.c.id, jobs.c.uuid, *keys):
        elsewhere = sa.select(key).where(
            among(key, list(named)), key.table.c.organization_id != tx.organization_id
        )
        others |= set(tx.connection.scalars(elsewhere))
    own = {value: str(uuid.uuid5(uuid.UUID(tx.organization_id), value)) for value in others}
    return [
        {
            name: own.get(value, value) if isinstance(value, str) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def compare(tx: Tx, targets: tuple[sa.Table, sa.Table], batch: Sequence[Entry]) -> list[Compared]:
    to_documents, to_chunks = targets
    renamed = iter(with_own_ids(tx, [chunk for _, pieces in batch for chunk in pieces]))
    batch = [(document, list(itertools.islice(renamed, len(pieces)))) for document, pieces in batch]
    hashes = list({document["content_hash"] for document, _ in batch})
    rows = tx.rows(
        sa.select(to_documents).where(
            tx.owns(to_documents), among(to_documents.c.content_hash, hashes)
        )
    )
    here = {natural_key(row): dict(row) for row in sorted(rows, key=lambda row: -row["id"])}
    tags = tags_of(tx, [row["id"] for row in here.values()])
    chunks_here: dict[int, list[dict[str, Any]]] = {}
    query = sa.select(to_chunks).where(among(to_chunks.c.document_id, list(tags)))
    for row in tx.rows(query.order_by(to_chunks.c.document_id, to_chunks.c.chunk_index)):
        chunks_here.setdefault(row["document_id"], []).append(dict(row))
    ids = [chunk["id"] for _, pieces in batch for chunk in pieces]
    taken = set(tx.connection.scalars(sa.select(to_chunks.c.id).where(among(to_chunks.c.id, ids))))
    compared = []
    for document, pieces in batch:
        found = Compared("new", document, pieces)
        row = here.get(natural_key(document))
        if row is not None:
            archived = (
                _meaning(to_documents, document),
                document["tags"],
                [_meaning(to_chunks, chunk) for chunk in pieces],
            )
            own = [_meaning(to_chunks, chunk) for chunk in chunks_here.get(row["id"], [])]
            same = archived == (
                _meaning(to_documents, row, document),
                tags[row["id"]],
                _shown(own, pieces),
            )
            found = dataclasses.replace(
                found, state="identical" if same else "different", existing=row["id"]
            )
        elif any(chunk["id"] in taken for chunk in pieces):
            # The same document under another path, or with other content by now.
            found = dataclasses.replace(found, state="different")
        compared.append(found)
    return compared


def _meaning(
    table: sa.Table, row: Mapping[str, Any], like: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What counts when two rows are compared; of a row here only what the archive has a word about."""
    values = for_table(table, row)
    return {
        name: value
        for name, value in values.items()
        if name not in _IGNORED and (like is None or name in like)
    }


def _shown(own: list[dict[str, Any]], chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    like = chunks[0] if chunks else {}
    return [{name: value for name, value in row.items() if name in like} for row in own]
