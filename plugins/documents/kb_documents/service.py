"""Reading one document, and changing it."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any
from urllib.parse import quote

import sqlalchemy as sa
from kb_files.api import Integrity

from kb_documents.document_lists import read_documents
from kb_documents.finding import find_id
from kb_documents.models import (
    ChunkList,
    Document,
    DocumentIn,
    DocumentPatch,
    NamedDocumentIn,
    TagsIn,
)
from kb_documents.mutations import Delete, SetTags, Update
from kb_documents.source_models import Source, SourceList
from kb_documents.tables import sources
from kb_framework.api import Actor, Download, Selection
from kb_framework.api.chunks import chunk_columns, readable
from kb_framework.api.files import PART
from kb_framework.api.models import validate
from kb_framework.api.parts import Files, Mutation, Plugins, Store, Tx
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import InvalidInput, MutationRefused, NotFound


class DocumentsService:
    def __init__(self, store: Store, files: Files, plugins: Plugins, mutation: Mutation) -> None:
        self._store = store
        self._files = files
        self._integrity = Integrity(store, files)
        self._plugins = plugins
        self._mutation = mutation

    # Reading

    def get(self, asked: DocumentIn, actor: Actor) -> Document:
        return self._one(asked.document_id, actor)

    def _one(self, document_id: int, actor: Actor) -> Document:
        def look(tx: Tx) -> list[Document]:
            visible = self._visible(tx, actor, document_ids=[document_id])
            return read_documents(tx, sa.and_(documents.c.id == document_id, *visible))

        found = self._store.look(actor.organization_id, look)
        if not found:
            raise NotFound(f"there is no document {document_id}", document_id=document_id)
        return found[0]

    def find(self, asked: NamedDocumentIn, actor: Actor) -> Document:
        """Return the document with this id, path or title."""
        if asked.document.isdecimal():
            return self.get(validate(DocumentIn, {"document_id": int(asked.document)}), actor)
        with self._store.read(actor.organization_id) as tx:
            number = find_id(tx, asked.document, self._visible(tx, actor))
        return self._one(number, actor)

    def sources(self, asked: DocumentIn, actor: Actor) -> SourceList:
        """Return where a document was read from; nothing for a note."""
        self.get(asked, actor)
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(sources.c.source, sources.c.path).where(
                tx.owns(sources), sources.c.document_id == asked.document_id
            )
            rows = tx.rows(query.order_by(sources.c.source))
        return SourceList(data=[Source(**row) for row in rows])

    def chunks(self, asked: DocumentIn, actor: Actor) -> ChunkList:
        """Return a document's chunks, in order."""
        self.get(asked, actor)
        query = sa.select(*chunk_columns(self._plugins)).select_from(
            chunks.join(documents, documents.c.id == chunks.c.document_id)
        )
        with self._store.read(actor.organization_id) as tx:
            here = (
                tx.owns(chunks),
                chunks.c.document_id == asked.document_id,
                *readable(self._plugins, actor, tx),
            )
            rows = tx.rows(query.where(*here).order_by(chunks.c.chunk_index))
        return ChunkList.model_validate({"data": rows})

    def file(self, asked: DocumentIn, actor: Actor) -> Download:
        """Return a document's stored file, under a name to save it by."""
        number = asked.document_id
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(documents.c.id, documents.c.title, documents.c.path, documents.c.file)
            here = (
                tx.owns(documents),
                documents.c.id == number,
                *self._visible(tx, actor, document_ids=[number]),
            )
            row = tx.execute(query.where(*here)).first()
        if row is None or row.file is None or self._files.size(row.file) is None:
            raise NotFound(f"there is no stored file for document {number}", document_id=number)
        name = PurePosixPath(row.path).name if row.path else f"document-{number}.md"
        # A copy that was verified before the first byte is sent, so that a damaged file is an error with a status.
        copy = self._integrity.open_file(row.file, row._mapping)
        size = copy.seek(0, os.SEEK_END)
        copy.seek(0)
        return Download(
            _parts(copy),
            mimetypes.guess_type(name)[0] or "application/octet-stream",
            # Always a download, never rendered: a stored page must not run in this origin.
            {
                "Content-Disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
                "Content-Length": str(size),
                "ETag": f'"{row.file[3:]}"',
                "X-Content-Type-Options": "nosniff",
                "Content-Security-Policy": "sandbox; default-src 'none'",
            },
        )

    def _visible(self, tx: Tx, actor: Actor, **filters: Any) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of plugins that withhold documents from reading."""
        return self._plugins.narrow_selection(Selection(filters), actor, "read", tx)

    # Changes: each is a plan of one for the host's pipeline

    def delete(self, asked: DocumentIn, actor: Actor) -> None:
        self._change("delete", Delete(), asked.document_id, actor)

    def set_tags(self, asked: TagsIn, actor: Actor) -> Document:
        self._change("set_tags", SetTags(new_tags=asked.tags), asked.document_id, actor)
        return self._one(asked.document_id, actor)

    def update(self, asked: DocumentPatch, actor: Actor) -> Document:
        fields = asked.model_dump(exclude={"document_id"}, exclude_none=True)
        if not fields:
            raise InvalidInput(
                "give at least one of title, doc_type, metadata, trust", field="body"
            )
        self._change("update", Update(**fields), asked.document_id, actor)
        return self._one(asked.document_id, actor)

    def _change(self, kind: str, operation: Any, document_id: int, actor: Actor) -> None:
        result = self._mutation.run(kind, operation, documents.c.id == document_id, actor)
        if not result.matched:
            raise NotFound(f"there is no document {document_id}", document_id=document_id)
        if result.failed:
            raise MutationRefused(result.errors[0]["error"], document_id=document_id)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(PART):
            yield part
