"""The work of the documents plugin, free of any edge."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

import sqlalchemy as sa
from kb_files.api import Integrity

from kb_documents.document_rows import has_all_tags
from kb_documents.ingest import Ingest, Outcome
from kb_documents.ingest_queue import IngestQueue
from kb_documents.missing import SINCE, is_missing, not_missing
from kb_documents.models import (
    Added,
    AddedItem,
    Changed,
    Document,
    DocumentPatch,
    FileFields,
    Job,
    NoteIn,
    SampleTitle,
    TagPreview,
)
from kb_documents.mutations import ChangeTags, Delete, SetTags, Update
from kb_documents.prepare import Incoming
from kb_documents.source_models import Source, SourceList
from kb_documents.tables import sources
from kb_framework.api import Actor, Selection
from kb_framework.errors import (
    Busy,
    Conflict,
    InvalidInput,
    KBError,
    MutationRefused,
    NotFound,
    StoreUnusable,
)
from kb_framework.files import PART, Files
from kb_framework.nesting import PROBLEM
from kb_framework.paging import Page, PageMeta
from kb_framework.pipelines.mutation import Mutation
from kb_framework.pipelines.promises import Fingerprint, Promise
from kb_framework.plugins import Plugins
from kb_framework.storage.chunks import chunk_columns, readable
from kb_framework.storage.hints import why_empty
from kb_framework.storage.jobs import select_jobs
from kb_framework.storage.sql import among
from kb_framework.storage.store import Store, Tx
from kb_framework.storage.tables import chunks, document_tags, documents, file_removals, now
from kb_framework.validation import validate

log = logging.getLogger("kb.documents")

SORTS = ("id", "title", "created_at", "updated_at", "bytes", "doc_type")
_SWEEP = 500
_SAMPLE = 10


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
        self._integrity = Integrity(store, files)
        self._plugins = plugins
        self._mutation = mutation
        self._ingest = ingest
        self._queue = ingest_queue
        try:
            files.remove_abandoned(ingest_queue.waiting())
            self.remove_files()
        except (Busy, StoreUnusable) as error:
            # Whoever only wants to read must not be kept from it.
            log.warning(
                "the files of deleted documents could not be removed and will be tried again: %s",
                error.message,
            )

    # In

    def add_note(self, note: NoteIn, actor: Actor) -> Added:
        return self._add(Incoming(note.text.encode(), "note.md", note, actor, now(), is_note=True))

    def add_file(self, data: bytes, filename: str, fields: FileFields, actor: Actor) -> Added:
        return self._add(Incoming(data, filename, fields, actor, now()))

    def queue_file(self, data: bytes, filename: str, fields: FileFields, actor: Actor) -> Job:
        """Keep a file for a worker, which makes a document of it."""
        return self._queue.put(data, filename, fields, actor)

    def add_files(
        self, files: Iterable[tuple[bytes, str, dict[str, Any]]], actor: Actor
    ) -> list[AddedItem]:
        """Add several files, written together; one that is refused is told alone. What is nobody's fault stops all."""
        read = [self._incoming(*file, actor) for file in files]
        outcomes = iter(self._ingest.add([item for item in read if isinstance(item, Incoming)]))
        results = [next(outcomes) if isinstance(item, Incoming) else item for item in read]
        for result in results:
            if isinstance(result, KBError) and result.http_status >= 500:
                raise result
        added = iter(
            self._added([result for result in results if isinstance(result, Outcome)], actor)
        )
        return [
            AddedItem(response=next(added))
            if isinstance(result, Outcome)
            else AddedItem(error=result.flat())
            for result in results
        ]

    def _incoming(
        self, data: bytes, filename: str, fields: dict[str, Any], actor: Actor
    ) -> Incoming | KBError:
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
                tags_added=list(outcome.tags_added),
                returned=outcome.returned,
                is_copy=outcome.is_copy,
                attachments=list(outcome.attachments),
            )
            for outcome in outcomes
        ]

    # Out

    def get(self, document_id: int, actor: Actor) -> Document:
        def documents_here(tx: Tx) -> list[Document]:
            here = (
                documents.c.id == document_id,
                *self._visible(tx, actor, document_ids=[document_id]),
            )
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
        missing: bool = False,
    ) -> tuple[list[Document], PageMeta, str | None]:
        """A page of documents; where nothing matches, also why."""
        column = sort.removeprefix("-")
        if column not in SORTS:
            raise InvalidInput(
                f"sort: must be one of {', '.join(SORTS)}, with - for descending", field="sort"
            )
        conditions = [has_all_tags(tags)] if tags else []
        if doc_type is not None:
            conditions.append(documents.c.doc_type == doc_type)
        if q:
            texts = (documents.c.title, documents.c.path, sources.c.path)
            in_title, in_path, in_source = (text.icontains(q, autoescape=True) for text in texts)
            # A copy is a source of the document, and its path is found too.
            conditions.append(
                in_title
                | in_path
                | documents.c.id.in_(sa.select(sources.c.document_id).where(in_source))
            )
        order = [
            documents.c[column].desc() if sort.startswith("-") else documents.c[column],
            documents.c.id,
        ]
        with self._store.read(actor.organization_id) as tx:
            conditions += (
                [is_missing(True), *self._visible(tx, actor, missing=True)]
                if missing
                else self._visible(tx, actor)
            )
            count = (
                sa.select(sa.func.count())
                .select_from(documents)
                .where(tx.owns(documents), *conditions)
            )
            query = sa.select(documents).where(*conditions).order_by(*order)
            found, meta = self._documents(tx, page.cut(query)), page.meta(tx.scalar(count))
            hint = (
                None if meta.total else why_empty(tx, {"tags": tags, "doc_type": doc_type, "q": q})
            )
            return found, meta, hint

    def sources(self, document_id: int, actor: Actor) -> SourceList:
        """Where a document was read from; nothing for a note."""
        self.get(document_id, actor)
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(sources.c.source, sources.c.path).where(
                tx.owns(sources), sources.c.document_id == document_id
            )
            return SourceList(
                data=[
                    Source(source=row[0], path=row[1])
                    for row in tx.execute(query.order_by(sources.c.source))
                ]
            )

    def chunks(self, document_id: int, actor: Actor) -> list[dict[str, Any]]:
        self.get(document_id, actor)
        query = sa.select(*chunk_columns(self._plugins)).select_from(
            chunks.join(documents, documents.c.id == chunks.c.document_id)
        )
        with self._store.read(actor.organization_id) as tx:
            here = (
                tx.owns(chunks),
                chunks.c.document_id == document_id,
                *readable(self._plugins, actor, tx),
            )
            return [dict(row) for row in tx.rows(query.where(*here).order_by(chunks.c.chunk_index))]

    def file(self, document_id: int, actor: Actor) -> StoredFile:
        """A document's stored file, and the name to offer it under."""
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(documents.c.id, documents.c.title, documents.c.path, documents.c.file)
            here = (
                tx.owns(documents),
                documents.c.id == document_id,
                *self._visible(tx, actor, document_ids=[document_id]),
            )
            row = tx.execute(query.where(*here)).first()
        if row is None or row.file is None or self._files.size(row.file) is None:
            raise NotFound(
                f"there is no stored file for document {document_id}", document_id=document_id
            )
        name = PurePosixPath(row.path).name if row.path else f"document-{document_id}.md"
        # A copy that was verified before the first byte is sent, so that a damaged file is an error with a status.
        copy = self._integrity.open_file(row.file, row._mapping)
        size = copy.seek(0, os.SEEK_END)
        copy.seek(0)
        return StoredFile(name, size, row.file[3:], _parts(copy))

    def _visible(self, tx: Tx, actor: Actor, **filters: Any) -> list[sa.ColumnElement[bool]]:
        """The conditions of plugins that withhold documents: a document that no operation may touch is not shown either."""
        return self._plugins.narrow_selection(Selection(filters), actor, "read", tx)

    def _documents(self, tx: Tx, query: sa.Select) -> list[Document]:
        rows = tx.rows(query.add_columns(SINCE).where(tx.owns(documents)))
        tags: dict[int, list[str]] = {row["id"]: [] for row in rows}
        links = sa.select(document_tags.c.document_id, document_tags.c.tag)
        for number, tag in tx.execute(
            links.where(among(document_tags.c.document_id, list(tags))).order_by(
                document_tags.c.tag
            )
        ):
            tags[number].append(tag)
        return [
            Document.model_validate(
                {**row, "metadata": _shown(row["metadata"]), "tags": tags[row["id"]]}
            )
            for row in rows
        ]

    # Changes: each is a plan of one for the host's pipeline

    def delete(self, document_id: int, actor: Actor) -> None:
        self._change_one("delete", Delete(), document_id, actor)

    def set_tags(self, document_id: int, tags: list[str], actor: Actor) -> Document:
        self._change_one("set_tags", SetTags(new_tags=tags), document_id, actor)
        return self.get(document_id, actor)

    def update(self, document_id: int, patch: DocumentPatch, actor: Actor) -> Document:
        fields = patch.model_dump(exclude_none=True)
        if not fields:
            raise InvalidInput(
                "give at least one of title, doc_type, metadata, trust", field="body"
            )
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
            grouped = sa.select(document_tags.c.tag, count.label("count")).where(
                tx.owns(document_tags), not_missing(tx)
            )
            grouped = grouped.group_by(document_tags.c.tag)
            total = tx.scalar(sa.select(count).select_from(grouped.subquery()))
            rows = tx.rows(page.cut(grouped.order_by(count.desc(), document_tags.c.tag)))
        return [dict(row) for row in rows], page.meta(total)

    def rename_tag(self, old: str, new: str, actor: Actor) -> Changed:
        """Rename a tag that has an unused name to go to. It can be renamed back, so the threshold does not apply."""
        return self._replace_tags([old], new, actor, force=True, promise=_Unused(old, new))

    def merge_tags(
        self, tags: list[str], into: str, actor: Actor, *, force: bool = False
    ) -> Changed:
        """Give every document that has one of the tags the one tag instead. Nothing tells them apart afterwards."""
        return self._replace_tags(tags, into, actor, force=force)

    def preview_merge(self, tags: list[str], into: str, actor: Actor) -> TagPreview:
        old = _merged(tags, into)
        kind = self._mutation.kind("tags")
        with self._store.read(actor.organization_id) as tx:
            where, selection = _having(old), {"any_tags": old}
            found = self._mutation.matching(
                tx, kind, [documents.c.id, documents.c.title], where, actor, selection
            )
            matched = tx.scalar(sa.select(sa.func.count()).select_from(found.subquery()))
            share = self._mutation.share(tx, kind, matched, actor, selection)
            sample = tx.rows(found.order_by(documents.c.id).limit(_SAMPLE))
        return TagPreview(
            matched=share.matched,
            total=share.total,
            percent=share.percent,
            threshold=share.threshold,
            exceeds=share.exceeds,
            sample=[SampleTitle.model_validate(row) for row in sample],
        )

    def _replace_tags(
        self,
        tags: list[str],
        into: str,
        actor: Actor,
        *,
        force: bool,
        promise: Promise | None = None,
    ) -> Changed:
        old = _merged(tags, into)
        operation = ChangeTags(add=[into], remove=old)
        result = self._mutation.run(
            "tags",
            operation,
            _having(old),
            actor,
            selection={"any_tags": old},
            force=force,
            promise=promise or _Used(old),
        )
        assert result.job_id is not None
        return Changed(
            matched=result.matched,
            succeeded=result.succeeded,
            failed=result.failed,
            errors=result.errors,
            job_id=result.job_id,
        )

    # Jobs

    def jobs(
        self, actor: Actor, page: Page, job_type: str | None = None, status: str | None = None
    ) -> tuple[list[Job], PageMeta]:
        with self._store.read(actor.organization_id) as tx:
            found = select_jobs(tx).subquery()
            conditions = [
                found.c[name] == value
                for name, value in (("job_type", job_type), ("status", status))
                if value
            ]
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
                used = set(
                    tx.connection.scalars(
                        sa.select(documents.c.file).where(among(documents.c.file, keys))
                    )
                )
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
            log.warning(
                "%s stored files could not be removed and will be tried again: %s",
                len(keys),
                error.message,
            )
            return []
        return keys

    def _remove_file(self, key: str) -> bool:
        try:
            self._files.remove(key)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            log.warning(
                "a stored file could not be removed and will be tried again: %s: %s", key, reason
            )
            return False
        return True


