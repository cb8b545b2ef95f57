"""From bytes to searchable documents: several are made ready, then written in one short transaction."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import PurePosixPath

from kb_files.api import Integrity
from kb_models.api import NO_EMBEDDING, Embedding

from kb_documents.document_writer import DocumentWriter
from kb_documents.folders import INSIDE, LARGE, together
from kb_documents.ingest_items import Item, Outcome, told
from kb_documents.known_files import chunk_hashes, known_of
from kb_documents.memory import give_back, keep_little
from kb_documents.models import FileFields
from kb_documents.prepare import NOT_READ, Incoming, Preparation
from kb_documents.source_memory import SourceMemory
from kb_framework.api import Attachment
from kb_framework.api.files import key_of
from kb_framework.api.parts import Files, HostSettings, Mutation, Plugins, Store, Tx
from kb_framework.api.times import now
from kb_framework.errors import KBError


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
        self._plugins = plugins
        self._integrity = Integrity(store, files)
        self._memory = SourceMemory(store, plugins, host_settings)
        self._writer = DocumentWriter(store, files, plugins, mutation, embedding, self._memory)
        self._preparation = Preparation(plugins, embedding, host_settings)
        # A file takes ten times its size while it is read: large ones go one by one.
        self._one_large_file = threading.Lock()
        # Bytes read since memory was last returned.
        self._read = 0

    def close(self) -> None:
        self._preparation.close()

    def add(self, several: Sequence[Incoming]) -> list[Outcome | KBError]:
        """Add files of one organization, then the files inside them: each is a document of its own, and fails alone."""
        self._plugins.require_all_loaded()
        keep_little()
        outcomes: list[Outcome | KBError] = []
        for group in together(several, lambda incoming: len(incoming.data)):
            items = [Item(incoming) for incoming in group]
            with self._one_large_file if len(group[0].data) > LARGE else contextlib.nullcontext():
                self._prepare(items)
                self._write(items)
            self._give_back(sum(len(incoming.data) for incoming in group))
            outcomes += [self._with_attachments(item) for item in items]
        return outcomes

    def _give_back(self, size: int) -> None:
        """Return free memory to the system after every few megabytes that were read."""
        self._read += size
        if self._read > LARGE:
            self._read = 0
            give_back()

    def _with_attachments(self, item: Item) -> Outcome | KBError:
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
        inside = tuple(told(*pair) for pair in zip(inner, outcomes, strict=True))
        refused = [
            file.source
            for file, outcome in zip(inner, outcomes, strict=True)
            if isinstance(outcome, KBError)
        ]
        self._memory.finish(
            item,
            [source for source in refused if source],
            all_read=not NOT_READ & extracted.metadata.keys(),
        )
        return item.outcome._replace(attachments=inside)

    def _inside(self, item: Item, parent_id: int, file: Attachment) -> Incoming:
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

    def _prepare(self, items: Sequence[Item]) -> None:
        """Read, cut and embed what is not there yet."""

        def missing(tx: Tx) -> tuple[list[tuple[Item, set[str]]], list[Item]]:
            known = [(item, known_of(tx, item.incoming)) for item in items]
            wanted = [
                (item, chunk_hashes(tx, found.changed))
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

    def _write(self, items: Sequence[Item]) -> None:
        """Write all in one transaction; what changes an existing document is a mutation of its own, after it."""
        try:
            for item in items:
                if item.ready or item.heals:
                    self._writer.stage(item)
            for item, document_id in zip(items, self._writer.write(items), strict=True):
                if document_id is not None:
                    self._writer.replace(document_id, item)
                elif item.outcome is None and item.error is None:
                    # The document with the same content is gone meanwhile.
                    self._prepare([item])
                    self._write([item])
                if (
                    item.outcome
                    and item.outcome.status in ("unchanged", "updated")
                    and item.incoming.fields.tags
                ):
                    self._writer.add_tags(item, item.outcome)
        finally:
            for item in items:
                self._writer.discard(item)
