"""The doctor's check of the database: its file, full text, chunk counts, vectors and the embedder."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from kb_models.api import NO_EMBEDDING, Embedding
from sqlalchemy import exc

from kb_framework.api import Finding, Progress
from kb_framework.api.parts import Store, Tx
from kb_framework.api.tables import chunks, documents, organizations
from kb_framework.errors import KBError
from kb_maintenance.repair import Repair

_REPAIR = "kb doctor --repair"
_DAMAGED = "kb doctor --repair; if that does not help, restore a backup, or save what can be read with kb export"
# How many documents with a wrong count are named.
_NAMED = 5


class DatabaseCheck:
    """Check the database and what is derived in it."""

    def __init__(self, store: Store, embedding: Embedding = NO_EMBEDDING) -> None:
        self._store = store
        self._embedding = embedding

    def check(self) -> Iterator[Finding]:
        engine = self._store.engine
        if engine.read_only:
            yield Finding(
                "warning", "database", f"the database can only be read: {engine.read_only}"
            )
        else:
            yield Finding("ok", "driver", ", ".join(engine.describe().values()))
        sound = True
        try:
            with self._store.read() as tx:
                for finding in self._contents(tx):
                    sound = False
                    yield finding
                count = _chunk_count(tx)
        except (KBError, exc.DatabaseError) as error:
            yield Finding("error", "database", str(error), _DAMAGED)
            return
        if sound:
            yield Finding("ok", "database", f"{count} chunks, full text and vectors agree")

    def repair(self) -> Iterator[str | Progress]:
        return Repair(self._store, self._embedding).steps()

    def _contents(self, tx: Tx) -> Iterator[Finding]:
        yield from self._damage(tx)
        yield from self._text(tx)
        yield from _wrong_counts(tx)
        advice = self._embedding.advice_for_all(tx)
        yield from self._other_embedder(tx)
        yield from self._vectors(tx)
        if words := self._embedding.problem or advice:
            yield Finding("warning", "embedder", words)

    def _damage(self, tx: Tx) -> Iterator[Finding]:
        for problem in self._store.engine.check(tx.connection):
            yield Finding("error", "database", f"the database is damaged: {problem}", _DAMAGED)

    def _text(self, tx: Tx) -> Iterator[Finding]:
        count = _chunk_count(tx)
        owners = list(tx.connection.scalars(sa.select(organizations.c.id)))
        indexed = sum(tx.text_index(owner).maintenance.count() for owner in owners)
        if indexed != count:
            yield Finding(
                "error", "full text", f"{indexed} chunks are indexed, {count} exist", _REPAIR
            )

    def _other_embedder(self, tx: Tx) -> Iterator[Finding]:
        other = None if self._embedding.problem else self._embedding.mismatch(tx)
        if other:
            yield Finding("warning", "embedder", other, "kb reindex")

    def _vectors(self, tx: Tx) -> Iterator[Finding]:
        if tx.vectors is None:
            return
        index = tx.vectors.maintenance
        if broken := index.check():
            yield Finding("error", "vectors", f"the vector index is damaged ({broken})", _REPAIR)
            return
        fill = index.fill()
        if fill.is_fragmented:
            words = f"{fill.share:.0%} of the vector index is in use"
            yield Finding("warning", "vectors", words, "kb reindex --compact makes it smaller")
        count = _chunk_count(tx)
        vectors = index.count()
        if vectors > count:
            yield Finding("error", "vectors", f"{vectors} vectors for {count} chunks", _REPAIR)
        elif vectors < count:
            words = f"{count - vectors} of {count} chunks have no vector"
            yield Finding("warning", "vectors", words, "kb reindex")


def _chunk_count(tx: Tx) -> int:
    return tx.scalar(sa.select(sa.func.count()).select_from(chunks))


def _wrong_counts(tx: Tx) -> Iterator[Finding]:
    """Find documents whose recorded number of chunks is wrong."""
    found = sa.func.count(chunks.c.seq)
    wrong = sa.select(documents.c.id, documents.c.chunk_count, found.label("found"))
    wrong = wrong.outerjoin(chunks, chunks.c.document_id == documents.c.id).group_by(documents.c.id)
    for row in tx.execute(wrong.having(found != documents.c.chunk_count).limit(_NAMED)):
        words = f"document {row.id} has {row.found} of {row.chunk_count} chunks"
        yield Finding("error", "chunks", words)
