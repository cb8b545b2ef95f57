"""From bytes to a searchable document: extract, cut, embed, then write everything in one short transaction."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from kb_documents.extraction import Extraction
from kb_documents.folders import INSIDE
from kb_documents.language import detect as language_of
from kb_documents.models import FileFields, NoteIn
from kb_documents.sources import take_path
from kb_documents.tables import sources
from kb_framework.api import Actor, Attachment, Changes, ChunkText, Extracted, resolve
from kb_framework.embedding import Embedding, embedded_text
from kb_framework.errors import ConfigInvalid, EmbedderUnavailable, ExtractionFailed, KBError, MutationRefused, PayloadTooLarge
from kb_framework.files import Files
from kb_framework.mutation import Mutation
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.store.documents import Space, content_hash, insert_document, release_files, replace_content
from kb_framework.store.jobs import insert_job
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import chunks, documents, file_removals, jobs, now


@dataclass(frozen=True, slots=True)
class Incoming:
    data: bytes
    filename: str
    fields: NoteIn | FileFields
    actor: Actor
    started: str
    is_note: bool = False
    # How many files this one is inside of.
    depth: int = 0

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def source(self) -> str | None:
        return getattr(self.fields, "source", None)

    @property
    def path(self) -> str | None:
        return None if self.is_note else getattr(self.fields, "path", None) or self.filename


_LARGE = 4_000_000

# In a document's metadata: how many files its file holds.
HOLDS = "attachments"


class Outcome(NamedTuple):
    document_id: int
    job_id: int
    status: Literal["added", "updated", "unchanged"]
    attachments: tuple[dict[str, Any], ...] = ()


class Known(NamedTuple):
    """What is already there for an incoming file."""

    unchanged: int | None = None
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """What the slow part made of a file, before the write lock is taken."""

    extracted: Extracted
    pieces: list[ChunkText]
    vectors: Mapping[str, bytes]
    key: str
    staged: Path


class Ingest:
    def __init__(
        self,
        store: Store,
        files: Files,
        plugins: Plugins,
        mutation: Mutation,
        embedding: Embedding,
        host_settings: HostSettings,
    ) -> None:
        self._store = store
        self._files = files
        self._plugins = plugins
        self._mutation = mutation
        self._embedding = embedding
        self._settings = host_settings
        self._extraction = Extraction(plugins, host_settings)
        # A file takes ten times its size while it is read: large ones go one by one.
        self._one_large_file = threading.Lock()

    def close(self) -> None:
        self._extraction.close()

    def add(self, incoming: Incoming) -> Outcome:
        """Add a file, then the files inside it: each is a document of its own, and one that fails fails alone."""
        with self._one_large_file if len(incoming.data) > _LARGE else contextlib.nullcontext():
            outcome, extracted = self._add(incoming)
        if extracted is None and self._holds_files(outcome.document_id, incoming.actor):
            # The file is there, but were those inside it? They may have been interrupted; what is there is not added twice.
            extracted = self._extract(incoming)
        files = extracted.attachments if extracted else ()
        try:
            inside = [self._add_attachment(incoming, outcome.document_id, file) for file in files]
        except BaseException:
            self._want_again(incoming)
            raise
        return outcome._replace(attachments=tuple(inside))

    def _holds_files(self, document_id: int, actor: Actor) -> bool:
        with self._store.read(actor.organization_id) as tx:
            return HOLDS in tx.scalar(sa.select(documents.c.metadata).where(documents.c.id == document_id))

    def _want_again(self, incoming: Incoming) -> None:
        """Have the file sent again, although it did not change."""
        with self._store.write(incoming.actor.organization_id) as tx:
            tx.execute(sa.update(sources).where(tx.owns(sources), sources.c.source == incoming.source).values(modified_ns=None))

    def _add_attachment(self, outer: Incoming, parent_id: int, file: Attachment) -> dict[str, Any]:
        path = f"{outer.path}/{file.name}"
        source = f"{outer.source}{INSIDE}{file.name}" if outer.source else None
        metadata = {"parent_id": parent_id, "parent_path": outer.path}
        kept = {"tags": outer.fields.tags, "doc_type": outer.fields.doc_type, "trust": outer.fields.trust}
        fields = FileFields(**kept, path=path, source=source, metadata=metadata)
        inner = Incoming(file.data, PurePosixPath(file.name).name, fields, outer.actor, now(), depth=outer.depth + 1)
        try:
            outcome = self.add(inner)
        except (ExtractionFailed, PayloadTooLarge, MutationRefused) as error:
            return {"path": path, "status": "failed", "reason": error.message, "job_id": error.details.get("job_id")}
        return {"path": path, "status": outcome.status, "document_id": outcome.document_id}

    def _add(self, incoming: Incoming) -> tuple[Outcome, Extracted | None]:
        """Add the content, update the document that came from the same source, or find it already there."""
        limit = self._settings.max_file_bytes
        if len(incoming.data) > limit:
            size = len(incoming.data)
            message = f"{incoming.filename} has {size} bytes; at most {limit} are allowed (KB_MAX_FILE_BYTES)"
            raise self._recorded(PayloadTooLarge(message), incoming)
        with self._store.read(incoming.actor.organization_id) as tx:
            known = self._known(tx, incoming)
        if known.unchanged:
            return self._unchanged(known.unchanged, incoming), None
        ready = self._prepare(incoming, known)
        try:
            with self._store.write(incoming.actor.organization_id) as tx:
                known = self._known(tx, incoming)
                if known == Known():
                    return self._insert(tx, incoming, ready), ready.extracted
            if known.unchanged:
                return self._unchanged(known.unchanged, incoming), None
            assert known.changed is not None
            return self._replace(known.changed, incoming, ready), ready.extracted
        finally:
            ready.staged.unlink(missing_ok=True)

    # Before the write

    def _known(self, tx: Tx, incoming: Incoming) -> Known:
        """Notes are not files: two people may note the same."""
        if incoming.is_note:
            return Known()
        digest = incoming.content_hash
        if incoming.source is not None:
            owner = sa.select(sources.c.document_id, sources.c.content_hash)
            row = tx.execute(owner.where(tx.owns(sources), sources.c.source == incoming.source)).first()
            if row is not None and row.content_hash == digest:
                return Known(unchanged=row.document_id)
            if row is not None and not self._shared(tx, row.document_id, incoming.source):
                return Known(changed=row.document_id)
        same = sa.select(documents.c.id).where(
            tx.owns(documents), documents.c.content_hash == digest, documents.c.path.is_not(None)
        )
        return Known(unchanged=tx.scalar(same.order_by(documents.c.id).limit(1)))

    def _shared(self, tx: Tx, document_id: int, source: str) -> bool:
        """Whether the document also came from elsewhere: then a change in one place must not change the other."""
        others = sa.select(sources.c.source).where(
            tx.owns(sources), sources.c.document_id == document_id, sources.c.source != source
        )
        return tx.execute(others.limit(1)).first() is not None

    def _prepare(self, incoming: Incoming, known: Known) -> Ready:
        try:
            extracted = self._extract(incoming)
            pieces = self._chunk(extracted)
            title = incoming.fields.title or extracted.title or title_of(extracted.text, incoming.path)
            vectors = self._embed(title, pieces, known, incoming.actor)
        except KBError as error:
            raise self._recorded(error, incoming) from error
        if extracted.attachments:
            extracted = extracted._replace(metadata={**extracted.metadata, HOLDS: len(extracted.attachments)})
        return Ready(extracted, pieces, vectors, *self._files.stage(incoming.data))

    def _embed(self, title: str, pieces: list[ChunkText], known: Known, actor: Actor) -> dict[str, bytes]:
        """Vectors of the chunks that are new, by content hash; none where another model's vectors are in use."""
        there = self._hashes(known.changed, actor) if known.changed else set()
        texts = {content_hash(piece.content): embedded_text(title, piece.content, piece.metadata) for piece in pieces}
        new = {digest: text for digest, text in texts.items() if digest not in there}
        encoded = self._embedding.encode(list(new.values())) if new else None
        return dict(zip(new, encoded, strict=True)) if encoded else {}

    def _hashes(self, document_id: int, actor: Actor) -> set[str]:
        with self._store.read(actor.organization_id) as tx:
            return set(tx.connection.scalars(sa.select(chunks.c.content_hash).where(chunks.c.document_id == document_id)))

    def _extract(self, incoming: Incoming) -> Extracted:
        if incoming.is_note:
            return Extracted(incoming.data.decode(), media="markdown", markdown=True)
        return self._extraction.extract(incoming.data, incoming.filename, incoming.depth)

    def _chunk(self, extracted: Extracted) -> list[ChunkText]:
        chunker = self._plugins.chunkers.get(self._settings.chunker)
        if chunker is None:
            raise ConfigInvalid(f"KB_CHUNKER names {self._settings.chunker!r}, which no plugin provides")
        return resolve(chunker.target)(extracted)

    # The write

    def _insert(self, tx: Tx, incoming: Incoming, ready: Ready) -> Outcome:
        fields, extracted = incoming.fields, ready.extracted
        job_id, job_uuid = self._job(tx, incoming)
        title = fields.title or extracted.title or title_of(extracted.text, incoming.path)
        values = {
            "doc_type": fields.doc_type,
            "title": title,
            "path": incoming.path,
            "media": extracted.media,
            "lang": fields.lang or language_of(extracted.text),
            "trust": fields.trust,
            "metadata": {**extracted.metadata, **fields.metadata},
            "content_hash": incoming.content_hash,
            "bytes": len(incoming.data),
            "file": ready.key,
        }
        tags = [*extracted.tags, *fields.tags]
        document_id = insert_document(tx, values, tags, ready.pieces, job_uuid, ready.vectors, self._space(tx, ready))
        self._finish(tx, incoming, ready, document_id, job_id, title)
        added = sa.select(documents.c.id).where(documents.c.id == document_id)
        self._plugins.documents_changed(Changes("added", incoming.actor, added, 1), tx)
        # Last, when nothing but the commit can fail any more.
        self._files.publish(ready.key, ready.staged)
        return Outcome(document_id, job_id, "added")

    def _replace(self, document_id: int, incoming: Incoming, ready: Ready) -> Outcome:
        operation = Replace(self, incoming, ready)
        result = self._mutation.run("replace", operation, documents.c.id == document_id, incoming.actor)
        if result.failed or not result.matched:
            reason = result.errors[0]["error"] if result.errors else "the document is withheld"
            raise self._recorded(MutationRefused(f"not updated: {reason}", document_id=document_id), incoming)
        return Outcome(document_id, operation.job_id, "updated")

    def rewrite(self, tx: Tx, document_id: int, incoming: Incoming, ready: Ready) -> int:
        """Give the document its new content, inside the mutation's transaction; the job's id. What a person set, stays."""
        fields, extracted = incoming.fields, ready.extracted
        old = tx.execute(
            sa.select(documents.c.title, documents.c.metadata, documents.c.file).where(documents.c.id == document_id)
        ).one()
        derived = tx.scalar(sa.select(sources.c.title).where(tx.owns(sources), sources.c.source == incoming.source))
        title = fields.title or extracted.title or title_of(extracted.text, incoming.path)
        values: dict[str, Any] = {
            "title": title if old.title == derived or fields.title else old.title,
            "path": incoming.path,
            "media": extracted.media,
            "lang": fields.lang or language_of(extracted.text),
            "metadata": {**old.metadata, **extracted.metadata, **fields.metadata},
            "content_hash": incoming.content_hash,
            "bytes": len(incoming.data),
            "file": ready.key,
        }
        if old.file != ready.key:
            release_files(tx, sa.select(documents.c.id).where(documents.c.id == document_id))
        job_id, job_uuid = self._job(tx, incoming)
        replace_content(tx, document_id, values, ready.pieces, job_uuid, ready.vectors, self._space(tx, ready))
        self._finish(tx, incoming, ready, document_id, job_id, title)
        self._files.publish(ready.key, ready.staged)
        return job_id

    def _finish(self, tx: Tx, incoming: Incoming, ready: Ready, document_id: int, job_id: int, title: str) -> None:
        tx.execute(sa.update(jobs).where(jobs.c.id == job_id).values(document_id=document_id))
        self._remember(tx, incoming, document_id, title)
        tx.execute(sa.delete(file_removals).where(file_removals.c.key == ready.key))

    def _job(self, tx: Tx, incoming: Incoming) -> tuple[int, str]:
        job_id = self._insert_job(tx, incoming, status="done", succeeded=1, failed=0)
        return job_id, tx.scalar(sa.select(jobs.c.uuid).where(jobs.c.id == job_id))

    def _insert_job(self, tx: Tx, incoming: Incoming, **values: Any) -> int:
        named = incoming.path or incoming.fields.title
        return insert_job(tx, incoming.actor, "ingest", filename=named, created_at=incoming.started, matched=1, **values)

    def _space(self, tx: Tx, ready: Ready) -> Space | None:
        try:
            return self._embedding.space_for_writing(tx) if ready.vectors else None
        except EmbedderUnavailable:
            # Another model's vectors are here: the text is searchable at once, its vectors come with `kb reindex`.
            return None

    def _remember(self, tx: Tx, incoming: Incoming, document_id: int, title: str | None = None) -> None:
        """Note where the document came from, so that the file need not be read again while it does not change."""
        if incoming.source is None:
            return
        here = (tx.owns(sources), sources.c.source == incoming.source)
        before = tx.execute(sa.select(sources.c.title, sources.c.document_id).where(*here)).first()
        tx.execute(sa.delete(sources).where(*here))
        if before is not None and before.document_id != document_id:
            take_path(tx, before.document_id)
        fallback = sa.select(documents.c.title).where(documents.c.id == document_id)
        row = {
            "organization_id": tx.organization_id,
            "source": incoming.source,
            "document_id": document_id,
            "path": incoming.path,
            "size": len(incoming.data),
            "modified_ns": getattr(incoming.fields, "modified_ns", None),
            "content_hash": incoming.content_hash,
            "title": title or (before.title if before else None) or tx.scalar(fallback),
            "seen_at": now(),
        }
        tx.execute(sa.insert(sources).values(row))

    def _unchanged(self, document_id: int, incoming: Incoming) -> Outcome:
        with self._store.write(incoming.actor.organization_id) as tx:
            self._remember(tx, incoming, document_id)
            job_id = self._insert_job(tx, incoming, status="duplicate", document_id=document_id, succeeded=1, failed=0)
        return Outcome(document_id, job_id, "unchanged")

    def _recorded(self, error: KBError, incoming: Incoming) -> KBError:
        """The same error, with the failed job that tells of it."""
        with self._store.write(incoming.actor.organization_id) as tx:
            job_id = self._insert_job(tx, incoming, status="failed", error=error.message, succeeded=0, failed=1)
        error.details["job_id"] = job_id
        return error


class Replace:
    """The mutation that gives one document the content of a changed file."""

    def __init__(self, ingest: Ingest, incoming: Incoming, ready: Ready) -> None:
        self._ingest = ingest
        self._incoming = incoming
        self._ready = ready
        self.job_id = 0

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        (document_id,) = tx.connection.scalars(documents)
        self.job_id = self._ingest.rewrite(tx, document_id, self._incoming, self._ready)


def title_of(text: str, path: str | None) -> str:
    """A file's name, or a note's first words."""
    if path:
        return PurePosixPath(path).name
    line = next(line for line in text.splitlines() if line.strip())
    words = re.sub(r"^[#>*\-\s]+", "", line).strip() or line.strip()
    return words if len(words) <= 80 else words[:79].rstrip() + "…"
