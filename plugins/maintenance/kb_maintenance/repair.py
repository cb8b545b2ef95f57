"""Rebuild full text, vectors and counts from documents and chunks, where they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import sqlalchemy as sa
from kb_models.api import NO_EMBEDDING, Embedding, Step
from kb_text.api import add_missing_text

from kb_framework.api import Progress
from kb_framework.api.engine import VectorFill
from kb_framework.api.parts import Store, Tx
from kb_framework.api.spaces import active_space, drop_space, spaces_being_built
from kb_framework.api.tables import chunks, document_tags, documents, organizations

_BATCH = 1000
# Seconds of work on the vectors between two reports of progress.
_STEP_SECONDS = 1.0

Event = str | Progress


class Repair:
    """Repair derived data. Each transaction leaves things better, so that a repair may end after any of them."""

    def __init__(
        self, store: Store, embedding: Embedding = NO_EMBEDDING, batch: int = _BATCH
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._batch = batch

    def steps(self) -> Iterator[Event]:
        """Repair what can be repaired; yield a sentence for each thing that was done, and progress.

        No lock and no transaction is held between two events.
        """
        yield from self._store.engine.mend()
        yield from self._orphans()
        yield from self._counts()
        yield from self._full_text()
        yield from self._vectors()

    def _orphans(self) -> list[str]:
        """Remove rows of documents that do not exist."""
        done: list[str] = []
        known = sa.select(documents.c.id)
        with self._store.write() as tx:
            for table, words in ((chunks, "chunks"), (document_tags, "tags")):
                gone = tx.execute(
                    sa.delete(table).where(table.c.document_id.not_in(known))
                ).rowcount
                done += [f"removed {gone} {words} of documents that do not exist"] if gone else []
            if done:
                tx.corpus_changed(everywhere=True)
        return done

    def _counts(self) -> list[str]:
        found = (
            sa.select(sa.func.count())
            .where(chunks.c.document_id == documents.c.id)
            .scalar_subquery()
        )
        with self._store.write() as tx:
            query = sa.select(documents.c.id, documents.c.chunk_count, found.label("found"))
            wrong = tx.execute(query.where(documents.c.chunk_count != found)).all()
            tx.execute(
                sa.update(documents)
                .where(documents.c.chunk_count != found)
                .values(chunk_count=found)
            )
        return [
            f"document {row.id} has {row.found} chunks, not {row.chunk_count}: corrected"
            + (
                "; what is missing comes back when its file is added again"
                if row.found < row.chunk_count
                else ""
            )
            for row in wrong
        ]

    def _full_text(self) -> Iterator[Event]:
        with self._store.read() as tx:
            owners = list(tx.connection.scalars(sa.select(organizations.c.id)))
        added = total = 0
        for owner in owners:
            with self._store.write() as tx:
                index = tx.text_index(owner).maintenance
                # A broken structure is dropped and built again; one that only lacks rows is filled.
                problem = _attempt(tx, index.check)
                if problem:
                    index.drop()
                stray = index.remove_strays()
                if problem or stray:
                    tx.corpus_changed(everywhere=True)
                own = tx.scalar(sa.select(sa.func.count()).where(chunks.c.organization_id == owner))
                total += own - index.count()
                numbers = self._add_text(tx, owner, 0)
            if problem:
                yield f"made the full-text index anew ({problem})"
            if stray:
                yield f"removed {stray} entries of full text that belong to no chunk"
            while numbers:
                added += len(numbers)
                yield Progress("full text", added, total)
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
            problem = tx.vectors.maintenance.check() if tx.vectors else None
            begun = space is None and bool(spaces_being_built(tx))
            total = tx.scalar(sa.select(sa.func.count()).select_from(chunks))
        if problem or begun:
            yield from self._new_vectors(problem or "it was not finished")
        elif space:
            with self._store.write() as tx:
                vectors = tx.vector_index(space.index_name).maintenance
                stray = vectors.remove_strays()
                missing = total - vectors.count()
            if stray:
                yield f"removed {stray} vectors that belong to no chunk"
            added = 0
            for added in self._embedding.add_missing():
                yield Progress("vectors", added, missing)
            if added:
                yield f"embedded {added} chunks that had no vector"
            yield from self._compacted()

    def _new_vectors(self, problem: str) -> Iterator[Event]:
        lacking = self._embedding.problem
        if lacking:
            yield f"the vector index is damaged ({problem}), but cannot be made anew: {lacking}"
            return
        with self._store.write() as tx:
            space = active_space(tx)
            if space:
                drop_space(tx, space)
        step = yield from self._rebuilt(copy=False)
        yield f"made the vector index anew with {step.done} vectors ({problem})"

    def _compacted(self) -> Iterator[Event]:
        before = None if self._embedding is NO_EMBEDDING else self._fill()
        if before is None or not before.is_fragmented:
            return
        yield from self._rebuilt(copy=True)
        after = self._fill()
        yield f"compacted the vector index from {before.bytes} to {after.bytes if after else 0} bytes"

    def _fill(self) -> VectorFill | None:
        with self._store.read() as tx:
            return self._embedding.fill(tx)

    def _rebuilt(self, *, copy: bool) -> Generator[Event, None, Step]:
        rebuild = self._embedding.rebuild(copy=copy)
        while not (step := rebuild.step(_STEP_SECONDS)).finished:
            yield Progress("vectors", step.done, step.total)
        return step


def _attempt(tx: Tx, check: Callable[[], str | None]) -> str | None:
    """Check in a savepoint, since a damaged table may end the transaction's statement half-way."""
    with tx.savepoint():
        return check()
