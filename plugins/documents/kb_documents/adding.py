"""Adding notes and files, at once or by a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from kb_documents.document_lists import read_documents
from kb_documents.file_cleanup import FileCleanup
from kb_documents.ingest import Ingest
from kb_documents.ingest_items import Outcome
from kb_documents.ingest_queue import IngestQueue
from kb_documents.models import (
    Added,
    AddedItem,
    AddedList,
    Document,
    FileFields,
    FileIn,
    Job,
    NoteIn,
    QueuedFile,
)
from kb_documents.prepare import Incoming
from kb_framework.api import Actor
from kb_framework.api.jobs import select_jobs
from kb_framework.api.models import Body, validate
from kb_framework.api.parts import Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.api.times import now
from kb_framework.errors import InvalidInput, KBError

# A file's name, its content, and what else is known of it.
SentFile = tuple[str, bytes, dict[str, Any]]


class AddingService:
    def __init__(
        self, store: Store, ingest: Ingest, ingest_queue: IngestQueue, file_cleanup: FileCleanup
    ) -> None:
        self._store = store
        self._ingest = ingest
        self._queue = ingest_queue
        self._cleanup = file_cleanup

    def add_note(self, note: NoteIn, actor: Actor) -> Added:
        return self._add(Incoming(note.text.encode(), "note.md", note, actor, now(), is_note=True))

    def add_file(self, file: FileIn, actor: Actor, content: bytes) -> Added | QueuedFile:
        """Make a document of a file, or keep it for a worker, which makes a document of it."""
        if file.queue:
            return QueuedFile(job=self._queue.put(content, file.filename, file, actor))
        return self.add_content(content, file.filename, file, actor)

    def add_content(self, data: bytes, filename: str, fields: FileFields, actor: Actor) -> Added:
        return self._add(Incoming(data, filename, fields, actor, now()))

    def add_files(self, _: Body, actor: Actor, files: Sequence[SentFile]) -> AddedList:
        """Add several files, written together. A file that is refused fails alone; any other error ends all."""
        read = [self._incoming(file, actor) for file in files]
        ready = [item for item in read if isinstance(item, Incoming)]
        outcomes = iter(self._ingested(ready))
        results = [next(outcomes) if isinstance(item, Incoming) else item for item in read]
        for result in results:
            if isinstance(result, KBError) and result.http_status >= 500:
                raise result
        added = iter(
            self._added([result for result in results if isinstance(result, Outcome)], actor)
        )
        return AddedList(
            results=[
                AddedItem(response=next(added))
                if isinstance(result, Outcome)
                else AddedItem(error=result.flat())
                for result in results
            ]
        )

    def _incoming(self, file: SentFile, actor: Actor) -> Incoming | KBError:
        filename, data, fields = file
        try:
            return Incoming(data, filename, validate(FileFields, fields), actor, now())
        except InvalidInput as error:
            return error

    def _add(self, incoming: Incoming) -> Added:
        (outcome,) = self._ingested([incoming])
        if isinstance(outcome, KBError):
            raise outcome
        return self._added([outcome], incoming.actor)[0]

    def _ingested(self, several: list[Incoming]) -> list[Outcome | KBError]:
        self._cleanup.begin()
        return self._ingest.add(several)

    def _added(self, outcomes: Sequence[Outcome], actor: Actor) -> list[Added]:
        # Who adds a document sees what became of it, whatever plugins withhold from then on.
        ids = {outcome.document_id for outcome in outcomes}
        numbers = [outcome.job_id for outcome in outcomes]

        def made(tx: Tx) -> tuple[list[Document], list[dict[str, Any]]]:
            every = select_jobs(tx).subquery()
            jobs = tx.rows(sa.select(every).where(among(every.c.id, numbers)))
            return read_documents(tx, among(documents.c.id, ids)), jobs

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
