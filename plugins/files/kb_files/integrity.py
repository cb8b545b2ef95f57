"""Check stored bytes against their hashes: files by their names, chunks by `content_hash`.

What does not match is recorded, so that it is reported until it is whole again and its original is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, Any

import sqlalchemy as sa

from kb_framework.api import Progress
from kb_framework.api.files import Mismatch, copy_verified
from kb_framework.api.parts import Files, Store, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import check_positions, chunks, damage, documents
from kb_framework.api.times import now
from kb_framework.errors import Busy, FileDamaged, StoreUnusable

FILE, CHUNK = "file", "chunk"
WHAT_TO_DO = "add the original again (kb add), or restore a backup"
# How much a check reads that is not deep: some seconds of work, so that daily checks get round.
_BYTES_PER_CHECK = 200_000_000
_CHUNKS_PER_CHECK = 20_000
_CHUNKS_AT_ONCE = 500
# A copy up to this size is kept in memory.
_IN_MEMORY = 8_000_000


class Integrity:
    def __init__(self, store: Store, files: Files) -> None:
        self._store = store
        self._files = files

    def open_file(self, key: str, document: Mapping[Any, Any]) -> IO[bytes]:
        """Return a verified copy of the stored file of a document (`id`, `title`, `path`); raise `FileDamaged`."""
        copy: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - the caller closes it
        try:
            copy_verified(self._files, key, copy)
        except Mismatch as error:
            copy.close()
            self._record(FILE, {key: str(error)}, [key])
            raise file_damaged(key, document, str(error)) from None
        except BaseException:
            copy.close()
            raise
        copy.seek(0)
        return copy

    def is_whole(self, key: str) -> bool:
        """Whether a stored file is there and matches its name."""
        try:
            copy_verified(self._files, key)
        except Mismatch:
            return False
        return True

    def check(self, *, deep: bool) -> Iterator[Progress]:
        """Check files and chunks, all or the next part, and record what is damaged and what is whole again."""
        yield from self._check_files(deep)
        yield from self._check_chunks(deep)

    def _check_files(self, deep: bool) -> Iterator[Progress]:
        stored = self._files.sizes()
        with self._store.read() as tx:
            query = sa.select(documents.c.file, sa.func.max(documents.c.bytes)).where(
                documents.c.file.is_not(None)
            )
            wanted: dict[str, int] = {
                row[0]: row[1] for row in tx.execute(query.group_by(documents.c.file))
            }
            known = set(self._known(tx, FILE))
            after = self._position(tx, FILE)
        # A size that differs, and what was damaged before, is looked at in every check.
        due = {key for key, size in wanted.items() if stored.get(key) != size} | known
        ordered = sorted(wanted)
        ordered = (
            ordered
            if deep
            else [key for key in ordered if key > after] + [key for key in ordered if key <= after]
        )
        read, last = 0, ""
        for key in ordered:
            if not deep and read >= _BYTES_PER_CHECK:
                break
            due.add(key)
            last = key
            read += wanted[key]
        problems: dict[str, str] = {}
        for number, key in enumerate(sorted(due), 1):
            try:
                copy_verified(self._files, key)
            except Mismatch as error:
                problems[key] = str(error)
            yield Progress("files", number, len(due))
        self._record(FILE, problems, due, last)

    def _check_chunks(self, deep: bool) -> Iterator[Progress]:
        with self._store.read() as tx:
            known = self._known(tx, CHUNK)
            highest = tx.scalar(sa.select(sa.func.max(chunks.c.seq))) or 0
            after = 0 if deep else int(self._position(tx, CHUNK) or 0)
        after = 0 if after >= highest else after
        problems: dict[str, str] = {}
        owners: dict[str, int] = {}
        seen: set[str] = set(known)
        done = 0
        for rows in self._chunks(known, after, None if deep else _CHUNKS_PER_CHECK):
            for row in rows:
                seen.add(row.id)
                if is_changed(row.content, row.content_hash):
                    problems[row.id], owners[row.id] = "is damaged", row.document_id
            after = max(after, rows[-1].seq)
            done += len(rows)
            yield Progress("chunks", done, None)
        self._record(CHUNK, problems, seen, str(after), owners)

    def _chunks(
        self, known: Collection[str], after: int, limit: int | None
    ) -> Iterator[Sequence[Any]]:
        """Chunks that were damaged before, then those after a position."""
        # As bytes: damaged text may not be text any more. PostgreSQL checks that itself.
        text = (
            sa.cast(chunks.c.content, sa.LargeBinary)
            if self._store.engine.name == "sqlite"
            else chunks.c.content
        )
        query = sa.select(
            chunks.c.seq,
            chunks.c.id,
            chunks.c.document_id,
            text.label("content"),
            chunks.c.content_hash,
        )
        with self._store.read() as tx:
            rows = (
                tx.execute(
                    query.where(among(chunks.c.id, list(known)), chunks.c.seq <= after)
                ).all()
                if known
                else []
            )
        if rows:
            yield rows
        read = 0
        while limit is None or read < limit:
            with self._store.read() as tx:
                part = (
                    query.where(chunks.c.seq > after).order_by(chunks.c.seq).limit(_CHUNKS_AT_ONCE)
                )
                rows = tx.execute(part).all()
            if not rows:
                return
            after = rows[-1].seq
            read += len(rows)
            yield rows

    def damaged(self) -> list[tuple[str, str]]:
        """What is recorded as damaged and still belongs to a document: "files" or "chunks", and a sentence."""
        with self._store.read() as tx:
            named = sa.select(
                damage.c.key, damage.c.problem, documents.c.id, documents.c.title, documents.c.path
            )
            of_file = named.join(documents, documents.c.file == damage.c.key).where(
                damage.c.kind == FILE
            )
            of_chunk = named.join(documents, documents.c.id == damage.c.document_id).where(
                damage.c.kind == CHUNK
            )
            files = tx.rows(of_file.order_by(documents.c.id))
            texts = tx.rows(of_chunk.order_by(documents.c.id))
        return [
            ("files", f"{file_damaged(row['key'], row, row['problem']).message}: {WHAT_TO_DO}")
            for row in files
        ] + [("chunks", f"{chunk_damaged(row['key'], row)}: {WHAT_TO_DO}") for row in texts]

    def _known(self, tx: Tx, kind: str) -> list[str]:
        return list(tx.connection.scalars(sa.select(damage.c.key).where(damage.c.kind == kind)))

    def _position(self, tx: Tx, kind: str) -> str:
        return (
            tx.scalar(sa.select(check_positions.c.position).where(check_positions.c.kind == kind))
            or ""
        )

    def _record(
        self,
        kind: str,
        problems: Mapping[str, str],
        checked: Collection[str],
        position: str | None = None,
        owners: Mapping[str, int] | None = None,
    ) -> None:
        # Where nothing can be written, the check itself still counts.
        with contextlib.suppress(Busy, StoreUnusable), self._store.write() as tx:
            forget(tx, kind, checked)
            rows = [
                {
                    "kind": kind,
                    "key": key,
                    "document_id": (owners or {}).get(key),
                    "problem": problem,
                    "found_at": now(),
                }
                for key, problem in problems.items()
            ]
            if rows:
                tx.execute(sa.insert(damage), rows)
            if position is not None:
                tx.execute(sa.delete(check_positions).where(check_positions.c.kind == kind))
                tx.execute(sa.insert(check_positions).values(kind=kind, position=position))


def is_changed(content: str | bytes, content_hash: str) -> bool:
    """Whether the text of a chunk is not what it was when it was stored."""
    return (
        hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
        != content_hash
    )


def forget(tx: Tx, kind: str, keys: Collection[str]) -> None:
    """Drop what was recorded of these: they were checked again, replaced or deleted."""
    if tx.scalar(sa.select(damage.c.key).limit(1)) is not None:
        tx.execute(sa.delete(damage).where(damage.c.kind == kind, among(damage.c.key, list(keys))))


def named_document(document: Mapping[Any, Any]) -> str:
    """`document 3 (Heat pumps, docs/heat.md)`."""
    names = ", ".join(dict.fromkeys(name for name in (document["title"], document["path"]) if name))
    return f"document {document['id']} ({names})"


def file_damaged(key: str, document: Mapping[Any, Any], problem: str) -> FileDamaged:
    message = f"the stored file of {named_document(document)} {problem} (files/{key})"
    return FileDamaged(message, hint=WHAT_TO_DO, document_id=document["id"])


def chunk_damaged(chunk_id: str, document: Mapping[Any, Any]) -> str:
    return f"chunk {chunk_id} of {named_document(document)} is damaged: its text does not match its content_hash"
