"""Everything of one organization in one archive, as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import sqlalchemy as sa

from kb_framework import __version__
from kb_framework.api import Actor
from kb_framework.files import Files
from kb_framework.plugins import Plugins
from kb_framework.store.documents import active_space
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import documents, now
from kb_maintenance.archive import ArchiveWriter
from kb_maintenance.rows import export_rows, table_here, tags_of, to_line

FORMAT = "kb-export"
DOCUMENTS = "documents.ndjson"
CHUNKS = "chunks.ndjson"


def table_member(name: str) -> str:
    return f"tables/{name}.ndjson"


class ExportService:
    def __init__(self, store: Store, files: Files, plugins: Plugins) -> None:
        self._store = store
        self._files = files
        self._plugins = plugins

    def parts(self, actor: Actor) -> Iterator[bytes]:
        """The archive: what one transaction sees, however long the reader takes."""
        with ExitStack() as stack:
            # Before the moment whose rows are read, so that their files stay.
            stack.enter_context(self._files.pinned())
            tx = stack.enter_context(self._store.read(actor.organization_id))
            mine = sa.select(documents.c.file).where(tx.owns(documents), documents.c.file.is_not(None))
            keys = list(tx.connection.scalars(mine.distinct()))
            writer = ArchiveWriter(FORMAT)
            yield from writer.member(DOCUMENTS, _document_lines(tx))
            yield from writer.member(CHUNKS, _chunk_lines(tx))
            for item in self._plugins.export_tables:
                if table_here(tx, item.table) is not None:
                    yield from writer.member(table_member(item.name), _lines(tx, item.table, (item.key,)))
            for key in sorted(keys):
                if self._files.size(key) is not None:
                    yield from writer.file(key, self._files.parts(key))
            space = active_space(tx)
            yield from writer.finish(
                {"created_at": now(), "program": __version__, "embedding_model": space.model if space else None}
            )


def _document_lines(tx: Tx) -> Iterator[bytes]:
    table = table_here(tx, "documents")
    assert table is not None
    for rows in export_rows(tx, table, ("id",)):
        tags = tags_of(tx, [row["id"] for row in rows])
        yield b"".join(to_line({**row, "tags": tags[row["id"]]}) for row in rows)


def _chunk_lines(tx: Tx) -> Iterator[bytes]:
    table = table_here(tx, "chunks")
    assert table is not None
    # One document after the other: to sort all chunks at once, a database may hold all their text in memory.
    for (number,) in tx.execute(sa.select(documents.c.id).where(tx.owns(documents)).order_by(documents.c.id)):
        for rows in export_rows(tx, table, ("chunk_index", "seq"), table.c.document_id == number):
            yield b"".join(map(to_line, rows))


def _lines(tx: Tx, name: str, order: tuple[str, ...]) -> Iterator[bytes]:
    table = table_here(tx, name)
    assert table is not None
    for rows in export_rows(tx, table, order):
        yield b"".join(map(to_line, rows))
