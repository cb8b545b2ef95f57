"""Files that vanished from a folder, and the documents that are missing because of that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import sqlalchemy as sa

from kb_documents.folders import INSIDE
from kb_documents.missing import MarkMissing
from kb_documents.mutations import Delete
from kb_documents.settings import DocumentsSettings
from kb_documents.source_models import ExpireIn, ExpireOut, ForgetIn, ForgetOut, NamedDocument
from kb_documents.source_paths import below, take_path
from kb_documents.tables import followed, sources
from kb_framework.api import Actor, Plan
from kb_framework.api.mutation import Share
from kb_framework.api.parts import HostSettings, Mutation, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import documents
from kb_framework.api.times import moment, now
from kb_framework.errors import SafetyThresholdExceeded

log = logging.getLogger("kb.documents")

# A sub-folder with at least this many documents does not become missing as a whole without being asked for.
_WHOLE_FOLDER = 5
_EXPIRE_SECONDS = 3600.0


class VanishedService:
    """Marks documents as missing whose files vanished, and deletes those that have been missing for too long."""

    def __init__(
        self,
        store: Store,
        mutation: Mutation,
        host_settings: HostSettings,
        settings: DocumentsSettings,
    ) -> None:
        self._store = store
        self._mutation = mutation
        self._percent = host_settings.bulk_safety_percent
        self._days = settings.missing_days
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def forget(self, wanted: ForgetIn, actor: Actor) -> ForgetOut:
        """Mark the documents as missing whose last source is gone; the others forget that source.

        Which documents that are is part of the statements that change them: a file that is added or read again
        meanwhile keeps its document.
        """
        mine = sources.c.organization_id == actor.organization_id
        names = [item.source for item in wanted.sources]
        states = [f"{item.source}\n{item.reading or ''}" for item in wanted.sources]
        is_gone = among(sources.c.source, names) & among(
            sources.c.source + "\n" + sa.func.coalesce(sources.c.reading, ""), states
        )
        gone = sa.select(sources.c.document_id).where(mine, is_gone)
        kept = sa.select(sources.c.document_id).where(mine, sa.not_(is_gone))
        doomed = documents.c.id.in_(gone) & documents.c.id.not_in(kept)
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(documents.c.id, documents.c.title, documents.c.path)
            named = tx.rows(query.where(tx.owns(documents), doomed).order_by(documents.c.id))
            # Files inside others are not counted.
            inside = sources.c.source.contains(INSIDE, autoescape=True)
            files = set(tx.connection.scalars(gone.where(sources.c.document_id.in_(kept), ~inside)))
        result = None
        if named and not wanted.preview:
            result = self._mutation.run(
                "missing",
                MarkMissing(),
                doomed,
                actor,
                selection={"folder": wanted.root, "documents": named},
                force=wanted.force,
                limit=lambda tx, plan: self._require_within(tx, plan, wanted.root),
            )
        if not wanted.preview:
            with self._store.write(actor.organization_id) as tx:
                moved = set(tx.connection.scalars(gone.where(sources.c.document_id.in_(kept))))
                tx.execute(sa.delete(sources).where(mine, is_gone, sources.c.document_id.in_(kept)))
                for document_id in moved:
                    take_path(tx, document_id)
        removed = 0 if wanted.preview else self.expire_due(actor.organization_id)
        return ForgetOut(
            moved=len(files),
            matched=len(named),
            missing=result.succeeded if result and self._days else 0,
            removed=removed,
            failed=result.failed if result else 0,
            errors=result.errors if result else [],
            job_id=result.job_id if result else None,
            documents=[NamedDocument(**row) for row in named],
        )

    def _require_within(self, tx: Tx, plan: Plan, root: str) -> None:
        """Refuse to mark too large a share of a folder, or all of it or of a sub-folder."""
        going = set(tx.connection.scalars(plan.documents))
        found: dict[str, set[int]] = {}
        for source, document_id in tx.execute(
            below(tx, root, sources.c.source, sources.c.document_id)
        ):
            for folder in _folders_of(source.partition(INSIDE)[0], root):
                found.setdefault(folder, set()).add(document_id)
        everything = found.pop(root.rstrip("/"), set())
        folder, share = root, self._share(going & everything, everything)
        if not share.exceeds and not everything <= going:
            whole = [
                folder
                for folder, ids in found.items()
                if len(ids) >= _WHOLE_FOLDER and ids <= going
            ]
            if not whole:
                return
            # The outermost one.
            folder = min(whole)
            share = self._share(found[folder], found[folder])
        raise SafetyThresholdExceeded(
            f"{share.matched} of {share.total} documents of {folder} ({share.percent}%) would become missing. "
            "Use force: true if their files are gone for good.",
            matched=share.matched,
            total=share.total,
            percent=share.percent,
            threshold=share.threshold,
            folder=folder,
        )

    def _share(self, some: set[int], everything: set[int]) -> Share:
        return Share(len(some), len(everything), self._percent)

    def expire(self, _: ExpireIn, actor: Actor) -> ExpireOut:
        """Delete documents that have been missing for too long."""
        return ExpireOut(removed=self.expire_due(actor.organization_id))

    def expire_due(self, organization_id: str) -> int:
        """Delete documents that have been missing for too long; return how many."""
        over = due(organization_id, self._days)
        with self._store.read(organization_id) as tx:
            query = sa.select(documents.c.id, documents.c.title, documents.c.path)
            named = tx.rows(query.where(documents.c.id.in_(over)).order_by(documents.c.id))
        if not named:
            return 0
        result = self._mutation.run(
            "delete",
            Delete(),
            documents.c.id.in_(over),
            Actor(organization_id),
            selection={"missing": True, "documents": named},
            force=True,
        )
        if result.errors:
            # A guard objected. Ask it again when the time is over once more, not at every sync.
            with self._store.write(organization_id) as tx:
                held = among(followed.c.id, [error["document_id"] for error in result.errors])
                tx.execute(
                    sa.update(followed).where(tx.owns(followed), held).values(missing_since=now())
                )
        return result.succeeded

    def keep_expiring(self) -> None:
        """Expire documents of all organizations now and from time to time, until the engine is closed."""
        self._thread = threading.Thread(target=self._expire_all, name="kb-missing", daemon=True)
        self._thread.start()

    def _expire_all(self) -> None:
        while True:
            try:
                with self._store.read() as tx:
                    waiting = sa.select(followed.c.organization_id).where(
                        followed.c.missing_since.is_not(None)
                    )
                    owners = list(tx.connection.scalars(waiting.distinct()))
                for owner in owners:
                    self.expire_due(owner)
            except Exception as error:  # noqa: BLE001 - it is tried again
                log.warning(
                    "missing documents could not be deleted and will be tried again: %s", error
                )
            if self._closed.wait(_EXPIRE_SECONDS):
                return

    def close(self) -> None:
        self._closed.set()
        if self._thread:
            self._thread.join()


def due(organization_id: str, days: float) -> sa.Select:
    """Select the documents that have been missing for longer than that."""
    until = moment(
        (datetime.fromisoformat(now()) - timedelta(days=days)).isoformat(),
        "missing_since",
    )
    mine = followed.c.organization_id == organization_id
    return sa.select(followed.c.id).where(mine, followed.c.missing_since <= until)


def _folders_of(source: str, root: str) -> Iterator[str]:
    """Yield the folders that a file is in, from its own up to the root."""
    top = root.rstrip("/")
    folder = source.rpartition("/")[0]
    while len(folder) > len(top):
        yield folder
        folder = folder.rpartition("/")[0]
    yield top
