"""What is remembered of the files that documents came from."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import sqlalchemy as sa

from kb_documents.extraction import LeftOut, NotNow
from kb_documents.folders import INSIDE
from kb_documents.ingest_items import Item, Known
from kb_documents.prepare import Incoming
from kb_documents.readers import readers
from kb_documents.source_paths import take_path
from kb_documents.tables import left_out, refused, sources
from kb_framework.api.parts import HostSettings, Plugins, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.errors import ExtractionFailed, KBError

_FORGET_SOURCE = sa.delete(sources).where(
    sources.c.organization_id == sa.bindparam("owner"), sources.c.source == sa.bindparam("place")
)
_INSERT_SOURCE = sa.insert(sources)
_FORGET_UNREAD = [
    sa.delete(table).where(
        table.c.organization_id == sa.bindparam("owner"), table.c.source == sa.bindparam("place")
    )
    for table in (refused, left_out)
]


class SourceMemory:
    def __init__(self, store: Store, plugins: Plugins, host_settings: HostSettings) -> None:
        self._store = store
        self._plugins = plugins
        self._settings = host_settings

    def remember(
        self, tx: Tx, item: Item, document_id: int, known: Known, title: str | None = None
    ) -> None:
        """Record where a document came from, so that the file is not read again while it does not change."""
        incoming = item.incoming
        if incoming.source is None:
            return
        if known.source_document is not None:
            tx.execute(_FORGET_SOURCE, {"owner": tx.organization_id, "place": incoming.source})
            if known.source_document != document_id:
                take_path(tx, known.source_document)
        item.reading = incoming.reading or str(uuid.uuid4())
        title = (
            title
            or known.source_title
            or tx.scalar(sa.select(documents.c.title).where(documents.c.id == document_id))
        )
        row = {
            "organization_id": tx.organization_id,
            "source": incoming.source,
            "document_id": document_id,
            "path": incoming.path,
            "size": len(incoming.data),
            # Without it the file is wanted again: the files inside it are still to be added.
            "modified_ns": None
            if item.holds_files
            else getattr(incoming.fields, "modified_ns", None),
            "content_hash": incoming.content_hash,
            "title": title,
            "reading": item.reading,
            "stamp": getattr(incoming.fields, "stamp", None),
        }
        tx.execute(_INSERT_SOURCE, row)
        self._forget_unread(tx, incoming.source)

    def _forget_unread(self, tx: Tx, source: str) -> None:
        for statement in _FORGET_UNREAD:
            tx.execute(statement, {"owner": tx.organization_id, "place": source})

    def remember_unread(self, tx: Tx, incoming: Incoming, error: KBError) -> None:
        """Record why a file cannot be read, so that it is not sent again while it does not change."""
        modified = getattr(incoming.fields, "modified_ns", None)
        lasting = isinstance(error, ExtractionFailed) and not isinstance(error, NotNow)
        if incoming.source is None or modified is None or not lasting:
            return
        self._forget_unread(tx, incoming.source)
        row = {
            "organization_id": tx.organization_id,
            "source": incoming.source,
            "size": len(incoming.data),
            "modified_ns": modified,
            "readers": readers(self._plugins, self._settings),
        }
        if isinstance(error, LeftOut):
            tx.execute(sa.insert(left_out), {**row, "kind": error.details["file_kind"]})
        else:
            tx.execute(
                sa.insert(refused),
                {**row, "reason": error.message, "job_id": error.details["job_id"]},
            )

    def finish(self, item: Item, refused: Sequence[str], *, all_read: bool) -> None:
        """Record that the files inside are there as well; those that could not be read this time count as there."""
        incoming = item.incoming
        if incoming.source is None:
            return
        with self._store.write(incoming.actor.organization_id) as tx:
            here = (
                tx.owns(sources),
                sources.c.source == incoming.source,
                sources.c.reading == item.reading,
            )
            if tx.scalar(sa.select(sources.c.source).where(*here)) is None:
                # It was read again meanwhile; that reading says what it holds.
                return
            inside = sources.c.source.startswith(incoming.source + INSIDE, autoescape=True)
            still_there = among(sources.c.source, refused) if all_read else inside
            tx.execute(
                sa.update(sources).where(tx.owns(sources), still_there).values(reading=item.reading)
            )
            modified = getattr(incoming.fields, "modified_ns", None)
            if modified is not None:
                tx.execute(sa.update(sources).where(*here).values(modified_ns=modified))
