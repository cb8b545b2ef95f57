"""Adding what an archive holds and is not here: looked at first, then added batch by batch. Nothing here is ever changed."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from kb_documents.api import insert_archived
from kb_files.api import FILE, forget
from kb_models.api import NO_EMBEDDING, Embedding, embedded_text

from kb_framework.api import Actor, Changes, ExportTable, Upload, resolve
from kb_framework.api.files import Staged
from kb_framework.api.models import Body
from kb_framework.api.parts import Files, HostSettings, Mutation, Plugins, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents, file_removals
from kb_framework.errors import (
    Busy,
    EmbedderUnavailable,
    InvalidInput,
    MutationRefused,
    NotFound,
    PayloadTooLarge,
)
from kb_maintenance.archive import refused
from kb_maintenance.comparing import compare, with_own_ids
from kb_maintenance.contents import Contents, Entry
from kb_maintenance.exporting import table_member
from kb_maintenance.models import Difference, Imported, ImportIn, Preview, Refused, Sample
from kb_maintenance.rows import for_table, table_here, unknown_columns
from kb_maintenance.settings import MaintenanceSettings

_STEP_SECONDS = 1.0
_SAMPLE = 20
_ROWS_AT_ONCE = 500
_TEXTS_AT_ONCE = 128
_LIFETIME_SECONDS = 24 * 3600


# In the place of the id of a document that was refused: rows that belong to it are left out.
_LEFT_OUT = -1


class ImportService:
    def __init__(
        self,
        store: Store,
        files: Files,
        plugins: Plugins,
        mutation: Mutation,
        host_settings: HostSettings,
        settings: MaintenanceSettings,
        embedding: Embedding = NO_EMBEDDING,
    ) -> None:
        self._store = store
        self._files = files
        self._plugins = plugins
        self._mutation = mutation
        self._embedding = embedding
        self._folder = host_settings.data_dir / "imports"
        self._max_bytes = settings.max_import_bytes
        self._runs: dict[Path, _Run] = {}
        self._one_at_a_time = threading.Lock()

    def upload(self, _: Body, actor: Actor, sent: Upload) -> Preview:
        """Keep an archive, verify it, and return what would be added. One that cannot be used is deleted."""
        self._remove_old()
        import_id = str(uuid.uuid4())
        try:
            self._receive(self._place(import_id, actor), sent)
            contents = self._open(import_id, actor)
            try:
                contents.archive.verify()
                return self._compared(import_id, contents, actor)
            finally:
                contents.close()
        except BaseException:
            self._discard(import_id, actor)
            raise

    def _receive(self, path: Path, sent: Upload) -> None:
        size = 0
        with path.open("wb") as file:
            for part in sent.parts:
                size += len(part)
                if size > self._max_bytes:
                    raise PayloadTooLarge(
                        f"the archive is too large: at most {self._max_bytes} bytes are taken "
                        "(KB_MAINTENANCE_MAX_IMPORT_BYTES)"
                    )
                file.write(part)

    def _remove_old(self) -> None:
        """Make the folder of archives, and delete those that were never applied."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob("*.kbz"):
            if path.stat().st_mtime < time.time() - _LIFETIME_SECONDS:
                path.unlink(missing_ok=True)

    def apply(self, wanted: ImportIn, actor: Actor) -> Imported:
        """Add a part; the last answer is `finished`. An import that was cut off begins again, and skips what is there."""
        import_id = wanted.import_id
        self._plugins.require_all_loaded()
        if not self._one_at_a_time.acquire(timeout=4 * _STEP_SECONDS):
            raise Busy("another request is importing; try again")
        try:
            place = self._place(import_id, actor)
            run = self._runs.get(place)
            if run is None:
                contents = self._open(import_id, actor)
                run = self._runs[place] = _Run(
                    contents,
                    self._store,
                    self._files,
                    self._plugins,
                    self._mutation,
                    self._embedding,
                )
            end = time.monotonic() + _STEP_SECONDS
            try:
                for _ in run.steps(actor):
                    if time.monotonic() >= end:
                        return run.report(finished=False)
            except BaseException:
                self._runs.pop(place).close()
                raise
        finally:
            self._one_at_a_time.release()
        report = run.report(finished=True)
        self._discard(import_id, actor)
        return report

    def discard(self, wanted: ImportIn, actor: Actor) -> None:
        """Delete an uploaded archive."""
        self._discard(wanted.import_id, actor)

    def _discard(self, import_id: str, actor: Actor) -> None:
        place = self._place(import_id, actor)
        run = self._runs.pop(place, None)
        if run:
            run.close()
        place.unlink(missing_ok=True)

    def _place(self, import_id: str, actor: Actor) -> Path:
        """Where an archive waits. Whoever did not send it, does not find it."""
        return self._folder / f"{actor.organization_id}.{actor.user_id}.{import_id}.kbz"

    def _open(self, import_id: str, actor: Actor) -> Contents:
        path = self._place(import_id, actor)
        if not path.is_file():
            raise NotFound(f"there is no import {import_id}", hint="upload the archive again")
        return Contents(path, self._max_bytes)

    def _compared(self, import_id: str, contents: Contents, actor: Actor) -> Preview:
        preview = Preview(
            import_id=import_id,
            documents=Difference(),
            chunks=Difference(),
            tables={},
            files=len(contents.archive.files),
            ignored=[],
            sample=[],
            damaged=[],
        )
        with self._store.read(actor.organization_id) as tx:
            ignored = _compare_documents(tx, contents, preview) | self._compare_tables(
                tx, contents, preview
            )
        preview.ignored = sorted(ignored)
        preview.damaged = contents.damaged
        return preview

    def _compare_tables(self, tx: Tx, contents: Contents, preview: Preview) -> set[str]:
        ignored: set[str] = set()
        for name in contents.tables:
            item = self._plugins.registry(ExportTable).get(name)
            table = table_here(tx, item.table) if item else None
            if item is None or table is None:
                ignored.add(f"table {name}")
                continue
            preview.tables[name] = difference = Difference()
            for archived in _row_batches(contents, item):
                rows = with_own_ids(tx, archived, table.c[item.key])
                known = _known(tx, table, item, rows)
                difference.identical += len(known)
                difference.new += len(rows) - len(known)
                ignored |= {column for row in rows for column in unknown_columns(table, row)}
        return ignored


