"""From bytes to searchable documents: several are made ready, then written in one short transaction."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from kb_files.api import CHUNK, FILE, Integrity, forget
from kb_models.api import NO_EMBEDDING, Embedding

from kb_documents.document_rows import (
    Content,
    insert_chunks,
    insert_empty,
    release_files,
    replace_content,
)
from kb_documents.extraction import LeftOut, NotNow
from kb_documents.folders import INSIDE, LARGE, together
from kb_documents.ingest_queue import settle
from kb_documents.memory import give_back, keep_little
from kb_documents.missing import revive
from kb_documents.models import FileFields, NoteIn
from kb_documents.mutations import ChangeTags
from kb_documents.prepare import HOLDS, NOT_READ, Incoming, Preparation, Ready
from kb_documents.reading import TRUNCATED
from kb_documents.sources import readers, take_path
from kb_documents.tables import followed, left_out, refused, sources
from kb_framework.api import Attachment, Changes, ChunkText
from kb_framework.api.chunks import SOURCE
from kb_framework.api.files import Staged, key_of
from kb_framework.api.jobs import insert_job
from kb_framework.api.parts import Files, HostSettings, Mutation, Plugins, Store, Tx
from kb_framework.api.spaces import Space
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, damage, document_tags, documents, file_removals
from kb_framework.api.times import now
from kb_framework.errors import (
    Busy,
    EmbedderUnavailable,
    ExtractionFailed,
    KBError,
    MutationRefused,
    PayloadTooLarge,
    StoreUnusable,
    Unconfirmed,
)

log = logging.getLogger("kb.documents")

# Asked for every file, so built once.
_OF_SOURCE = sa.select(sources.c.document_id, sources.c.content_hash, sources.c.title).where(
    sources.c.organization_id == sa.bindparam("owner"), sources.c.source == sa.bindparam("place")
)
_ELSEWHERE = (
    sa.select(sources.c.source)
    .where(
        sources.c.organization_id == sa.bindparam("owner"),
        sources.c.document_id == sa.bindparam("document"),
        sources.c.source != sa.bindparam("place"),
    )
    .limit(1)
)
_OF_CONTENT = (
    sa.select(followed.c.id)
    .where(
        followed.c.organization_id == sa.bindparam("owner"),
        followed.c.content_hash == sa.bindparam("digest"),
        followed.c.path.is_not(None),
    )
    .order_by(followed.c.missing_since.is_not(None), followed.c.id)
    .limit(1)
)
_HURT = (
    sa.select(damage.c.key)
    .where(damage.c.kind == CHUNK, damage.c.document_id == sa.bindparam("document"))
    .limit(1)
)
_IS_MISSING = sa.select(followed.c.missing_since).where(followed.c.id == sa.bindparam("document"))
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


class Outcome(NamedTuple):
    document_id: int
    job_id: int
    status: Literal["added", "updated", "unchanged"]
    attachments: tuple[dict[str, Any], ...] = ()
    # The document was missing.
    returned: bool = False
    tags_added: tuple[str, ...] = ()
    # Another source has the same content.
    is_copy: bool = False


class Known(NamedTuple):
    """What is already there for an incoming file."""

    unchanged: int | None = None
    changed: int | None = None
    # The title that was derived when the source was last read, and the document it led to.
    source_title: str | None = None
    source_document: int | None = None


@dataclass(slots=True)
class _Item:
    """A file on its way: made ready or refused, then written."""

    incoming: Incoming
    ready: Ready | None = None
    error: KBError | None = None
    outcome: Outcome | None = None
    staged: Staged | None = None
    # The chunks of a document that was just added, still to be written.
    content: Content | None = None
    # Whether files inside it are still to be added.
    holds_files: bool = False
    # Whether the stored file of the same content is missing or damaged.
    heals: bool = False
    reading: str | None = None

    @property
    def key(self) -> str:
        assert self.staged is not None
        return self.staged.key


class Ingest:
    def __init__(
        self,
        store: Store,
        files: Files,
        plugins: Plugins,
        mutation: Mutation,
        host_settings: HostSettings,
        embedding: Embedding = NO_EMBEDDING,
    ) -> None:
        self._store = store
        self._files = files
        self._integrity = Integrity(store, files)
        self._plugins = plugins
        self._mutation = mutation
        self._embedding = embedding
        self._settings = host_settings
        self._preparation = Preparation(plugins, embedding, host_settings)
        # A file takes ten times its size while it is read: large ones go one by one.
        self._one_large_file = threading.Lock()
        # Bytes since memory was last given back.
        self._read = 0

    def close(self) -> None:
        self._preparation.close()

    def add(self, several: Sequence[Incoming]) -> list[Outcome | KBError]:
        """Add files of one organization, then the files inside them: each is a document of its own, and fails alone."""
        self._plugins.require_all_loaded()
        keep_little()
        outcomes: list[Outcome | KBError] = []
        for group in together(several, lambda incoming: len(incoming.data)):
            items = [_Item(incoming) for incoming in group]
            with self._one_large_file if len(group[0].data) > LARGE else contextlib.nullcontext():
                self._prepare(items)
                self._write(items)
            self._give_back(sum(len(incoming.data) for incoming in group))
            outcomes += [self._with_attachments(item) for item in items]
        return outcomes

    def _give_back(self, size: int) -> None:
        """What reading took and is free again is returned now and then, so that it does not add up."""
        self._read += size
        if self._read > LARGE:
            self._read = 0
            give_back()

    # The files inside a file

    def _with_attachments(self, item: _Item) -> Outcome | KBError:
        if item.error or item.outcome is None:
            assert item.error
            return item.error
        if not item.holds_files:
            return item.outcome
        incoming = item.incoming
        try:
            # Of a file that is already there, those inside may not be: they may have been interrupted.
            extracted = item.ready.extracted if item.ready else self._preparation.extract(incoming)
        except KBError as error:
            return error
        item.ready = None
        inner = [
            self._inside(item, item.outcome.document_id, file) for file in extracted.attachments
        ]
        outcomes = self.add(inner)
        inside = tuple(_told(*pair) for pair in zip(inner, outcomes, strict=True))
        refused = [
            file.source
            for file, outcome in zip(inner, outcomes, strict=True)
            if isinstance(outcome, KBError)
        ]
        self._remember_finished(
            item,
            [source for source in refused if source],
            all_read=not NOT_READ & extracted.metadata.keys(),
        )
        return item.outcome._replace(attachments=inside)

    def _inside(self, item: _Item, parent_id: int, file: Attachment) -> Incoming:
        outer = item.incoming
        path = f"{outer.path}/{file.name}"
        source = f"{outer.source}{INSIDE}{file.name}" if outer.source else None
        metadata = {"parent_id": parent_id, "parent_path": outer.path}
        kept = {
            "tags": outer.fields.tags,
            "doc_type": outer.fields.doc_type,
            "trust": outer.fields.trust,
        }
        fields = FileFields(**kept, path=path, source=source, metadata=metadata)
        name = PurePosixPath(file.name).name
        return Incoming(
            file.data, name, fields, outer.actor, now(), depth=outer.depth + 1, reading=item.reading
        )

    # Before the write

    def _prepare(self, items: Sequence[_Item]) -> None:
        """Make ready what is not there yet."""

        def missing(tx: Tx) -> tuple[list[tuple[_Item, set[str]]], list[_Item]]:
            known = [(item, self._known(tx, item.incoming)) for item in items]
            wanted = [
                (item, self._hashes(tx, found.changed))
                for item, found in known
                if not found.unchanged
            ]
            return wanted, [item for item, found in known if found.unchanged]

        wanted, there = self._store.look(items[0].incoming.actor.organization_id, missing)
        for item in there:
            item.heals = not self._integrity.is_whole(key_of(item.incoming.content_hash))
        prepared = self._preparation.prepare([(item.incoming, hashes) for item, hashes in wanted])
        for (item, _), made in zip(wanted, prepared, strict=True):
            if isinstance(made, KBError):
                item.error = made
            else:
                item.ready = made

    def _known(self, tx: Tx, incoming: Incoming) -> Known:
        """Notes are not files: two people may note the same."""
        if incoming.is_note:
            return Known()
        owner, digest = tx.organization_id, incoming.content_hash
        before = (None, None)
        if incoming.source is not None:
            row = tx.execute(_OF_SOURCE, {"owner": owner, "place": incoming.source}).first()
            if row is not None:
                before = (row.title, row.document_id)
                if row.content_hash == digest:
                    return self._same(tx, row.document_id, before)
                # A document that also came from elsewhere stays: a change in one place must not change the other.
                # No other source of a missing document exists.
                here = {"owner": owner, "document": row.document_id, "place": incoming.source}
                missing = (
                    tx.execute(_IS_MISSING, {"document": row.document_id}).scalar() is not None
                )
                if missing or tx.execute(_ELSEWHERE, here).first() is None:
                    return Known(None, row.document_id, *before)
        return self._same(
            tx, tx.execute(_OF_CONTENT, {"owner": owner, "digest": digest}).scalar(), before
        )

    def _same(
        self, tx: Tx, document_id: int | None, before: tuple[str | None, int | None]
    ) -> Known:
        """A document with this content. One with a damaged chunk is read again."""
        if (
            document_id is not None
            and tx.execute(_HURT, {"document": document_id}).first() is not None
        ):
            return Known(None, document_id, *before)
        return Known(document_id, None, *before)

    def _hashes(self, tx: Tx, document_id: int | None) -> set[str]:
        if document_id is None:
            return set()
        return set(
            tx.connection.scalars(
                sa.select(chunks.c.content_hash).where(chunks.c.document_id == document_id)
            )
        )

    # The write

    def _write(self, items: Sequence[_Item]) -> None:
        """Write all in one transaction; what changes an existing document is a mutation of its own, after it."""
        try:
            for item in items:
                if item.ready or item.heals:
                    self._stage(item)
            for item, document_id in zip(items, self._settle(items), strict=True):
                if document_id is not None:
                    self._replace(document_id, item)
                elif item.outcome is None and item.error is None:
                    # What it had in common with another document is gone meanwhile.
                    self._prepare([item])
                    self._write([item])
                if (
                    item.outcome
                    and item.outcome.status in ("unchanged", "updated")
                    and item.incoming.fields.tags
                ):
                    self._add_tags(item, item.outcome)
        finally:
            for item in items:
                if item.staged:
                    self._files.discard(item.staged)
                    if item.outcome is None:
                        self._take_back(item.staged.key)

    def _add_tags(self, item: _Item, outcome: Outcome) -> None:
        """Give a document that is there the tags that it lacks: a change like any other, which a guard may refuse."""
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

    def _stage(self, item: _Item) -> None:
        try:
            item.staged = self._files.stage(item.incoming.data)
        except StoreUnusable as error:
            item.ready, item.error = None, error

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

    def _settle(self, items: Sequence[_Item]) -> list[int | None]:
        """Write files; for each the id of the document that it changes instead, if so."""

        def work(tx: Tx) -> list[int | None]:
            guarded = self._mutation.guards_additions
            changed = [
                self._settle_guarded(tx, item) if guarded else self._settle_one(tx, item)
                for item in items
            ]
            added = [item for item in items if item.content]
            if not guarded:
                self._fill(tx, added)
            self._tell(tx, added)
            return changed

        try:
            return self._store.run(items[0].incoming.actor.organization_id, work)
        except Unconfirmed:
            raise
        except Exception as error:
            for item in items:
                item.outcome = None
            if len(items) > 1:
                # One that cannot be written must not take with it those that came before.
                return [changed for item in items for changed in self._settle([item])]
            if not isinstance(error, StoreUnusable):
                raise
            self._record(items[0], error)
            return [None]

    def _record(self, item: _Item, error: KBError) -> None:
        """Say why a file was not written, and keep a failed job that tells of it, where one can be written."""
        item.outcome, item.error = None, item.error or error
        try:
            with self._store.write(item.incoming.actor.organization_id) as tx:
                self._settle_one(tx, item)
        except (Busy, StoreUnusable) as second:
            log.error("the failed job could not be recorded: %s", second)

    def _settle_one(self, tx: Tx, item: _Item) -> int | None:
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
            self._remember_unread(tx, item.incoming, item.error)
            return None
        known = self._known(tx, incoming)
        if known.unchanged:
            metadata = sa.select(documents.c.metadata).where(documents.c.id == known.unchanged)
            item.holds_files = HOLDS in tx.scalar(metadata)
            returned = revive(tx, known.unchanged, incoming.source)
            self._remember(tx, item, known.unchanged, known)
            if returned:
                self._tell_returned(tx, item, known.unchanged)
            job_id = self._job(tx, item, status="duplicate", document_id=known.unchanged)
            is_copy = known.source_document != known.unchanged and self._is_copy(
                tx, incoming, known.unchanged
            )
            item.outcome = Outcome(
                known.unchanged, job_id, "unchanged", returned=returned, is_copy=is_copy
            )
            if item.staged:
                self._heal(tx, item)
        elif ready and not known.changed:
            item.outcome = self._insert(tx, item, ready, known)
        return known.changed if ready else None

    def _heal(self, tx: Tx, item: _Item) -> None:
        """Store the file again for all documents with this content, which may have lost the record of it."""
        lost = (
            tx.owns(documents),
            documents.c.content_hash == item.incoming.content_hash,
            documents.c.file.is_(None),
        )
        tx.execute(sa.update(documents).where(*lost).values(file=item.key))
        self._publish(tx, [item])

    def _is_copy(self, tx: Tx, incoming: Incoming, document_id: int) -> bool:
        here = {"owner": tx.organization_id, "document": document_id, "place": incoming.source}
        return incoming.source is not None and tx.execute(_ELSEWHERE, here).first() is not None

    def _tell_returned(self, tx: Tx, item: _Item, document_id: int) -> None:
        take_path(tx, document_id)
        back = sa.select(documents.c.id).where(documents.c.id == document_id)
        self._plugins.documents_changed(Changes("returned", item.incoming.actor, back, 1), tx)

    def _insert(self, tx: Tx, item: _Item, ready: Ready, known: Known) -> Outcome:
        incoming, fields, extracted = item.incoming, item.incoming.fields, ready.extracted
        values = {
            "doc_type": fields.doc_type,
            "title": ready.title,
            "path": incoming.path,
            "media": extracted.media,
            "lang": ready.lang,
            "trust": fields.trust,
            "metadata": {**extracted.metadata, **fields.metadata, **_source(fields)},
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
            list(enumerate(_sourced(ready, values))),
            job,
            ready.vectors,
            ready.words,
        )
        job_id = self._job(tx, item, uuid=job, document_id=document_id)
        self._remember(tx, item, document_id, known, ready.title)
        return Outcome(document_id, job_id, "added")

    def _settle_guarded(self, tx: Tx, item: _Item) -> int | None:
        """Write one file, unless a guard objects to the new document: then its failed job is all that is written."""
        try:
            with tx.savepoint():
                changed = self._settle_one(tx, item)
                if item.content:
                    self._fill(tx, [item])
                    self._mutation.require_addition(
                        tx, item.incoming.actor, item.content.document_id
                    )
                return changed
        except MutationRefused as error:
            item.error = error
            return self._settle_one(tx, item)

    def _fill(self, tx: Tx, items: Sequence[_Item]) -> None:
        """What new documents have besides their rows, written for all of them together."""
        contents = [item.content for item in items if item.content]
        if contents:
            insert_chunks(
                tx, contents, self._space(tx, any(content.vectors for content in contents))
            )

    def _tell(self, tx: Tx, items: Sequence[_Item]) -> None:
        """Let plugins follow the new documents, then publish their files."""
        ids = [item.content.document_id for item in items if item.content]
        if ids:
            added = sa.select(documents.c.id).where(among(documents.c.id, ids))
            self._plugins.documents_changed(
                Changes("added", items[0].incoming.actor, added, len(ids)), tx
            )
            self._publish(tx, items)

    def _replace(self, document_id: int, item: _Item) -> None:
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
            self._settle([item])
        else:
            item.outcome = Outcome(
                document_id, operation.job_id, "updated", returned=operation.returned
            )

    def rewrite(self, tx: Tx, document_id: int, item: _Item) -> tuple[int, bool]:
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
        known = self._known(tx, incoming)
        values: dict[str, Any] = {
            "title": ready.title if old.title == known.source_title or fields.title else old.title,
            "path": incoming.path,
            "media": extracted.media,
            "lang": ready.lang,
            "metadata": {
                **_lasting(old.metadata),
                **extracted.metadata,
                **fields.metadata,
                **_source(fields),
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
            _sourced(ready, values),
            job,
            ready.vectors,
            self._space(tx, bool(ready.vectors)),
        )
        job_id = self._job(tx, item, uuid=job, document_id=document_id)
        returned = revive(tx, document_id, incoming.source)
        self._remember(tx, item, document_id, known, ready.title)
        self._publish(tx, [item])
        return job_id, returned

    def _publish(self, tx: Tx, items: Sequence[_Item]) -> None:
        """Last, when nothing but the commit can fail any more."""
        tx.execute(
            sa.delete(file_removals).where(among(file_removals.c.key, {item.key for item in items}))
        )
        forget(tx, FILE, {item.key for item in items})
        self._files.publish(*(item.staged for item in items if item.staged))

    def _job(self, tx: Tx, item: _Item, *, status: str = "done", **values: Any) -> int:
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

    def _remember(
        self, tx: Tx, item: _Item, document_id: int, known: Known, title: str | None = None
    ) -> None:
        """Note where the document came from, so that the file need not be read again while it does not change."""
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
            # Until the files inside it are there as well, whoever lists the folder is asked for it again.
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

    def _remember_unread(self, tx: Tx, incoming: Incoming, error: KBError) -> None:
        """Note why a file could not be read, where that is the file's own fault: it need not be sent again as it is."""
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

    def _remember_finished(self, item: _Item, refused: Sequence[str], *, all_read: bool) -> None:
        """Note that the files inside are there as well. Those that could not be read this time still count as there."""
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


