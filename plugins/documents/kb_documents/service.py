"""The work of the documents plugin, free of any edge."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import sqlalchemy as sa

from kb_documents.ingest import Ingest, Outcome
from kb_documents.ingest_queue import IngestQueue
from kb_documents.models import (
    Added,
    AddedItem,
    Changed,
    Document,
    DocumentPatch,
    FileFields,
    Job,
    NoteIn,
)
from kb_documents.mutations import ChangeTags, Delete, SetTags, Update
from kb_documents.prepare import Incoming
from kb_documents.source_models import Source, SourceList
from kb_documents.tables import sources
from kb_framework.api import Actor, MutationResult, Selection
from kb_framework.errors import Busy, Conflict, InvalidInput, KBError, MutationRefused, NotFound, StoreUnusable
from kb_framework.files import Files
from kb_framework.mutation import Mutation
from kb_framework.paging import Page, PageMeta
from kb_framework.plugins import Plugins
from kb_framework.store.chunks import chunk_columns, readable
from kb_framework.store.documents import has_all_tags
from kb_framework.store.jobs import select_jobs
from kb_framework.store.sql import among
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import chunks, document_tags, documents, file_removals, now
from kb_framework.validation import validate

log = logging.getLogger("kb.documents")

SORTS = ("id", "title", "created_at", "updated_at", "bytes", "doc_type")
_SWEEP = 500


class StoredFile(NamedTuple):
    name: str
    size: int
    digest: str
    parts: Iterator[bytes]


class DocumentsService:
    def __init__(
        self,
        store: Store,
        files: Files,
        plugins: Plugins,
        mutation: Mutation,
        ingest: Ingest,
        ingest_queue: IngestQueue,
    ) -> None:
        self._store = store
        self._files = files
        self._plugins = plugins
        self._mutation = mutation
        self._ingest = ingest
        self._queue = ingest_queue
        try:
            files.remove_abandoned(ingest_queue.waiting())
            self.remove_files()
        except (Busy, StoreUnusable) as error:
            # Whoever only wants to read must not be kept from it.
            log.warning("the files of deleted documents could not be removed and will be tried again: %s", error.message)

    # In

    def add_note(self, note: NoteIn, actor: Actor) -> Added:
        return self._add(Incoming(note.text.encode(), "note.md", note, actor, now(), is_note=True))

    def add_file(self, data: bytes, filename: str, fields: FileFields, actor: Actor) -> Added:
        return self._add(Incoming(data, filename, fields, actor, now()))

    def queue_file(self, data: bytes, filename: str, fields: FileFields, actor: Actor) -> Job:
        """Keep a file for a worker, which makes a document of it."""
        return self._queue.put(data, filename, fields, actor)

    def add_files(self, files: Iterable[tuple[bytes, str, dict[str, Any]]], actor: Actor) -> list[AddedItem]:
        """Add several files, written together; one that is refused is told alone. What is nobody's fault stops all."""
        read = [self._incoming(*file, actor) for file in files]
        outcomes = iter(self._ingest.add([item for item in read if isinstance(item, Incoming)]))
        results = [next(outcomes) if isinstance(item, Incoming) else item for item in read]
        for result in results:
            if isinstance(result, KBError) and result.http_status >= 500:
                raise result
        added = iter(self._added([result for result in results if isinstance(result, Outcome)], actor))
        return [
            AddedItem(response=next(added)) if isinstance(result, Outcome) else AddedItem(error=result.flat())
            for result in results
        ]

    def _incoming(self, data: bytes, filename: str, fields: dict[str, Any], actor: Actor) -> Incoming | KBError:
        try:
            return Incoming(data, filename, validate(FileFields, fields), actor, now())
        except InvalidInput as error:
            return error

    def _add(self, incoming: Incoming) -> Added:
        (outcome,) = self._ingest.add([incoming])
        if isinstance(outcome, KBError):
            raise outcome
        return self._added([outcome], incoming.actor)[0]

    def _added(self, outcomes: Sequence[Outcome], actor: Actor) -> list[Added]:
        # Whoever adds a document sees what became of it, whatever plugins withhold from then on.
        ids = {outcome.document_id for outcome in outcomes}
        numbers = [outcome.job_id for outcome in outcomes]

        def made(tx: Tx) -> tuple[list[Document], list[dict[str, Any]]]:
            every = select_jobs(tx).subquery()
            jobs = tx.rows(sa.select(every).where(among(every.c.id, numbers)))
            return self._documents(tx, sa.select(documents).where(among(documents.c.id, ids))), jobs

        there, rows = self._store.look(actor.organization_id, made)
        found, jobs = {item.id: item for item in there}, {row["id"]: row for row in rows}
        return [
            Added(
                document=found[outcome.document_id],
                job=Job.model_validate(jobs[outcome.job_id]),
                status=outcome.status,
                duplicate=outcome.status == "unchanged",
                attachments=list(outcome.attachments),
            )
            for outcome in outcomes
        ]

    # Out

    def get(self, document_id: int, actor: Actor) -> Document:
        def documents_here(tx: Tx) -> list[Document]:
            here = (documents.c.id == document_id, *self._visible(tx, actor))
            return self._documents(tx, sa.select(documents).where(*here))

        found = self._store.look(actor.organization_id, documents_here)
        if not found:
            raise NotFound(f"there is no document {document_id}", document_id=document_id)
        return found[0]

    def list(
        self,
        actor: Actor,
        page: Page,
        tags: Sequence[str] = (),
        doc_type: str | None = None,
        q: str | None = None,
        sort: str = "id",
    ) -> tuple[list[Document], PageMeta]:
        column = sort.removeprefix("-")
        if column not in SORTS:
            raise InvalidInput(f"sort: must be one of {', '.join(SORTS)}, with - for descending", field="sort")
        conditions = [has_all_tags(tags)] if tags else []
        if doc_type is not None:
            conditions.append(documents.c.doc_type == doc_type)
        if q:
            conditions.append(documents.c.title.icontains(q, autoescape=True) | documents.c.path.icontains(q, autoescape=True))
        order = [documents.c[column].desc() if sort.startswith("-") else documents.c[column], documents.c.id]
        with self._store.read(actor.organization_id) as tx:
            conditions += self._visible(tx, actor)
            count = sa.select(sa.func.count()).select_from(documents).where(tx.owns(documents), *conditions)
            query = sa.select(documents).where(*conditions).order_by(*order)
            found = self._documents(tx, page.cut(query))
            return found, page.meta(tx.scalar(count))

    def sources(self, document_id: int, actor: Actor) -> SourceList:
        """Where a document was read from; nothing for a note."""
        self.get(document_id, actor)
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(sources.c.source, sources.c.path).where(tx.owns(sources), sources.c.document_id == document_id)
            return SourceList(data=[Source(source=row[0], path=row[1]) for row in tx.execute(query.order_by(sources.c.source))])

    def chunks(self, document_id: int, actor: Actor) -> list[dict[str, Any]]:
        self.get(document_id, actor)
        query = sa.select(*chunk_columns(self._plugins)).select_from(
            chunks.join(documents, documents.c.id == chunks.c.document_id)
        )
        with self._store.read(actor.organization_id) as tx:
            here = (tx.owns(chunks), chunks.c.document_id == document_id, *readable(self._plugins, actor, tx))
            return [dict(row) for row in tx.rows(query.where(*here).order_by(chunks.c.chunk_index))]

    def file(self, document_id: int, actor: Actor) -> StoredFile:
        """A document's stored file, and the name to offer it under."""
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(documents.c.file, documents.c.path, documents.c.media)
            here = (tx.owns(documents), documents.c.id == document_id, *self._visible(tx, actor))
            row = tx.execute(query.where(*here)).first()
        size = self._files.size(row.file) if row and row.file else None
        if row is None or size is None:
            raise NotFound(f"there is no stored file for document {document_id}", document_id=document_id)
        name = PurePosixPath(row.path).name if row.path else f"document-{document_id}.md"
        parts = self._files.parts(row.file)
        # The first part is read now, so that what cannot be read still becomes an error with a status.
        return StoredFile(name, size, row.file[3:], chain([next(parts, b"")], parts))

    def _visible(self, tx: Tx, actor: Actor) -> list[sa.ColumnElement[bool]]:
        """What no plugin withholds: a document that no operation may touch is not shown either."""
        return self._plugins.narrow_selection(Selection({}), actor, "read", tx)

    def _documents(self, tx: Tx, query: sa.Select) -> list[Document]:
        rows = tx.rows(query.where(tx.owns(documents)))
        tags: dict[int, list[str]] = {row["id"]: [] for row in rows}
        links = sa.select(document_tags.c.document_id, document_tags.c.tag)
        for number, tag in tx.execute(links.where(among(document_tags.c.document_id, list(tags))).order_by(document_tags.c.tag)):
            tags[number].append(tag)
        return [Document.model_validate({**row, "tags": tags[row["id"]]}) for row in rows]

    # Changes: each is a plan of one for the host's pipeline

    def delete(self, document_id: int, actor: Actor) -> None:
        self._change_one("delete", Delete(), document_id, actor)

    def set_tags(self, document_id: int, tags: list[str], actor: Actor) -> Document:
        self._change_one("set_tags", SetTags(new_tags=tags), document_id, actor)
        return self.get(document_id, actor)

    def update(self, document_id: int, patch: DocumentPatch, actor: Actor) -> Document:
        fields = patch.model_dump(exclude_none=True)
        if not fields:
            raise InvalidInput("give at least one of title, doc_type, metadata, trust", field="body")
        self._change_one("update", Update(**fields), document_id, actor)
        return self.get(document_id, actor)

    def _change_one(self, kind: str, operation: Any, document_id: int, actor: Actor) -> None:
        result = self._mutation.run(kind, operation, documents.c.id == document_id, actor)
        if not result.matched:
            raise NotFound(f"there is no document {document_id}", document_id=document_id)
        if result.failed:
            raise MutationRefused(result.errors[0]["error"], document_id=document_id)

    # Tags

    def tags(self, actor: Actor, page: Page) -> tuple[list[dict[str, Any]], PageMeta]:
        count = sa.func.count()
        with self._store.read(actor.organization_id) as tx:
            grouped = sa.select(document_tags.c.tag, count.label("count")).where(tx.owns(document_tags))
            grouped = grouped.group_by(document_tags.c.tag)
            total = tx.scalar(sa.select(count).select_from(grouped.subquery()))
            rows = tx.rows(page.cut(grouped.order_by(count.desc(), document_tags.c.tag)))
        return [dict(row) for row in rows], page.meta(total)

    def rename_tag(self, old: str, new: str, actor: Actor) -> Changed:
        with self._store.read(actor.organization_id) as tx:
            taken = tx.scalar(sa.select(document_tags.c.tag).where(tx.owns(document_tags), document_tags.c.tag == new))
        if taken is not None:
            raise Conflict(f"the tag {new!r} is in use", hint="merge the tags instead", field="new")
        return self.merge_tags([old], new, actor)

    def merge_tags(self, tags: list[str], into: str, actor: Actor) -> Changed:
        """Give every document that has one of the tags the one tag instead."""
        old = [tag for tag in tags if tag != into]
        if not old:
            raise InvalidInput("tags: nothing to merge", field="tags")
        having = sa.select(document_tags.c.document_id).where(among(document_tags.c.tag, old))
        result = self._mutation.run("tags", ChangeTags(add=[into], remove=old), documents.c.id.in_(having), actor)
        if not result.matched:
            raise NotFound(f"no document has the tag {old[0]!r}" if len(old) == 1 else "no document has any of the tags")
        return _changed(result)

    # Jobs

    def jobs(
        self, actor: Actor, page: Page, job_type: str | None = None, status: str | None = None
    ) -> tuple[list[Job], PageMeta]:
        with self._store.read(actor.organization_id) as tx:
            found = select_jobs(tx).subquery()
            conditions = [found.c[name] == value for name, value in (("job_type", job_type), ("status", status)) if value]
            total = tx.scalar(sa.select(sa.func.count()).select_from(found).where(*conditions))
            query = sa.select(found).where(*conditions).order_by(found.c.id.desc())
            rows = tx.rows(page.cut(query))
        return [Job.model_validate(row) for row in rows], page.meta(total)

    def job(self, job_id: int, actor: Actor) -> Job:
        with self._store.read(actor.organization_id) as tx:
            found = select_jobs(tx).subquery()
            rows = tx.rows(sa.select(found).where(found.c.id == job_id))
        if not rows:
            raise NotFound(f"there is no job {job_id}", job_id=job_id)
        return Job.model_validate(rows[0])

    # Files of deleted documents

    def remove_files(self) -> None:
        """Delete the files that no document refers to any more. What fails is logged and tried again at the next start."""
        with self._store.read() as tx:
            waiting = list(tx.connection.scalars(sa.select(file_removals.c.key)))
        # Whoever reads the files of a moment finds them all: what is not removed now is removed with the next ones.
        if not waiting or self._files.is_pinned():
            return
        for keys in _batches(waiting, _SWEEP):
            # Under the write lock: a file that is just being added again is either seen here or published after this.
            with self._store.write() as tx:
                used = set(tx.connection.scalars(sa.select(documents.c.file).where(among(documents.c.file, keys))))
                done = [*used, *self._removed([key for key in keys if key not in used])]
                tx.execute(sa.delete(file_removals).where(among(file_removals.c.key, done)))

    def _removed(self, keys: list[str]) -> list[str]:
        """Remove files, all at once if that works; those that are gone."""
        try:
            self._files.remove_all(keys)
        except (OSError, ValueError):
            return [key for key in keys if self._remove_file(key)]
        except StoreUnusable as error:
            # It is away as a whole: asking for each file would take long, and nobody else writes meanwhile.
            log.warning("%s stored files could not be removed and will be tried again: %s", len(keys), error.message)
            return []
        return keys

    def _remove_file(self, key: str) -> bool:
        try:
            self._files.remove(key)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            log.warning("a stored file could not be removed and will be tried again: %s: %s", key, reason)
            return False
        return True


def _changed(result: MutationResult) -> Changed:
    return Changed(matched=result.matched, succeeded=result.succeeded, failed=result.failed, errors=result.errors)


def _batches(items: list[str], size: int) -> Iterator[list[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))