def _compare_documents(tx: Tx, contents: Contents, preview: Preview) -> set[str]:
    """Count what is new, the same and different; the columns that nothing here knows."""
    ignored: set[str] = set()
    targets = _targets(tx)
    with closing(contents.batches()) as batches:
        for found in (found for batch in batches for found in compare(tx, targets, batch)):
            _count(preview.documents, found.state, 1)
            _count(preview.chunks, found.state, len(found.chunks))
            if found.state != "identical" and len(preview.sample) < _SAMPLE:
                sample = Sample(
                    id=found.document["id"], title=found.document["title"], state=found.state
                )
                preview.sample.append(sample)
            ignored |= unknown_columns(targets[0], found.document)
            for chunk in found.chunks:
                ignored |= unknown_columns(targets[1], chunk)
    return ignored


class _Run:
    """An import under way. What it remembers is how far it is; what counts is in the database."""

    def __init__(
        self,
        contents: Contents,
        store: Store,
        files: Files,
        plugins: Plugins,
        mutation: Mutation,
        embedding: Embedding,
    ) -> None:
        self.contents = contents
        self._mutation = mutation
        self._store = store
        self._files = files
        self._plugins = plugins
        self._embedding = embedding
        self._steps: Generator[None, None, None] | None = None
        self._hint: str | None = None
        self._seen = self._documents = self._chunks = 0
        self._rows: dict[str, int] = {}
        self._renumbered: dict[int, int] = {}
        # Documents of the archive that are neither here nor added.
        self._absent: set[int] = set()
        self._refused: dict[int, Refused] = {}
        self._total = sum(1 for _ in contents.archive.lines("documents.ndjson"))

    def steps(self, actor: Actor) -> Generator[None, None, None]:
        if self._steps is None:
            self._steps = self._all(actor)
        return self._steps

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self.contents.close()

    def report(self, *, finished: bool) -> Imported:
        return Imported(
            finished=finished,
            done=self._seen,
            total=self._total,
            documents=self._documents,
            chunks=self._chunks,
            rows=self._rows,
            renumbered=self._renumbered,
            refused=list(self._refused.values()),
            hint=self._hint,
        )

    def _all(self, actor: Actor) -> Generator[None, None, None]:
        with closing(self.contents.batches()) as batches:
            for batch in batches:
                self._add(batch, actor)
                self._seen += len(batch)
                yield
        for name in self.contents.tables:
            item = self._plugins.registry(ExportTable).get(name)
            if item:
                for rows in _row_batches(self.contents, item):
                    self._add_rows(item, rows, actor)
                    yield

    def _add(self, batch: list[Entry], actor: Actor) -> None:
        """One transaction for a batch; what is slow comes before it."""
        with self._store.read(actor.organization_id) as tx:
            new = [found for found in compare(tx, _targets(tx), batch) if found.state == "new"]
        texts = {
            chunk["content_hash"]: embedded_text(
                found.document["title"], chunk["content"], chunk["metadata"]
            )
            for found in new
            for chunk in found.chunks
        }
        vectors = self._encoded(texts)
        staged: dict[str, Staged] = {}
        try:
            for key in {found.document["file"] for found in new if found.document["file"]}:
                if (made := self._staged(key)) is not None:
                    staged[key] = made
                    continue
                # The preview has named it; its documents come without a file.
                for document, _ in batch:
                    if document["file"] == key:
                        document["file"] = None
            with self._store.write(actor.organization_id) as tx:
                self._write(tx, batch, vectors, staged, actor)
        finally:
            for item in staged.values():
                self._files.discard(item)

    def _staged(self, key: str) -> Staged | None:
        """A file of the archive; None if it is damaged."""
        try:
            staged = self._files.stage_parts(self.contents.archive.parts(f"files/{key}"))
        except InvalidInput:
            return None
        if staged.key == key:
            return staged
        self._files.discard(staged)
        return None

    def _encoded(self, texts: dict[str, str]) -> dict[str, bytes]:
        """Vectors by content hash. Few texts at a time: what a tokenizer makes of one takes many times its size."""
        vectors: dict[str, bytes] = {}
        hashes = list(texts)
        for start in range(0, len(hashes), _TEXTS_AT_ONCE):
            part = hashes[start : start + _TEXTS_AT_ONCE]
            encoded = self._embedding.encode([texts[name] for name in part])
            vectors |= dict(zip(part, encoded, strict=True)) if encoded else {}
        return vectors

    def _write(
        self,
        tx: Tx,
        batch: list[Entry],
        vectors: dict[str, bytes],
        staged: dict[str, Staged],
        actor: Actor,
    ) -> None:
        targets = _targets(tx)
        try:
            space = self._embedding.space_for_writing(tx) if vectors else None
        except EmbedderUnavailable as error:
            space, self._hint = None, f"{error.message}: {error.hint}"
        added: list[int] = []
        for found in compare(tx, targets, batch):
            archived, number = found.document["id"], found.existing
            key = found.document["file"]
            # What somebody removed since the files were staged is left for the next time.
            if found.state == "new" and (key is None or key in staged):
                values = for_table(targets[0], found.document)
                rows = [for_table(targets[1], chunk) for chunk in found.chunks]
                try:
                    with tx.savepoint() if self._mutation.guards_additions else nullcontext():
                        number = insert_archived(
                            tx, targets, values, found.document["tags"], rows, vectors, space
                        )
                        self._mutation.require_addition(tx, actor, number)
                except MutationRefused as error:
                    self._refused[archived] = Refused(
                        id=archived, title=found.document["title"], error=error.message
                    )
                    continue
                added.append(number)
                self._chunks += len(rows)
            if number is None:
                self._absent.add(archived)
            elif number != archived:
                self._renumbered[archived] = number
        if added:
            chosen = sa.select(documents.c.id).where(among(documents.c.id, added))
            self._plugins.documents_changed(Changes("added", actor, chosen, len(added)), tx)
        # Not the files of documents that were refused.
        kept = set(
            tx.connection.scalars(
                sa.select(documents.c.file).where(among(documents.c.file, list(staged)))
            )
        )
        tx.execute(sa.delete(file_removals).where(among(file_removals.c.key, kept)))
        forget(tx, FILE, list(kept))
        self._files.publish(*(staged[key] for key in kept))
        self._documents += len(added)

    def _add_rows(self, item: ExportTable, rows: list[dict[str, Any]], actor: Actor) -> None:
        with self._store.write(actor.organization_id) as tx:
            table = table_here(tx, item.table)
            if table is None:
                return
            rows = with_own_ids(tx, rows, table.c[item.key])
            known = _known(tx, table, item, rows)
            adapt = resolve(item.adapt) if item.adapt else follow_document
            # A row that refers to a document cannot be without it.
            belongs = "document_id" in table.c and bool(table.c.document_id.foreign_keys)
            ids = {**self._renumbered, **dict.fromkeys(self._refused, _LEFT_OUT)}
            for row in rows:
                if row[item.key] in known or (belongs and row["document_id"] in self._absent):
                    continue
                adapted = adapt(for_table(table, row), ids)
                if adapted is None or adapted.get("document_id") == _LEFT_OUT:
                    continue
                values = dict(adapted)
                if (
                    "id" in values
                    and tx.scalar(sa.select(table.c.id).where(table.c.id == values["id"]))
                    is not None
                ):
                    del values["id"]
                tx.execute(
                    sa.insert(table).values({**values, "organization_id": tx.organization_id})
                )
                if "id" in values and _is_counted(table):
                    tx.engine.numbers_given(tx.connection, table)
                self._rows[item.name] = self._rows.get(item.name, 0) + 1


