"""Everything of one organization in one archive, as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from kb_files.api import Integrity, is_changed

from kb_framework import __version__
from kb_framework.api import Actor, Download, ExportTable
from kb_framework.api.models import Body
from kb_framework.api.parts import Files, Plugins, Store, Tx
from kb_framework.api.spaces import active_space
from kb_framework.api.times import now
from kb_maintenance.archive import ArchiveWriter, as_file
from kb_maintenance.rows import export_rows, table_here, tags_of, to_line
from kb_maintenance.stored_files import damaged_chunk, write_files

FORMAT = "kb-export"
DOCUMENTS = "documents.ndjson"
CHUNKS = "chunks.ndjson"


def table_member(name: str) -> str:
    return f"tables/{name}.ndjson"


class ExportService:
    def __init__(self, store: Store, files: Files, plugins: Plugins) -> None:
        self._store = store
        self._files = files
        self._integrity = Integrity(store, files)
        self._plugins = plugins

    def download(self, _: Body, actor: Actor) -> Download:
        """Return the archive: what one transaction sees, however long the reader takes."""
        return as_file("export.kbz", self._parts(actor))

    def _parts(self, actor: Actor) -> Iterator[bytes]:
        with ExitStack() as stack:
            # Before the moment whose rows are read, so that their files stay.
            stack.enter_context(self._files.pinned())
            tx = stack.enter_context(self._store.read(actor.organization_id))
            writer = ArchiveWriter(FORMAT)
            files: dict[str, Mapping[str, Any]] = {}
            yield from writer.member(DOCUMENTS, _document_lines(tx, files, writer.damaged))
            yield from writer.member(CHUNKS, _chunk_lines(tx, writer.damaged))
            for item in self._plugins.registry(ExportTable):
                if table_here(tx, item.table) is not None:
                    lines = _lines(tx, item.table, (item.key,), writer.damaged)
                    yield from writer.member(table_member(item.name), lines)
            yield from write_files(writer, files, self._integrity)
            space = active_space(tx)
            yield from writer.finish(
                {
                    "created_at": now(),
                    "program": __version__,
                    "embedding_model": space.model if space else None,
                }
            )


def _document_lines(
    tx: Tx, files: dict[str, Mapping[str, Any]], damaged: list[dict[str, Any]]
) -> Iterator[bytes]:
    """The documents; `files` is given the stored file of each."""
    table = table_here(tx, "documents")
    assert table is not None
    lost: list[int] = []
    for rows in export_rows(tx, table, ("id",), lost=lost):
        tags = tags_of(tx, [row["id"] for row in rows])
        for row in rows:
            if row["file"]:
                files.setdefault(row["file"], {name: row[name] for name in ("id", "title", "path")})
        yield b"".join(to_line({**row, "tags": tags[row["id"]]}) for row in rows)
    damaged += _unreadable("documents", lost)


def _chunk_lines(tx: Tx, damaged: list[dict[str, Any]]) -> Iterator[bytes]:
    of_documents, table = table_here(tx, "documents"), table_here(tx, "chunks")
    assert of_documents is not None
    assert table is not None
    lost: list[int] = []
    # One document after the other: to sort all chunks at once, a database may hold all their text in memory.
    for found in export_rows(tx, of_documents, ("id",), lost=[]):
        for document in found:
            for rows in export_rows(
                tx, table, ("chunk_index", "seq"), table.c.document_id == document["id"], lost=lost
            ):
                changed = [row for row in rows if is_changed(row["content"], row["content_hash"])]
                damaged += [damaged_chunk(row["id"], document) for row in changed]
                yield b"".join(map(to_line, rows))
    damaged += _unreadable("chunks", lost)


def _lines(
    tx: Tx, name: str, order: tuple[str, ...], damaged: list[dict[str, Any]]
) -> Iterator[bytes]:
    table = table_here(tx, name)
    assert table is not None
    lost: list[int] = []
    for rows in export_rows(tx, table, order, lost=lost):
        yield b"".join(map(to_line, rows))
    damaged += _unreadable(name, lost)


def _unreadable(table: str, lost: list[int]) -> list[dict[str, Any]]:
    message = f"{len(lost)} rows of {table} could not be read, since the database is damaged: a backup may have them"
    return [{"table": table, "rows": len(lost), "message": message}] if lost else []
