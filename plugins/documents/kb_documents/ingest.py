"""From bytes to a searchable document: extract, cut, embed, then write everything in one short transaction."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import sqlalchemy as sa

from kb_documents.language import by_script
from kb_documents.models import FileFields, NoteIn
from kb_framework.api import Actor, Changes, ChunkText, Extracted, resolve
from kb_framework.embedding import Embedding
from kb_framework.errors import ConfigInvalid, EmbedderUnavailable, ExtractionFailed, KBError, PayloadTooLarge
from kb_framework.files import Files
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.store.documents import insert_document
from kb_framework.store.jobs import insert_job
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import documents, file_removals, jobs, now


@dataclass(frozen=True, slots=True)
class Incoming:
    data: bytes
    filename: str
    fields: NoteIn | FileFields
    is_note: bool = False

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Ready:
    """What the slow part made of a file, before the write lock is taken."""

    extracted: Extracted
    pieces: list[ChunkText]
    vectors: list[bytes] | None


class Ingest:
    def __init__(self, store: Store, files: Files, plugins: Plugins, embedding: Embedding, host_settings: HostSettings) -> None:
        self._store = store
        self._files = files
        self._plugins = plugins
        self._embedding = embedding
        self._settings = host_settings

    def add(self, incoming: Incoming, actor: Actor) -> tuple[int, int, bool]:
        """The document's id, the job's id, and whether the content was there already."""
        started = now()
        if len(incoming.data) > self._settings.max_file_bytes:
            limit = self._settings.max_file_bytes
            error = PayloadTooLarge(
                f"{incoming.filename} has {len(incoming.data)} bytes; at most {limit} are allowed (KB_MAX_FILE_BYTES)"
            )
            raise self._recorded(error, incoming, actor, started)
        if not incoming.is_note:
            with self._store.read(actor.organization_id) as tx:
                known = self._known(tx, incoming)
            if known:
                return self._duplicate(known, incoming, actor, started)
        try:
            extracted = self._extract(incoming)
            pieces = self._chunk(extracted)
        except KBError as error:
            raise self._recorded(error, incoming, actor, started) from error
        vectors = self._embedding.encode([piece.content for piece in pieces]) if pieces else None
        ready = Ready(extracted, pieces, vectors)
        key, staged = self._files.stage(incoming.data)
        try:
            with self._store.write(actor.organization_id) as tx:
                known = None if incoming.is_note else self._known(tx, incoming)
                if known is None:
                    document_id, job_id = self._write(tx, incoming, ready, key, actor, started)
                    self._files.publish(key, staged)
                    return document_id, job_id, False
            return self._duplicate(known, incoming, actor, started)
        finally:
            staged.unlink(missing_ok=True)

    def _write(self, tx: Tx, incoming: Incoming, ready: Ready, key: str, actor: Actor, started: str) -> tuple[int, int]:
        fields, extracted = incoming.fields, ready.extracted
        path = getattr(fields, "path", None) or (None if incoming.is_note else incoming.filename)
        try:
            space = self._embedding.space_for_writing(tx) if ready.vectors is not None else None
        except EmbedderUnavailable:
            # Another model's vectors are here: the text is searchable at once, its vectors come with `kb reindex`.
            space = None
        job_id = insert_job(
            tx,
            actor,
            "ingest",
            status="done",
            filename=path,
            created_at=started,
            matched=1,
            succeeded=1,
            failed=0,
        )
        job_uuid = tx.scalar(sa.select(jobs.c.uuid).where(jobs.c.id == job_id))
        values = {
            "doc_type": fields.doc_type,
            "title": fields.title or extracted.title or _title(extracted.text, path),
            "path": path,
            "media": extracted.media,
            "lang": fields.lang or by_script(extracted.text),
            "trust": fields.trust,
            "metadata": {**extracted.metadata, **fields.metadata},
            "content_hash": incoming.content_hash,
            "bytes": len(incoming.data),
            "file": key,
        }
        document_id = insert_document(tx, values, [*extracted.tags, *fields.tags], ready.pieces, job_uuid, ready.vectors, space)
        tx.execute(sa.update(jobs).where(jobs.c.id == job_id).values(document_id=document_id))
        tx.execute(sa.delete(file_removals).where(file_removals.c.key == key))
        added = sa.select(documents.c.id).where(documents.c.id == document_id)
        self._plugins.documents_changed(Changes("added", actor, added, 1), tx)
        return document_id, job_id

    def _known(self, tx: Tx, incoming: Incoming) -> int | None:
        """A file document with this very content. Notes are not files: two people may note the same."""
        same = sa.select(documents.c.id).where(
            tx.owns(documents),
            documents.c.content_hash == incoming.content_hash,
            documents.c.path.is_not(None),
        )
        return tx.scalar(same.order_by(documents.c.id).limit(1))

    def _duplicate(self, document_id: int, incoming: Incoming, actor: Actor, started: str) -> tuple[int, int, bool]:
        with self._store.write(actor.organization_id) as tx:
            job_id = insert_job(
                tx,
                actor,
                "ingest",
                status="duplicate",
                filename=incoming.filename,
                document_id=document_id,
                created_at=started,
                matched=1,
                succeeded=1,
                failed=0,
            )
        return document_id, job_id, True

    def _extract(self, incoming: Incoming) -> Extracted:
        if incoming.is_note:
            return Extracted(incoming.data.decode(), media="markdown", markdown=True)
        suffix = PurePosixPath(incoming.filename).suffix.lower()
        extractor = next((item for item in self._plugins.extractors if suffix in item.suffixes), None)
        extractor = extractor or self._plugins.extractors.get("text")
        if extractor is None:
            raise ExtractionFailed(f"nothing here reads files like {incoming.filename}")
        return resolve(extractor.target)(incoming.data, incoming.filename)

    def _chunk(self, extracted: Extracted) -> list[ChunkText]:
        chunker = self._plugins.chunkers.get(self._settings.chunker)
        if chunker is None:
            raise ConfigInvalid(f"KB_CHUNKER names {self._settings.chunker!r}, which no plugin provides")
        return resolve(chunker.target)(extracted)

    def _recorded(self, error: KBError, incoming: Incoming, actor: Actor, started: str) -> KBError:
        """The same error, with the failed job that tells of it."""
        with self._store.write(actor.organization_id) as tx:
            job_id = insert_job(
                tx,
                actor,
                "ingest",
                status="failed",
                filename=incoming.filename,
                error=error.message,
                created_at=started,
                matched=1,
                succeeded=0,
                failed=1,
            )
        error.details["job_id"] = job_id
        return error


def _title(text: str, path: str | None) -> str:
    """A file's name, or a note's first words."""
    if path:
        return PurePosixPath(path).name
    line = next(line for line in text.splitlines() if line.strip())
    words = re.sub(r"^[#>*\-\s]+", "", line).strip() or line.strip()
    return words if len(words) <= 80 else words[:79].rstrip() + "…"
