"""Writing files as documents: several new ones in one transaction, each changed one by a mutation."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from kb_files.api import CHUNK, FILE, forget
from kb_models.api import Embedding

from kb_documents.document_metadata import lasting, source_of, with_source
from kb_documents.document_rows import (
    Content,
    insert_chunks,
    insert_empty,
    release_files,
    replace_content,
)
from kb_documents.extraction import LeftOut
from kb_documents.ingest_items import Item, Known, Outcome
from kb_documents.ingest_queue import settle
from kb_documents.known_files import is_copy, known_of
from kb_documents.missing import revive
from kb_documents.mutations import ChangeTags
from kb_documents.prepare import HOLDS, NOT_READ, Ready
from kb_documents.source_memory import SourceMemory
from kb_documents.source_paths import take_path
from kb_framework.api import Changes
from kb_framework.api.jobs import insert_job
from kb_framework.api.parts import Files, Mutation, Plugins, Store, Tx
from kb_framework.api.spaces import Space
from kb_framework.api.sql import among
from kb_framework.api.tables import damage, document_tags, documents, file_removals
from kb_framework.errors import (
    Busy,
    EmbedderUnavailable,
    KBError,
    MutationRefused,
    StoreUnusable,
    Unconfirmed,
)

log = logging.getLogger("kb.documents")


class DocumentWriter:
    def __init__(
        self,
        store: Store,
        files: Files,
        plugins: Plugins,
        mutation: Mutation,
        embedding: Embedding,
        memory: SourceMemory,
    ) -> None:
        self._store = store
        self._files = files
        self._plugins = plugins
        self._mutation = mutation
        self._embedding = embedding
        self._memory = memory

    def add_tags(self, item: Item, outcome: Outcome) -> None:
        """Give a document that is there the tags that it lacks, as a change that a guard may refuse."""
        actor = item.incoming.actor
        here = sa.select(document_tags.c.tag).where(
            document_tags.c.document_id == outcome.document_id
        )
        there = self._store.look(actor.organization_id, lambda tx: set(tx.connection.scalars(here)))
        new = [tag for tag in dict.fromkeys(item.incoming.fields.tags) if tag not in there]
        if not new:
            return
        result = self._mutation.run(
            "tags", ChangeTags(add=new), documents.c.id == outcome.document_id, actor
        )
        if result.failed or not result.matched:
            reason = result.errors[0]["error"] if result.errors else "the document is withheld"
            item.error = MutationRefused(
                f"tags not added: {reason}", document_id=outcome.document_id
            )
        else:
            item.outcome = outcome._replace(tags_added=tuple(new))

    def stage(self, item: Item) -> None:
        try:
            item.staged = self._files.stage(item.incoming.data)
        except StoreUnusable as error:
            item.ready, item.error = None, error

    def discard(self, item: Item) -> None:
        """Remove what was staged for a file, and what was published if it did not become a document."""
        if item.staged:
            self._files.discard(item.staged)
            if item.outcome is None:
                self._take_back(item.staged.key)

    def _take_back(self, key: str) -> None:
        """Remove a file that was published for a document which then could not be committed."""
        try:
            # Under the write lock, as whenever a file goes: nobody else is about to refer to it.
            with self._store.write() as tx:
                used = sa.select(documents.c.id).where(documents.c.file == key).limit(1)
                # What waits to be removed has its own time.
                waits = sa.select(file_removals.c.key).where(file_removals.c.key == key)
                if tx.scalar(used) is None and tx.scalar(waits) is None:
                    self._files.remove(key)
        except (Busy, StoreUnusable, OSError) as error:
            log.error("a file that belongs to no document could not be removed: %s: %s", key, error)

    def write(self, items: Sequence[Item]) -> list[int | None]:
        """Write files; return for each the id of the document that it changes instead, or None."""

        def work(tx: Tx) -> list[int | None]:
            guarded = self._mutation.guards_additions
            changed = [
                self._write_guarded(tx, item) if guarded else self._write_one(tx, item)
                for item in items
            ]
            added = [item for item in items if item.content]
            if not guarded:
                self._fill(tx, added)
            self._announce(tx, added)
            return changed

        try:
            return self._store.run(items[0].incoming.actor.organization_id, work)
        except Unconfirmed:
            raise
        except Exception as error:
            for item in items:
                item.outcome = None
            if len(items) > 1:
                # One that cannot be written must not fail the others.
                return [changed for item in items for changed in self.write([item])]
            if not isinstance(error, StoreUnusable):
                raise
            self._record(items[0], error)
            return [None]

    def _record(self, item: Item, error: KBError) -> None:
        """Keep the error of a file that was not written, and record a failed job if that is possible."""
        item.outcome, item.error = None, item.error or error
        try:
            with self._store.write(item.incoming.actor.organization_id) as tx:
                self._write_one(tx, item)
        except (Busy, StoreUnusable) as second:
            log.error("the failed job could not be recorded: %s", second)

    def _write_one(self, tx: Tx, item: Item) -> int | None:
        """Write one file, unless it changes a document that is there."""
        incoming, ready = item.incoming, item.ready
        item.outcome = item.content = None
        item.holds_files = ready is not None and bool(
            ready.extracted.attachments or NOT_READ & ready.extracted.metadata.keys()
        )
        if item.error:
            # A file without text that was found in a folder, or inside another, has not failed.
            unasked = isinstance(item.error, LeftOut) and (
                incoming.source is not None or incoming.depth > 0
            )
            if not unasked and (not incoming.queued or item.error.http_status < 500):
                item.error.details["job_id"] = self._job(
                    tx, item, status="failed", error=item.error.message
                )
            self._memory.remember_unread(tx, item.incoming, item.error)
            return None
        known = known_of(tx, incoming)
        if known.unchanged:
            metadata = sa.select(documents.c.metadata).where(documents.c.id == known.unchanged)
            item.holds_files = HOLDS in tx.scalar(metadata)
            returned = revive(tx, known.unchanged, incoming.source)
            self._memory.remember(tx, item, known.unchanged, known)
            if returned:
                self._announce_returned(tx, item, known.unchanged)
            job_id = self._job(tx, item, status="duplicate", document_id=known.unchanged)
            copied = known.source_document != known.unchanged and is_copy(
                tx, incoming, known.unchanged
            )
            item.outcome = Outcome(
                known.unchanged, job_id, "unchanged", returned=returned, is_copy=copied
            )
            if item.staged:
                self._heal(tx, item)
        elif ready and not known.changed:
            item.outcome = self._insert(tx, item, ready, known)
        return known.changed if ready else None

    def _heal(self, tx: Tx, item: Item) -> None:
        """Store the file again for all documents with this content, which may have lost the record of it."""
        lost = (
            tx.owns(documents),
            documents.c.content_hash == item.incoming.content_hash,
            documents.c.file.is_(None),
        )
        tx.execute(sa.update(documents).where(*lost).values(file=item.key))
        self._publish(tx, [item])

    def _announce_returned(self, tx: Tx, item: Item, document_id: int) -> None:
        take_path(tx, document_id)
        back = sa.select(documents.c.id).where(documents.c.id == document_id)
        self._plugins.documents_changed(Changes("returned", item.incoming.actor, back, 1), tx)

    def _insert(self, tx: Tx, item: Item, ready: Ready, known: Known) -> Outcome:
        incoming, fields, extracted = item.incoming, item.incoming.fields, ready.extracted
        values = {
            "doc_type": fields.doc_type,
            "title": ready.title,
            "path": incoming.path,
            "media": extracted.media,
            "lang": ready.lang,
            "trust": fields.trust,
            "metadata": {**extracted.metadata, **fields.metadata, **source_of(fields)},
            "content_hash": incoming.content_hash,
            "bytes": len(incoming.data),
            "file": item.key,
        }
        tags = [*extracted.tags, *fields.tags]
        job = incoming.new_job()
        document_id = insert_empty(tx, values, tags, len(ready.pieces))
        item.content = Content(
            document_id,
            ready.title,
            list(enumerate(with_source(ready, values))),
            job,
            ready.vectors,
            ready.words,
        )
        job_id = self._job(tx, item, uuid=job, document_id=document_id)
        self._memory.remember(tx, item, document_id, known, ready.title)
        return Outcome(document_id, job_id, "added")

    def _write_guarded(self, tx: Tx, item: Item) -> int | None:
        """Write one file, unless a guard objects to the new document: then its failed job is all that is written."""
        try:
            with tx.savepoint():
                changed = self._write_one(tx, item)
                if item.content:
                    self._fill(tx, [item])
                    self._mutation.require_addition(
                        tx, item.incoming.actor, item.content.document_id
                    )
                return changed
        except MutationRefused as error:
            item.error = error
            return self._write_one(tx, item)

    def _fill(self, tx: Tx, items: Sequence[Item]) -> None:
        """Write the chunks of new documents, with full text and vectors, for all of them together."""
        contents = [item.content for item in items if item.content]
        if contents:
            insert_chunks(
                tx, contents, self._space(tx, any(content.vectors for content in contents))
            )

    def _announce(self, tx: Tx, items: Sequence[Item]) -> None:
        """Call the observers of new documents, then publish their files."""
        ids = [item.content.document_id for item in items if item.content]
        if ids:
            added = sa.select(documents.c.id).where(among(documents.c.id, ids))
            self._plugins.documents_changed(
                Changes("added", items[0].incoming.actor, added, len(ids)), tx
            )
            self._publish(tx, items)

    def replace(self, document_id: int, item: Item) -> None:
        operation = Replace(self, item)
        try:
            result = self._mutation.run(
                "replace", operation, documents.c.id == document_id, item.incoming.actor
            )
        except StoreUnusable as error:
            self._record(item, error)
            return
        if result.failed or not result.matched:
            reason = result.errors[0]["error"] if result.errors else "the document is withheld"
            item.error = MutationRefused(f"not updated: {reason}", document_id=document_id)
            self.write([item])
        else:
            item.outcome = Outcome(
                document_id, operation.job_id, "updated", returned=operation.returned
            )

    def rewrite(self, tx: Tx, document_id: int, item: Item) -> tuple[int, bool]:
        """Give a document new content, inside the mutation's transaction. What a person set, stays.

        Return the job's id, and whether the document was missing.
        """
        incoming, ready, fields = item.incoming, item.ready, item.incoming.fields
        assert ready is not None
        extracted = ready.extracted
        old = tx.execute(
            sa.select(documents.c.title, documents.c.metadata, documents.c.file).where(
                documents.c.id == document_id
            )
        ).one()
        known = known_of(tx, incoming)
        values: dict[str, Any] = {
            "title": ready.title if old.title == known.source_title or fields.title else old.title,
            "path": incoming.path,
            "media": extracted.media,
            "lang": ready.lang,
            "metadata": {
                **lasting(old.metadata),
                **extracted.metadata,
                **fields.metadata,
                **source_of(fields),
            },
            "content_hash": incoming.content_hash,
            "bytes": len(incoming.data),
            "file": item.key,
        }
        if old.file != item.key:
            release_files(tx, sa.select(documents.c.id).where(documents.c.id == document_id))
        hurt = set(
            tx.connection.scalars(
                sa.select(damage.c.key).where(damage.c.document_id == document_id)
            )
        )
        forget(tx, CHUNK, hurt)
        job = incoming.new_job()
        replace_content(
            tx,
            document_id,
            values,
            with_source(ready, values),
            job,
            ready.vectors,
            self._space(tx, bool(ready.vectors)),
        )
        job_id = self._job(tx, item, uuid=job, document_id=document_id)
        returned = revive(tx, document_id, incoming.source)
        self._memory.remember(tx, item, document_id, known, ready.title)
        self._publish(tx, [item])
        return job_id, returned

    def _publish(self, tx: Tx, items: Sequence[Item]) -> None:
        """Put files in their place, last, when only the commit can still fail."""
        tx.execute(
            sa.delete(file_removals).where(among(file_removals.c.key, {item.key for item in items}))
        )
        forget(tx, FILE, {item.key for item in items})
        self._files.publish(*(item.staged for item in items if item.staged))

    def _job(self, tx: Tx, item: Item, *, status: str = "done", **values: Any) -> int:
        incoming = item.incoming
        if incoming.queued:
            # With more files inside, the job ends when they are there as well.
            if not item.holds_files or status == "failed":
                settle(tx, incoming.queued, **{"status": status, "error": None, **values})
            return incoming.queued.job_id
        failed = int(status == "failed")
        counts = {"matched": 1, "succeeded": 1 - failed, "failed": failed}
        named = incoming.path or incoming.fields.title
        return insert_job(
            tx,
            incoming.actor,
            "ingest",
            status=status,
            filename=named,
            created_at=incoming.started,
            **counts,
            **values,
        )

    def _space(self, tx: Tx, has_vectors: bool) -> Space | None:
        try:
            return self._embedding.space_for_writing(tx) if has_vectors else None
        except EmbedderUnavailable:
            # Another model's vectors are here: the text is searchable at once, its vectors come with `kb reindex`.
            return None


class Replace:
    """The mutation that gives one document the content of a changed file."""

    def __init__(self, writer: DocumentWriter, item: Item) -> None:
        self._writer = writer
        self._item = item
        self.job_id = 0
        self.returned = False

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        (document_id,) = tx.connection.scalars(documents)
        self.job_id, self.returned = self._writer.rewrite(tx, document_id, self._item)