def _is_counted(table: sa.Table) -> bool:
    """Whether its ids are numbers that the database gives."""
    return list(table.primary_key) == [table.c.id] and isinstance(table.c.id.type, sa.Integer)


def follow_document(row: Mapping[str, Any], document_ids: Mapping[int, int]) -> Mapping[str, Any]:
    """A row whose `document_id` is a document's id."""
    number = row.get("document_id")
    return {**row, "document_id": document_ids.get(number, number)} if number is not None else row


def adapt_job(row: Mapping[str, Any], document_ids: Mapping[int, int]) -> Mapping[str, Any]:
    """Only an ingest's `document_id` is a document; that of any other job is a count."""
    return follow_document(row, document_ids) if row.get("job_type", "ingest") == "ingest" else row


def _targets(tx: Tx) -> tuple[sa.Table, sa.Table]:
    to_documents, to_chunks = table_here(tx, "documents"), table_here(tx, "chunks")
    assert to_documents is not None
    assert to_chunks is not None
    return to_documents, to_chunks


def _row_batches(contents: Contents, item: ExportTable) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    with closing(contents.archive.lines(table_member(item.name))) as lines:
        for row in lines:
            if not isinstance(row.get(item.key), str | int):
                raise refused(f"a row of {item.name} has no {item.key}")
            rows.append(row)
            if len(rows) == _ROWS_AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows


def _known(tx: Tx, table: sa.Table, item: ExportTable, rows: list[dict[str, Any]]) -> set[Any]:
    key = table.c[item.key]
    return set(
        tx.connection.scalars(
            sa.select(key).where(tx.owns(table), among(key, [row[item.key] for row in rows]))
        )
    )


def _count(difference: Difference, state: str, number: int) -> None:
    setattr(difference, state, getattr(difference, state) + number)