class _Used:
    """Refuses, in the transaction of the change, what would change nothing."""

    def __init__(self, tags: list[str]) -> None:
        self._tags = tags

    def earlier(self, tx: Tx) -> None:
        pass

    def require_same(self, found: Fingerprint) -> None:
        if not found.matched:
            raise NotFound(
                f"no document has the tag {self._tags[0]!r}"
                if len(self._tags) == 1
                else "no document has any of the tags"
            )

    def keep(self, tx: Tx, job_id: int) -> None:
        pass


class _Unused(_Used):
    """Refuses a new name that is in use, in the transaction of the renaming."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__([old])
        self._new = new

    def earlier(self, tx: Tx) -> None:
        query = (
            sa.select(document_tags.c.tag)
            .where(tx.owns(document_tags), document_tags.c.tag == self._new)
            .limit(1)
        )
        if tx.scalar(query) is not None:
            raise Conflict(
                f"the tag {self._new!r} is in use", hint="merge the tags instead", field="new"
            )


def _merged(tags: list[str], into: str) -> list[str]:
    old = list(dict.fromkeys(tag for tag in tags if tag != into))
    if not old:
        raise InvalidInput("tags: nothing to merge", field="tags")
    return old


def _having(tags: list[str]) -> sa.ColumnElement[bool]:
    return documents.c.id.in_(
        sa.select(document_tags.c.document_id).where(among(document_tags.c.tag, tags))
    )


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(PART):
            yield part


def _batches(items: list[str], size: int) -> Iterator[list[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _shown(metadata: Any) -> dict[str, Any]:
    return (
        metadata
        if isinstance(metadata, dict)
        else {PROBLEM: "this is not a JSON object, so it cannot be shown"}
    )
