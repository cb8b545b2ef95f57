"""What `kb doctor --repair` does: everything that is derived is made again from the base tables, and it says what it did."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

import sqlalchemy as sa

from kb_framework.embedding import Embedding
from kb_framework.files import Files
from kb_framework.store.documents import active_space, add_missing_text, drop_space, spaces_being_built
from kb_framework.store.sql import among
from kb_framework.store.store import Store, Tx
from kb_framework.store.tables import chunks, document_tags, documents, file_removals, organizations
from kb_framework.upkeep import Upkeep
from kb_framework.vectors import Step, VectorRebuild, add_missing_vectors, measure

_BATCH = 1000
_NAMED = 5
# Seconds to wait for another keeper of side indexes.
_PATIENCE = 60.0
# How long a step of what is made anew takes.
_STEP_SECONDS = 1.0


class Doing(NamedTuple):
    """What is under way, and how far it is."""

    what: str
    done: int
    total: int | None


Event = str | Doing


class Repair:
    """Each part is one transaction, or several that each leave things better than they were: it can stop after any of them."""

    def __init__(self, store: Store, files: Files, embedding: Embedding, upkeep: Upkeep, batch: int = _BATCH) -> None:
        self._store = store
        self._files = files
        self._embedding = embedding
        self._upkeep = upkeep
        self._batch = batch

    def steps(self) -> Iterator[Event]:
        """Repair what can be repaired; a sentence for each thing that was done, and now and then how far it is.

        Between two of them nothing is held: no lock, no transaction.
        """
        yield from self._orphans()
        yield from self._counts()
        yield from self._full_text()
        yield from self._vectors()
        yield from self._side_index()
        yield from self._file_records()
        yield from self._stored_files()

    def _orphans(self) -> list[str]:
        """Rows of documents that do not exist: nothing can reach them."""
        done: list[str] = []
        known = sa.select(documents.c.id)
        with self._store.write() as tx:
            for table, words in ((chunks, "chunks"), (document_tags, "tags")):
                gone = tx.execute(sa.delete(table).where(table.c.document_id.not_in(known))).rowcount
                done += [f"removed {gone} {words} of documents that do not exist"] if gone else []
            if done:
                tx.corpus_changed(everywhere=True)
        return done

    def _counts(self) -> list[str]:
        found = sa.select(sa.func.count()).where(chunks.c.document_id == documents.c.id).scalar_subquery()
        with self._store.write() as tx:
            query = sa.select(documents.c.id, documents.c.chunk_count, found.label("found"))
            wrong = tx.execute(query.where(documents.c.chunk_count != found)).all()
            tx.execute(sa.update(documents).where(documents.c.chunk_count != found).values(chunk_count=found))
        return [
            f"document {row.id} has {row.found} chunks, not {row.chunk_count}: corrected"
            + ("; what is missing comes back when its file is added again" if row.found < row.chunk_count else "")
            for row in wrong
        ]

    def _full_text(self) -> Iterator[Event]:
        with self._store.read() as tx:
            owners = list(tx.connection.scalars(sa.select(organizations.c.id)))
        added = total = 0
        for owner in owners:
            with self._store.write() as tx:
                # A structure that is broken cannot be mended; one that only lacks rows need not be made anew.
                problem = _attempt(tx, functools.partial(tx.backend.check_text, tx.connection, owner))
                if problem:
                    tx.backend.drop_full_text(tx.connection, owner)
                stray = tx.backend.remove_stray_text(tx.connection, owner)
                if problem or stray:
                    tx.corpus_changed(everywhere=True)
                own = tx.scalar(sa.select(sa.func.count()).where(chunks.c.organization_id == owner))
                total += own - tx.backend.count_text(tx.connection, owner)
                numbers = self._add_text(tx, owner, 0)
            if problem:
                yield f"made the full-text index anew ({problem})"
            if stray:
                yield f"removed {stray} entries of full text that belong to no chunk"
            while numbers:
                added += len(numbers)
                yield Doing("full text", added, total)
                with self._store.write() as tx:
                    numbers = self._add_text(tx, owner, numbers[-1])
        if added:
            yield f"indexed {added} chunks for full text"

    def _add_text(self, tx: Tx, owner: str, after: int) -> list[int]:
        numbers = add_missing_text(tx, owner, after, self._batch)
        if numbers:
            tx.corpus_changed(everywhere=True)
        return numbers

    def _vectors(self) -> Iterator[Event]:
        with self._store.read() as tx:
            space = active_space(tx)
            problem = tx.backend.check_vectors(tx.connection, space.index_name) if space else None
            begun = space is None and bool(spaces_being_built(tx))
            total = tx.scalar(sa.select(sa.func.count()).select_from(chunks))
        if problem or begun:
            yield from self._new_vectors(problem or "it was not finished")
        elif space:
            with self._store.write() as tx:
                stray = tx.backend.remove_stray_vectors(tx.connection, space.index_name)
                missing = total - tx.backend.count_vectors(tx.connection, space.index_name)
            if stray:
                yield f"removed {stray} vectors that belong to no chunk"
            added = 0
            for added in add_missing_vectors(self._store, self._embedding):
                yield Doing("vectors", added, missing)
            if added:
                yield f"embedded {added} chunks that had no vector"
            yield from self._compacted()

    def _new_vectors(self, problem: str) -> Iterator[Event]:
        if self._embedding.problem:
            yield f"the vector index is damaged ({problem}), but cannot be made anew: {self._embedding.problem}"
            return
        with self._store.write() as tx:
            space = active_space(tx)
            if space:
                drop_space(tx, space)
        step = yield from self._rebuilt(copy=False)
        yield f"made the vector index anew with {step.done} vectors ({problem})"

    def _compacted(self) -> Iterator[Event]:
        before = measure(self._store)
        if before is None or not before.is_fragmented:
            return
        yield from self._rebuilt(copy=True)
        after = measure(self._store)
        yield f"compacted the vector index from {before.bytes} to {after.bytes if after else 0} bytes"

    def _rebuilt(self, *, copy: bool) -> Generator[Event, None, Step]:
        rebuild = VectorRebuild(self._store, self._embedding, copy=copy)
        while not (step := rebuild.step(_STEP_SECONDS)).finished:
            yield Doing("vectors", step.done, step.total)
        return step

    def _side_index(self) -> Iterator[Event]:
        """What cannot be trusted is dropped, then everything that is due is built."""
        keeper = self._upkeep.keeper()
        problems = keeper.check()
        keeper.forget(problems)
        yield from (f"dropped a side index: {problem}" for problem in problems.values())
        end = time.monotonic() + _PATIENCE
        while True:
            self._upkeep.start()
            while not self._upkeep.is_idle(_STEP_SECONDS):
                yield Doing("side index", 0, None)
            yield from self._upkeep.told()
            if not keeper.missing() or time.monotonic() > end:
                return
            # Another process is at it.
            time.sleep(_STEP_SECONDS)

    def _file_records(self) -> list[str]:
        """Documents whose file is gone lose the record of it; those whose file is there again get it back."""
        done = []
        with self._store.write() as tx:
            stored = self._files.keys()
            missing = [key for key in _wanted(tx) if key not in stored]
            lost = tx.rows(sa.select(documents.c.id, documents.c.title).where(among(documents.c.file, missing)))
            tx.execute(sa.update(documents).where(among(documents.c.file, missing)).values(file=None))
            key = sa.func.substr(documents.c.content_hash, 1, 2) + "/" + documents.c.content_hash
            back = tx.execute(sa.update(documents).where(documents.c.file.is_(None), among(key, list(stored))).values(file=key))
            useless = file_removals.c.key.in_(sa.select(documents.c.file).where(documents.c.file.is_not(None)))
            tx.execute(sa.delete(file_removals).where(useless))
        if lost:
            names = ", ".join(f"{row['id']} ({row['title']})" for row in lost[:_NAMED])
            more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
            done.append(f"the stored files of {len(lost)} documents are gone, their text is still there: {names}{more}")
        return done + ([f"{back.rowcount} documents have their stored file again"] if back.rowcount else [])

    def _stored_files(self) -> list[str]:
        done = []
        if self._files.is_pinned():
            return ["stored files are left alone while somebody exports or backs up: repair again afterwards"]
        # Under the write lock: a file is published inside the transaction that refers to it.
        with self._store.write() as tx:
            waiting = set(tx.connection.scalars(sa.select(file_removals.c.key)))
            stored = self._files.keys()
            for key in waiting:
                self._files.remove(key)
            tx.execute(sa.delete(file_removals))
            orphans = stored - set(_wanted(tx)) - waiting
            folder = self._files.set_aside(orphans) if orphans else None
        removed = len(waiting & stored)
        done += [f"removed {removed} files of deleted documents"] if removed else []
        return done + ([f"{len(orphans)} stored files belong to no document: moved to {folder}"] if orphans else [])


def _wanted(tx: Tx) -> list[str]:
    return list(tx.connection.scalars(sa.select(documents.c.file).where(documents.c.file.is_not(None)).distinct()))


def _attempt(tx: Tx, check: Callable[[], str | None]) -> str | None:
    """Check in a savepoint of its own, since a damaged table may end the transaction's statement half-way."""
    with tx.savepoint():
        return check()
