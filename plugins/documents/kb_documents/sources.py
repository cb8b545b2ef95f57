"""Files that documents came from: which of them are new, changed, moved or gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from kb_files.api import CHUNK, FILE

from kb_documents.document_rows import has_all_tags
from kb_documents.folders import INSIDE
from kb_documents.moves import possible_moves
from kb_documents.readers import readers
from kb_documents.settings import DocumentsSettings
from kb_documents.skip_rules import has_no_text
from kb_documents.source_models import (
    LeftOutSource,
    MovedFolder,
    RefusedSource,
    SourceFile,
    SourcesIn,
    SourcesOut,
    VanishedSource,
)
from kb_documents.source_paths import below, is_found
from kb_documents.tables import left_out, refused, sources
from kb_documents.vanished import due
from kb_framework.api import Actor, Extractor
from kb_framework.api.parts import HostSettings, Plugins, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import damage, documents

# Pairs of folders that are looked at where folders seem to have moved.
_MOVES = 50


class SourcesService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        host_settings: HostSettings,
        settings: DocumentsSettings,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._settings = host_settings
        self._days = settings.missing_days

    def compare(self, listed: SourcesIn, actor: Actor) -> SourcesOut:
        """Return which files of a listing must be sent, judged by their state in the file system."""
        names = {file.source for file in listed.files}
        with self._store.read(actor.organization_id) as tx:
            # The file of a missing document is wanted as soon as it is back.
            columns = (sources.c.source, sources.c.size, sources.c.modified_ns, sources.c.stamp)
            here = (tx.owns(sources), among(sources.c.source, names), is_found(tx))
            known = {row.source: row for row in tx.execute(sa.select(*columns).where(*here))}
            for source in tx.connection.scalars(_damaged(tx)):
                # Reading the original again heals it, or the file that it is inside of.
                known.pop(source.partition(INSIDE)[0], None)
            for source in tx.connection.scalars(_lacking(tx, listed.tags)) if listed.tags else ():
                known.pop(source, None)
            before = {} if listed.retry or listed.checksum else self._refused(tx, names)
            without_text = {} if listed.retry or listed.checksum else self._left_out(tx, names)
            about_folder: dict[str, Any] = (
                {} if listed.root is None else self._about_folder(tx, listed, listed.root, names)
            )
        wanted, again, skipped = [], [], []
        for place, file in enumerate(listed.files):
            if not listed.checksum and file.source in known and _is_same(file, known[file.source]):
                continue
            unread = (file.source, file.size, file.modified_ns)
            if kind := without_text.get(unread):
                skipped.append(LeftOutSource(place=place, kind=kind))
            elif told := before.get(unread):
                again.append(RefusedSource(place=place, **told))
            else:
                wanted.append(place)
        return SourcesOut(
            unchanged=len(listed.files) - len(wanted) - len(again) - len(skipped),
            max_file_bytes=self._settings.max_file_bytes,
            wanted=wanted,
            refused=again,
            left_out=skipped,
            reads=sorted(
                {
                    name
                    for item in self._plugins.registry(Extractor)
                    for name in (item.media, *item.suffixes)
                    if has_no_text(name)
                }
            ),
            **{"vanished": [], **about_folder},
        )

    def _about_folder(
        self, tx: Tx, listed: SourcesIn, root: str, names: set[str]
    ) -> dict[str, Any]:
        return {
            "moved": self._moved(tx, listed, root, names),
            "vanished": self._vanished(tx, root, names),
            "elsewhere": self._elsewhere(tx, root, names) if listed.elsewhere else [],
            "expired": tx.scalar(
                sa.select(sa.func.count()).select_from(
                    due(tx.organization_id, self._days).subquery()
                )
            ),
        }

    def _moved(self, tx: Tx, listed: SourcesIn, root: str, names: set[str]) -> list[MovedFolder]:
        """Folders of the listing that hold at least half of the files which came from another folder."""
        here = (tx.owns(sources), among(sources.c.source, names))
        known = set(tx.connection.scalars(sa.select(sources.c.source).where(*here)))
        new = [
            (file.source, file.size, file.modified_ns)
            for file in listed.files
            if file.source not in known
        ]
        if not new:
            return []
        inside = sources.c.source.contains(INSIDE, autoescape=True)
        columns = (sources.c.source, sources.c.size, sources.c.modified_ns)
        like = sa.select(*columns).where(
            tx.owns(sources), ~inside, among(sources.c.size, {size for _, size, _ in new})
        )
        absent = [
            (source, size, modified)
            for source, size, modified in tx.execute(like)
            if source not in names
        ]
        found = []
        for old, place, files in possible_moves(new, absent, root)[:_MOVES]:
            below = (
                tx.owns(sources),
                ~inside,
                sources.c.source.startswith(old + "/", autoescape=True),
            )
            if files * 2 >= tx.scalar(
                sa.select(sa.func.count()).select_from(sources).where(*below)
            ):
                found.append(MovedFolder(old=old, new=place))
        return found

    def _elsewhere(self, tx: Tx, root: str, names: set[str]) -> list[VanishedSource]:
        """Further sources, outside the folder, of the documents that the listed files are sources of."""
        own = sa.select(sources.c.document_id).where(
            tx.owns(sources), among(sources.c.source, names)
        )
        columns = (sources.c.source, sources.c.document_id, sources.c.reading)
        outside = ~sources.c.source.startswith(root.rstrip("/") + "/", autoescape=True)
        rows = tx.execute(
            sa.select(*columns).where(tx.owns(sources), outside, sources.c.document_id.in_(own))
        )
        return [
            VanishedSource(source=row.source, document_id=row.document_id, reading=row.reading)
            for row in rows
        ]

    def _refused(self, tx: Tx, names: set[str]) -> dict[tuple[str, int, int], dict[str, Any]]:
        """Return what could not be read before by the same readers, with the reason; by source, size and time of change."""
        same = (
            tx.owns(refused),
            refused.c.readers == readers(self._plugins, self._settings),
            among(refused.c.source, names),
        )
        rows = tx.execute(sa.select(refused).where(*same))
        return {
            (row.source, row.size, row.modified_ns): {"reason": row.reason, "job_id": row.job_id}
            for row in rows
        }

    def _left_out(self, tx: Tx, names: set[str]) -> dict[tuple[str, int, int], str]:
        """The kinds of files that had no text for the present readers; by source, size and time of change."""
        same = (
            tx.owns(left_out),
            left_out.c.readers == readers(self._plugins, self._settings),
            among(left_out.c.source, names),
        )
        rows = tx.execute(sa.select(left_out).where(*same))
        return {(row.source, row.size, row.modified_ns): row.kind for row in rows}

    def _vanished(self, tx: Tx, root: str, present: set[str]) -> list[VanishedSource]:
        """Files that are gone, and files that an archive or a mail no longer holds."""
        columns = (
            sources.c.source,
            sources.c.document_id,
            sources.c.modified_ns,
            sources.c.reading,
        )
        rows = tx.execute(below(tx, root, *columns).order_by(sources.c.source)).all()
        # An outer file has no time of change until all files inside it are there.
        read = {row.source: row.reading for row in rows if row.modified_ns is not None}
        found = []
        for row in rows:
            outer, inside, _ = row.source.partition(INSIDE)
            if outer not in present or (inside and outer in read and row.reading != read[outer]):
                found.append(
                    VanishedSource(
                        source=row.source, document_id=row.document_id, reading=row.reading
                    )
                )
        return found


def _is_same(file: SourceFile, known: Any) -> bool:
    """Whether a file is as it was. A stamp that is not known says nothing."""
    if (file.size, file.modified_ns) != (known.size, known.modified_ns):
        return False
    return None in (file.stamp, known.stamp) or file.stamp == known.stamp


def _damaged(tx: Tx) -> sa.Select:
    """The sources of documents whose stored file or text is damaged, or whose file an archive did not hold."""
    files = sa.select(damage.c.key).where(damage.c.kind == FILE)
    texts = sa.select(damage.c.document_id).where(damage.c.kind == CHUNK)
    query = sa.select(sources.c.source).join(documents, documents.c.id == sources.c.document_id)
    hurt = documents.c.file.is_(None) | documents.c.file.in_(files) | documents.c.id.in_(texts)
    return query.where(tx.owns(sources), hurt)


def _lacking(tx: Tx, tags: Sequence[str]) -> sa.Select:
    """The sources of documents without one of the tags."""
    lacking = sa.select(documents.c.id).where(~has_all_tags(tags))
    return sa.select(sources.c.source).where(tx.owns(sources), sources.c.document_id.in_(lacking))
