"""Building a vector index beside the active one, and letting it take over.

The work is done in steps: each ends within a given time and leaves the database consistent, so that a caller can show
progress, stop at any moment and go on later, in this process or another. Until the last step the active space is untouched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb_framework.api.parts import Store, Tx
from kb_framework.api.spaces import (
    Space,
    activate_space,
    active_space,
    create_space,
    drop_space,
    spaces_being_built,
)
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import Conflict, EmbedderUnavailable
from kb_models.texts import embedded_text

if TYPE_CHECKING:
    from kb_models.embedding import Embedding

_BATCH = 256
# What may be left to do under the write lock, when the new space takes over.
_REST = 64
# Where others write faster than this embeds, the last step waits no longer for a small rest.
_PATIENCE = 20
# A copy is told from a new embedding by its name: half of one must never be completed by the other.
_COPY = "_copy"


@dataclass(frozen=True, slots=True)
class Step:
    """How far a rebuild is."""

    finished: bool
    done: int
    total: int
    space: Space | None


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    organization_id: str
    content_hash: str
    content: str
    title: str
    metadata: Mapping[str, Any]

    @property
    def text(self) -> str:
        return embedded_text(self.title, self.content, self.metadata)


def _without_vector(tx: Tx, space: Space, after: int) -> sa.Select:
    columns = (
        chunks.c.seq,
        chunks.c.organization_id,
        chunks.c.content_hash,
        chunks.c.content,
        documents.c.title,
    )
    query = sa.select(*columns, chunks.c.metadata).join(
        documents, documents.c.id == chunks.c.document_id
    )
    return query.where(
        chunks.c.seq > after, ~tx.vector_index(space.index_name).has(chunks.c.seq)
    ).order_by(chunks.c.seq)


class VectorRebuild:
    """Embeds every chunk anew; or, as a copy, moves the vectors that are there into an index without holes."""

    def __init__(self, store: Store, embedding: Embedding, *, copy: bool = False) -> None:
        self._store = store
        self._embedding = embedding
        self._copy = copy
        self._space: Space | None = None
        self._after = 0
        self._waited = 0

    def step(self, seconds: float) -> Step:
        """Work for about so long."""
        if self._embedding.problem and not self._copy:
            raise EmbedderUnavailable(self._embedding.problem)
        end = time.monotonic() + seconds
        while True:
            # Another process may have done the same work meanwhile, and finished it or given it up.
            if self._space and self._is_active(self._space):
                return self._progress(self._space, finished=True)
            space = self._begin()
            if space is None:
                return Step(True, 0, 0, None)
            with self._store.read() as tx:
                batch = self._missing(tx, space, self._after, _BATCH)
                vectors = self._vectors(tx, batch) if len(batch) > _REST else {}
            if vectors:
                self._add(space, batch, vectors)
                self._after = batch[-1].number
            elif self._take_over(space):
                # A small rest is done under the write lock: where others never stop writing, there always is one.
                return self._progress(space, finished=True)
            else:
                self._after = 0
            if time.monotonic() >= end:
                return self._progress(space, finished=False)

    def _is_active(self, space: Space) -> bool:
        with self._store.read() as tx:
            return active_space(tx) == space

    def _begin(self) -> Space | None:
        """The space that is being built: a former one of the same kind, or a new one."""
        with self._store.read() as tx:
            if self._space in spaces_being_built(tx):
                return self._space
        # An embedder may have to ask another machine for its length: not while others wait to write.
        embedder = None if self._copy else self._embedding.embedder()
        wanted = (embedder.model, embedder.dimensions) if embedder else None
        with self._store.write() as tx:
            active = active_space(tx)
            if wanted is None:
                if active is None:
                    return None
                wanted = active.model, active.dimensions
            model, dimensions = wanted
            self._space, self._after, self._waited = None, 0, 0
            for space in spaces_being_built(tx):
                if self._copy and not space.index_name.endswith(_COPY):
                    raise Conflict(
                        "chunks are being embedded anew",
                        hint="kb reindex goes on with it; compact afterwards",
                    )
                same = (space.model, space.dimensions, space.index_name.endswith(_COPY)) == (
                    model,
                    dimensions,
                    self._copy,
                )
                if (
                    same
                    and self._space is None
                    and not tx.vector_index(space.index_name).maintenance.check()
                ):
                    self._space = space
                else:
                    drop_space(tx, space)
            if self._space is None:
                self._space = create_space(
                    tx, model, dimensions, active=False, suffix=_COPY if self._copy else ""
                )
            return self._space

    def _missing(self, tx: Tx, space: Space, after: int, limit: int) -> list[_Chunk]:
        query = _without_vector(tx, space, after)
        active = active_space(tx) if self._copy else None
        if active:
            query = query.where(tx.vector_index(active.index_name).has(chunks.c.seq))
        return [_Chunk(*row) for row in tx.execute(query.limit(limit))]

    def _vectors(self, tx: Tx, batch: Sequence[_Chunk]) -> dict[int, bytes]:
        if not batch:
            return {}
        if self._copy:
            numbers = [chunk.number for chunk in batch]
            return tx.vectors.read(numbers, anywhere=True) if tx.vectors else {}
        encoded = self._embedding.vectors([chunk.text for chunk in batch])
        return {chunk.number: vector for chunk, vector in zip(batch, encoded, strict=True)}

    def _add(self, space: Space, batch: Sequence[_Chunk], vectors: dict[int, bytes]) -> None:
        with self._store.write() as tx:
            # In the meantime somebody may have removed or changed a chunk, added these vectors, or finished the whole.
            if space in spaces_being_built(tx):
                add_vectors(tx, space, batch, vectors)

    def _take_over(self, space: Space) -> bool:
        """In one transaction: add what others wrote in the meantime, make the space the active one, drop the former."""
        with self._store.write() as tx:
            if space not in spaces_being_built(tx):
                # Another process has finished the same work, or given it up.
                return active_space(tx) == space
            rest = self._missing(tx, space, 0, _REST + 1)
            self._waited += 1
            if len(rest) > _REST and self._waited < _PATIENCE:
                return False
            while rest:
                add_vectors(tx, space, rest, self._vectors(tx, rest))
                rest = self._missing(tx, space, 0, _BATCH)
            tx.vector_index(space.index_name).maintenance.remove_strays()
            activate_space(tx, space)
            return True

    def _progress(self, space: Space, *, finished: bool) -> Step:
        with self._store.read() as tx:
            total = tx.scalar(sa.select(sa.func.count()).select_from(chunks))
            done = total if finished else tx.vector_index(space.index_name).maintenance.count()
        return Step(finished, min(done, total), total, space)


def add_vectors(tx: Tx, space: Space, batch: Sequence[_Chunk], vectors: dict[int, bytes]) -> int:
    """Add the vectors of those chunks that are still as they were and have none yet; how many that was."""
    query = sa.select(chunks.c.seq, chunks.c.content_hash).where(
        among(chunks.c.seq, [chunk.number for chunk in batch]),
        ~tx.vector_index(space.index_name).has(chunks.c.seq),
    )
    still = {row.seq: row.content_hash for row in tx.execute(query)}
    by_organization: dict[str, list[tuple[int, bytes]]] = {}
    for chunk in batch:
        if still.get(chunk.number) == chunk.content_hash and chunk.number in vectors:
            by_organization.setdefault(chunk.organization_id, []).append(
                (chunk.number, vectors[chunk.number])
            )
    for organization_id, rows in by_organization.items():
        tx.vector_index(space.index_name, organization_id).add(rows)
    return sum(map(len, by_organization.values()))


def add_missing_vectors(store: Store, embedding: Embedding) -> Iterator[int]:
    """Embed the chunks that the active space lacks, if the embedder is the one that made it; how many those are so far."""
    with store.read() as tx:
        space = active_space(tx)
    if space is None or embedding.problem or embedding.embedder().model != space.model:
        return
    after = added = 0
    while True:
        with store.read() as tx:
            batch = [
                _Chunk(*row) for row in tx.execute(_without_vector(tx, space, after).limit(_BATCH))
            ]
        if not batch:
            return
        encoded = embedding.vectors([chunk.text for chunk in batch])
        vectors = {chunk.number: vector for chunk, vector in zip(batch, encoded, strict=True)}
        with store.write() as tx:
            if active_space(tx) != space:
                return
            added += add_vectors(tx, space, batch, vectors)
            tx.corpus_changed(everywhere=True)
        yield added
        after = batch[-1].number
