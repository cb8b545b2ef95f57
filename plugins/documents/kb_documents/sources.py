"""Files that documents came from: which of them are new, changed, moved or gone."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa
from kb_files.api import CHUNK, FILE

from kb_documents.document_rows import has_all_tags, touch
from kb_documents.folders import INSIDE
from kb_documents.missing import MarkMissing, missing_ids
from kb_documents.moves import possible_moves
from kb_documents.mutations import Delete
from kb_documents.settings import DocumentsSettings
from kb_documents.skip_rules import has_no_text
from kb_documents.source_models import (
    ExpireIn,
    ExpireOut,
    ForgetIn,
    ForgetOut,
    LeftOutSource,
    MovedFolder,
    NamedDocument,
    RefusedSource,
    SourceFile,
    SourcesIn,
    SourcesOut,
    VanishedSource,
)
from kb_documents.tables import followed, left_out, refused, sources
from kb_framework.api import Actor, Extractor, Plan
from kb_framework.api.mutation import Share
from kb_framework.api.parts import HostSettings, Mutation, Plugins, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import damage, documents
from kb_framework.api.times import moment, now
from kb_framework.errors import SafetyThresholdExceeded

log = logging.getLogger("kb.documents")

# In the metadata of a file inside another: that other's document.
_PARENT = ("parent_id", "parent_path")
# A sub-folder with at least this many documents does not become missing as a whole without being asked for.
_WHOLE_FOLDER = 5
_EXPIRE_SECONDS = 3600.0
# Increased when what reads files reads more than before: then all that could not be read is read again once.
_READING = 2
# Pairs of folders that are looked at where folders seem to have moved.
_MOVES = 50
_LIMITS = (
    "max_file_bytes",
    "max_text_chars",
    "max_archive_files",
    "extract_timeout",
    "extract_memory_bytes",
    "chunker",
)


class SourcesService:
    def __init__(
        self,
        store: Store,
        mutation: Mutation,
        plugins: Plugins,
        host_settings: HostSettings,
        settings: DocumentsSettings,
    ) -> None:
        self._store = store
        self._mutation = mutation
        self._plugins = plugins
        self._settings = host_settings
        self._days = settings.missing_days
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def compare(self, listed: SourcesIn, actor: Actor) -> SourcesOut:
        """Return which files of a listing must be sent, judged by their state in the file system."""
        names = {file.source for file in listed.files}
        with self._store.read(actor.organization_id) as tx:
            # The file of a missing document is wanted as soon as it is back.
            columns = (sources.c.source, sources.c.size, sources.c.modified_ns, sources.c.stamp)
            here = (tx.owns(sources), among(sources.c.source, names), self._is_found(tx))
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
                sa.select(sa.func.count()).select_from(self._due(tx.organization_id).subquery())
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

    def _is_found(self, tx: Tx) -> sa.ColumnElement[bool]:
        return sources.c.document_id.not_in(missing_ids(tx))

    def _below(self, tx: Tx, root: str, *columns: sa.ColumnElement[Any]) -> sa.Select:
        """The sources of documents that are not missing, below a folder."""
        below = root.rstrip("/") + "/"
        return sa.select(*columns).where(
            tx.owns(sources),
            sources.c.source.startswith(below, autoescape=True),
            self._is_found(tx),
        )

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
        rows = tx.execute(self._below(tx, root, *columns).order_by(sources.c.source)).all()
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
            self._below(tx, root, sources.c.source, sources.c.document_id)
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
        return Share(len(some), len(everything), self._settings.bulk_safety_percent)

    # Missing documents whose time is over

    def _due(self, organization_id: str) -> sa.Select:
        until = moment(
            (datetime.fromisoformat(now()) - timedelta(days=self._days)).isoformat(),
            "missing_since",
        )
        mine = followed.c.organization_id == organization_id
        return sa.select(followed.c.id).where(mine, followed.c.missing_since <= until)

    def expire(self, _: ExpireIn, actor: Actor) -> ExpireOut:
        """Delete documents that have been missing for too long."""
        return ExpireOut(removed=self.expire_due(actor.organization_id))

    def expire_due(self, organization_id: str) -> int:
        """Delete documents that have been missing for too long; return how many."""
        due = self._due(organization_id)
        with self._store.read(organization_id) as tx:
            query = sa.select(documents.c.id, documents.c.title, documents.c.path)
            named = tx.rows(query.where(documents.c.id.in_(due)).order_by(documents.c.id))
        if not named:
            return 0
        result = self._mutation.run(
            "delete",
            Delete(),
            documents.c.id.in_(due),
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


def _is_same(file: SourceFile, known: Any) -> bool:
    """Whether a file is as it was. A stamp that is not known says nothing."""
    if (file.size, file.modified_ns) != (known.size, known.modified_ns):
        return False
    return None in (file.stamp, known.stamp) or file.stamp == known.stamp


def _folders_of(source: str, root: str) -> Iterator[str]:
    """The folders that a file is in, from its own up to the root."""
    top = root.rstrip("/")
    folder = source.rpartition("/")[0]
    while len(folder) > len(top):
        yield folder
        folder = folder.rpartition("/")[0]
    yield top


def _damaged(tx: Tx) -> sa.Select:
    """The sources of documents whose stored file or text is damaged, or whose file an archive did not hold."""
    files = sa.select(damage.c.key).where(damage.c.kind == FILE)
    texts = sa.select(damage.c.document_id).where(damage.c.kind == CHUNK)
    query = sa.select(sources.c.source).join(documents, documents.c.id == sources.c.document_id)
    hurt = documents.c.file.is_(None) | documents.c.file.in_(files) | documents.c.id.in_(texts)
    return query.where(tx.owns(sources), hurt)


def readers(plugins: Plugins, settings: HostSettings) -> str:
    """What decides whether a file can be read, besides the file: who is there to read it, and within which limits."""
    there = sorted((info.name, info.version, info.state) for info in plugins.infos)
    limits = [getattr(settings, name) for name in _LIMITS]
    return hashlib.sha256(repr((_READING, there, limits)).encode()).hexdigest()


def take_path(tx: Tx, document_id: int) -> None:
    """Know a document by a place where it still is, and by the file it is inside of there; a title made of its name follows."""
    columns = (
        sources.c.source,
        sources.c.path,
        documents.c.title,
        documents.c.metadata,
        documents.c.path.label("former"),
    )
    query = sa.select(*columns).join(documents, documents.c.id == sources.c.document_id)
    query = query.where(tx.owns(sources), sources.c.document_id == document_id)
    row = tx.execute(query.order_by(sources.c.source).limit(1)).first()
    if row is None:
        return
    values = {"path": row.path, "metadata": {**row.metadata, **_parent(tx, row.source)}}
    if "parent_id" in row.metadata and INSIDE not in row.source:
        values["metadata"] = {
            name: value for name, value in row.metadata.items() if name not in _PARENT
        }
    if (
        row.former
        and row.path
        and row.title == PurePosixPath(row.former).name != PurePosixPath(row.path).name
    ):
        values["title"] = PurePosixPath(row.path).name
        mine = (
            tx.owns(sources),
            sources.c.document_id == document_id,
            sources.c.title == row.title,
        )
        tx.execute(sa.update(sources).where(*mine).values(title=values["title"]))
    touch(tx, sa.select(documents.c.id).where(documents.c.id == document_id), **values)


def _parent(tx: Tx, source: str) -> dict[str, Any]:
    """The document that a file is inside of, for its metadata; nothing where it is inside of none."""
    outer = sa.select(sources.c.document_id, sources.c.path)
    found = tx.execute(
        outer.where(tx.owns(sources), sources.c.source == source.rpartition(INSIDE)[0])
    ).first()
    return dict(zip(_PARENT, found, strict=True)) if found else {}


def _lacking(tx: Tx, tags: Sequence[str]) -> sa.Select:
    """The sources of documents without one of the tags."""
    lacking = sa.select(documents.c.id).where(~has_all_tags(tags))
    return sa.select(sources.c.source).where(tx.owns(sources), sources.c.document_id.in_(lacking))
