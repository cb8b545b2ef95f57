"""Files that wait to become documents: any number of workers, on any number of machines, take them one by one.

A worker has a file on lease, and renews the lease while it works. What it made of the file, the end of the job and the end of
the lease are one transaction, which fails if the lease is somebody else's by then: so a file becomes a document exactly once,
whoever dies when. The content waits beside the parts of uploads, and goes when the job has ended.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from kb_documents.models import FileFields, Job
from kb_documents.prepare import Incoming, Queued
from kb_documents.tables import ingest_queue
from kb_framework.api import Actor
from kb_framework.api.jobs import finish_job, insert_job, select_jobs
from kb_framework.api.parts import Files, HostSettings, Plugins, Store, Tx
from kb_framework.api.tables import jobs
from kb_framework.api.times import format_time, now
from kb_framework.errors import (
    Busy,
    FilesUnreachable,
    InternalError,
    KBError,
    PayloadTooLarge,
    StoreUnusable,
)

if TYPE_CHECKING:
    from kb_documents.ingest import Ingest
    from kb_documents.ingest_items import Outcome

log = logging.getLogger("kb.worker")

# A file that ends its worker, or fails for no fault of its own, is tried so often.
_ATTEMPTS = 5
_IDLE_SECONDS = 1.0


class Work(NamedTuple):
    """A file that a worker has on lease."""

    queued: Queued
    attempts: int
    filename: str
    bytes: int
    fields: FileFields
    actor: Actor
    created_at: str


class TakenOver(Exception):
    """The lease ran out, and another worker has the file now."""


def settle(tx: Tx, queued: Queued, **values: Any) -> None:
    """End a job with its lease, in the transaction of what the worker made of the file."""
    mine = (ingest_queue.c.id == queued.uuid, ingest_queue.c.lease == queued.lease)
    if tx.execute(sa.delete(ingest_queue).where(*mine)).rowcount != 1:
        raise TakenOver
    finish_job(tx, queued.job_id, **values)


class IngestQueue:
    def __init__(
        self,
        store: Store,
        files: Files,
        plugins: Plugins,
        ingest: Ingest,
        host_settings: HostSettings,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._files = files
        self._ingest = ingest
        self._lease = timedelta(seconds=host_settings.worker_lease)
        self._max_bytes = host_settings.max_file_bytes

    def put(self, data: bytes, filename: str, fields: FileFields, actor: Actor) -> Job:
        """Keep a file for the workers. It is stored before its job can be seen."""
        self._plugins.require_all_loaded()
        if len(data) > self._max_bytes:
            words = f"{filename} has {len(data)} bytes; at most {self._max_bytes} are allowed (KB_MAX_FILE_BYTES)"
            raise PayloadTooLarge(words)
        number = str(uuid.uuid4())
        self._files.put_part(number, 0, data)
        try:
            with self._store.write(actor.organization_id) as tx:
                named = fields.path or filename
                job_id = insert_job(
                    tx,
                    actor,
                    "ingest",
                    uuid=number,
                    status="queued",
                    filename=named,
                    finished_at=None,
                )
                row = {
                    "id": number,
                    "job_id": job_id,
                    "organization_id": actor.organization_id,
                    "filename": filename,
                    "bytes": len(data),
                    "fields": fields.model_dump(include={*FileFields.model_fields}),
                    "actor": {**actor._asdict(), "permissions": sorted(actor.permissions)},
                    "attempts": 0,
                    "created_at": now(),
                }
                tx.execute(sa.insert(ingest_queue).values(row))
                found = select_jobs(tx).subquery()
                (job,) = tx.rows(sa.select(found).where(found.c.id == job_id))
        except BaseException:
            self._files.remove_upload(number)
            raise
        return Job.model_validate(job)

    def run(
        self, stop: threading.Event, *, until_empty: bool = False
    ) -> Iterator[tuple[Work, Outcome | KBError]]:
        """Work until told to stop, or until nothing waits; what became of each file."""
        self._plugins.require_all_loaded()
        while not stop.is_set():
            try:
                work = self._take()
            except (Busy, StoreUnusable) as error:
                log.warning("the queue cannot be read: %s", error.message)
                work = None
                if until_empty:
                    raise
            if work is not None:
                result = self._do(work)
                if result is not None:
                    yield work, result
            elif until_empty:
                return
            else:
                stop.wait(_IDLE_SECONDS)

    def _take(self) -> Work | None:
        """Take the oldest file that nobody has on lease."""
        free = sa.or_(ingest_queue.c.leased_until.is_(None), ingest_queue.c.leased_until < now())
        oldest = (
            sa.select(ingest_queue)
            .where(free)
            .order_by(ingest_queue.c.job_id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        lease = str(uuid.uuid4())
        with self._writing(lease) as tx:
            row = tx.execute(oldest).first()
            if row is None:
                return None
            queued = Queued(row.job_id, row.id, lease)
            here = ingest_queue.c.id == row.id
            taken = {"lease": lease, "leased_until": self._end(), "attempts": row.attempts + 1}
            tx.execute(sa.update(ingest_queue).where(here).values(taken))
            tx.execute(sa.update(jobs).where(jobs.c.id == row.job_id).values(status="running"))
        actor = Actor(**{**row.actor, "permissions": frozenset(row.actor["permissions"])})
        return Work(
            queued,
            row.attempts + 1,
            row.filename,
            row.bytes,
            FileFields(**row.fields),
            actor,
            row.created_at,
        )

    def _do(self, work: Work) -> Outcome | KBError | None:
        ended = threading.Event()
        keeper = threading.Thread(target=self._renew, args=(work.queued, ended.wait), daemon=True)
        keeper.start()
        try:
            result = self._ingested(work)
            self._close(work, result)
        except TakenOver:
            log.warning("job %s was taken over by another worker", work.queued.job_id)
            return None
        except (Busy, StoreUnusable) as error:
            # The lease runs out by itself, and the file is taken again.
            log.warning("job %s has to wait: %s", work.queued.job_id, error.message)
            return error
        finally:
            ended.set()
            keeper.join()
        return result

    def _ingested(self, work: Work) -> Outcome | KBError:
        if work.attempts > _ATTEMPTS:
            return InternalError(
                f"given up after {_ATTEMPTS} attempts: whoever read this file did not live to tell"
            )
        try:
            data = b"".join(self._files.upload_parts(work.queued.uuid))
            if len(data) != work.bytes:
                return FilesUnreachable(
                    f"{len(data)} of {work.bytes} bytes are there",
                    hint="is the storage of files there?",
                )
            incoming = Incoming(
                data, work.filename, work.fields, work.actor, work.created_at, queued=work.queued
            )
            (result,) = self._ingest.add([incoming])
        except KBError as error:
            return error
        return result

    def _close(self, work: Work, result: Outcome | KBError) -> None:
        """End what the ingest left open: what it could not write, and what had more files inside."""
        queued = work.queued
        with self._store.write(work.actor.organization_id) as tx:
            row = tx.execute(
                sa.select(ingest_queue.c.lease).where(ingest_queue.c.id == queued.uuid)
            ).first()
            gone = row is None and isinstance(result, KBError) and result.http_status >= 500
            if gone or (row is not None and row.lease != queued.lease):
                raise TakenOver
            if row is not None and isinstance(result, KBError):
                if result.http_status >= 500 and work.attempts < _ATTEMPTS:
                    # Nobody's fault: after the lease it is tried again.
                    tx.execute(
                        sa.update(jobs)
                        .where(jobs.c.id == queued.job_id)
                        .values(status="queued", error=result.message)
                    )
                    return
                settle(tx, queued, status="failed", error=result.message)
            elif row is not None and not isinstance(result, KBError):
                status = "duplicate" if result.status == "unchanged" else "done"
                settle(tx, queued, status=status, document_id=result.document_id, error=None)
        with contextlib.suppress(StoreUnusable):
            # Otherwise it goes with what is abandoned.
            self._files.remove_upload(queued.uuid)

    def _renew(self, queued: Queued, wait: Callable[[float], bool]) -> None:
        while not wait(self._lease.total_seconds() / 3):
            mine = (ingest_queue.c.id == queued.uuid, ingest_queue.c.lease == queued.lease)
            with contextlib.suppress(Busy, StoreUnusable), self._writing(queued.lease) as tx:
                tx.execute(sa.update(ingest_queue).where(*mine).values(leased_until=self._end()))

    def _writing(self, lease: str) -> contextlib.AbstractContextManager[Tx]:
        # In a queue of its own: workers skip each other's rows instead of waiting.
        return self._store.write(queue=f"worker {lease}")

    def _end(self) -> str:
        return format_time(datetime.now(UTC) + self._lease)