class Replace:
    """The mutation that gives one document the content of a changed file."""

    def __init__(self, ingest: Ingest, item: _Item) -> None:
        self._ingest = ingest
        self._item = item
        self.job_id = 0
        self.returned = False

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        (document_id,) = tx.connection.scalars(documents)
        self.job_id, self.returned = self._ingest.rewrite(tx, document_id, self._item)


def _lasting(metadata: dict[str, Any]) -> dict[str, Any]:
    """A document's metadata without what the last reading of its file said about that reading."""
    return {
        name: value for name, value in metadata.items() if name not in (TRUNCATED, HOLDS, *NOT_READ)
    }


def _told(incoming: Incoming, outcome: Outcome | KBError) -> dict[str, Any]:
    """What became of a file inside another."""
    if isinstance(outcome, Outcome):
        return {"path": incoming.path, "status": outcome.status, "document_id": outcome.document_id}
    if not isinstance(outcome, ExtractionFailed | PayloadTooLarge | MutationRefused):
        # Not the file's fault: it is to be sent again.
        raise outcome
    if isinstance(outcome, LeftOut):
        return {
            "path": incoming.path,
            "status": "left_out",
            "reason": outcome.message,
            "kind": outcome.details["file_kind"],
        }
    return {
        "path": incoming.path,
        "status": "failed",
        "reason": outcome.message,
        "job_id": outcome.details.get("job_id"),
    }


def _source(fields: NoteIn | FileFields) -> dict[str, str]:
    return {name: value for name in SOURCE if (value := getattr(fields, name)) is not None}


def _sourced(ready: Ready, values: Mapping[str, Any]) -> list[ChunkText]:
    """The chunks, each with the source that its document has."""
    source = {
        name: value for name in SOURCE if isinstance(value := values["metadata"].get(name), str)
    }
    return (
        [piece._replace(metadata={**piece.metadata, **source}) for piece in ready.pieces]
        if source
        else ready.pieces
    )
