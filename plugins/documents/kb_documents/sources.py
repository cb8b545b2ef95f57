"""Files that documents came from: which of them are new, changed, moved or gone."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa

from kb_documents.folders import INSIDE
from kb_documents.mutations import Delete
from kb_documents.source_models import ForgetIn, ForgetOut, RefusedSource, SourcesIn, SourcesOut, VanishedSource
from kb_documents.tables import refused, sources
from kb_framework.api import Actor
from kb_framework.mutation import Mutation
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.store.documents import touch
from kb_framework.store.sql import among
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import documents

# In the metadata of a file inside another: that other's document.
_PARENT = ("parent_id", "parent_path")
_LIMITS = ("max_file_bytes", "max_text_chars", "max_archive_files", "extract_timeout", "extract_memory_bytes", "chunker")


class SourcesService:
    def __init__(self, store: Store, mutation: Mutation, plugins: Plugins, host_settings: HostSettings) -> None:
        self._store = store
        self._mutation = mutation
        self._plugins = plugins
        self._settings = host_settings

    def compare(self, listed: SourcesIn, actor: Actor) -> SourcesOut:
        """What of a folder's listing must be sent, judged by size and time of change alone."""
        names = {file.source for file in listed.files}
        with self._store.read(actor.organization_id) as tx:
            columns = sa.select(sources.c.source, sources.c.size, sources.c.modified_ns)
            known = {
                source: (size, modified)
                for source, size, modified in tx.execute(columns.where(tx.owns(sources), among(sources.c.source, names)))
            }
            before = {} if listed.retry else self._refused(tx, names)
            vanished = [] if listed.root is None else self._vanished(tx, listed.root, names)
        wanted, again = [], []
        for place, file in enumerate(listed.files):
            state = (file.size, file.modified_ns)
            if known.get(file.source) == state:
                continue
            told = before.get((file.source, *state))
            if told is None:
                wanted.append(place)
            else:
                again.append(RefusedSource(place=place, **told))
        return SourcesOut(
            unchanged=len(listed.files) - len(wanted) - len(again),
            max_file_bytes=self._settings.max_file_bytes,
            wanted=wanted,
            refused=again,
            vanished=vanished,
        )

    def _refused(self, tx: Tx, names: set[str]) -> dict[tuple[str, int, int], dict[str, Any]]:
        """What could not be read before by what reads files now, with the reason; by source, size and time of change."""
        same = (tx.owns(refused), refused.c.readers == readers(self._plugins, self._settings), among(refused.c.source, names))
        rows = tx.execute(sa.select(refused).where(*same))
        return {(row.source, row.size, row.modified_ns): {"reason": row.reason, "job_id": row.job_id} for row in rows}

    def _vanished(self, tx: Tx, root: str, present: set[str]) -> list[VanishedSource]:
        """Files that are gone, and files that an archive or a mail no longer holds."""
        below = root.rstrip("/") + "/"
        columns = (sources.c.source, sources.c.document_id, sources.c.modified_ns, sources.c.seen_at)
        query = sa.select(*columns).where(tx.owns(sources), sources.c.source.startswith(below, autoescape=True))
        rows = tx.execute(query.order_by(sources.c.source)).all()
        # Whoever reads a file sees those inside it afterwards. Until all of them are there, it has no time of change.
        read = {row.source: row.seen_at for row in rows if row.modified_ns is not None}
        found = []
        for row in rows:
            outer, inside, _ = row.source.partition(INSIDE)
            if outer not in present or (inside and row.seen_at < read.get(outer, "")):
                found.append(VanishedSource(source=row.source, document_id=row.document_id))
        return found

    def forget(self, wanted: ForgetIn, actor: Actor) -> ForgetOut:
        """Let go of sources. A document without any other source is deleted, under the same threshold as any bulk delete."""
        with self._store.read(actor.organization_id) as tx:
            gone = sa.select(sources.c.document_id).where(tx.owns(sources), among(sources.c.source, wanted.sources))
            held = sa.select(sources.c.document_id).where(tx.owns(sources), ~among(sources.c.source, wanted.sources))
            moved = list(tx.connection.scalars(gone.where(sources.c.document_id.in_(held)).distinct()))
            # Files that went along inside of others are not counted.
            inside = sources.c.source.contains(INSIDE, autoescape=True)
            files = set(tx.connection.scalars(gone.where(sources.c.document_id.in_(held), ~inside)))
            doomed = list(tx.connection.scalars(gone.where(sources.c.document_id.not_in(held)).distinct()))
        if wanted.preview:
            return ForgetOut(moved=len(files), matched=len(doomed), removed=0, failed=0, errors=[], job_id=None)
        result = None
        if doomed:
            result = self._mutation.run(
                "delete",
                Delete(),
                among(documents.c.id, doomed),
                actor,
                selection={"document_ids": sorted(doomed)},
                force=wanted.force,
            )
        with self._store.write(actor.organization_id) as tx:
            kept = sa.select(documents.c.id).where(tx.owns(documents), among(documents.c.id, moved))
            tx.execute(
                sa.delete(sources).where(
                    tx.owns(sources), among(sources.c.source, wanted.sources), sources.c.document_id.in_(kept)
                )
            )
            for document_id in moved:
                take_path(tx, document_id)
        return ForgetOut(
            moved=len(files),
            matched=len(doomed),
            removed=result.succeeded if result else 0,
            failed=result.failed if result else 0,
            errors=result.errors if result else [],
            job_id=result.job_id if result else None,
        )


def readers(plugins: Plugins, settings: HostSettings) -> str:
    """What decides whether a file can be read, besides the file: who is there to read it, and within which limits."""
    there = sorted((info.name, info.version, info.state) for info in plugins.infos)
    limits = [getattr(settings, name) for name in _LIMITS]
    return hashlib.sha256(repr((there, limits)).encode()).hexdigest()


def take_path(tx: Tx, document_id: int) -> None:
    """Know a document by a place where it still is, and by the file it is inside of there; a title made of its name follows."""
    columns = (sources.c.source, sources.c.path, documents.c.title, documents.c.metadata, documents.c.path.label("former"))
    query = sa.select(*columns).join(documents, documents.c.id == sources.c.document_id)
    query = query.where(tx.owns(sources), sources.c.document_id == document_id)
    row = tx.execute(query.order_by(sources.c.source).limit(1)).first()
    if row is None:
        return
    values = {"path": row.path, "metadata": {**row.metadata, **_parent(tx, row.source)}}
    if "parent_id" in row.metadata and INSIDE not in row.source:
        values["metadata"] = {name: value for name, value in row.metadata.items() if name not in _PARENT}
    if row.former and row.path and row.title == PurePosixPath(row.former).name != PurePosixPath(row.path).name:
        values["title"] = PurePosixPath(row.path).name
        mine = (tx.owns(sources), sources.c.document_id == document_id, sources.c.title == row.title)
        tx.execute(sa.update(sources).where(*mine).values(title=values["title"]))
    touch(tx, sa.select(documents.c.id).where(documents.c.id == document_id), **values)


def _parent(tx: Tx, source: str) -> dict[str, Any]:
    """The document that a file is inside of, for its metadata; nothing where it is inside of none."""
    outer = sa.select(sources.c.document_id, sources.c.path)
    found = tx.execute(outer.where(tx.owns(sources), sources.c.source == source.rpartition(INSIDE)[0])).first()
    return dict(zip(_PARENT, found, strict=True)) if found else {}
