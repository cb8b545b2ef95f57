"""Adding one chunk on purpose: what it is was decided before, and what was pruned stays pruned."""

from __future__ import annotations

import re

import sqlalchemy as sa
from kb_documents.api import content_hash, insert_document
from kb_models.api import NO_EMBEDDING, Embedding
from kb_text.api import token_count

from kb_framework.api import Actor, Changes, ChunkText
from kb_framework.api.jobs import insert_job
from kb_framework.api.parts import Mutation, Plugins, Store, Tx
from kb_framework.api.spaces import Space
from kb_framework.api.sql import among
from kb_framework.api.tables import documents, jobs
from kb_framework.errors import Conflict, EmbedderUnavailable
from kb_knowledge import log
from kb_knowledge.api import AddedChunk, NewChunk
from kb_knowledge.tables import curated, left_over

_TITLE_CHARS = 80


class AddingService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        mutation: Mutation,
        embedding: Embedding = NO_EMBEDDING,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._mutation = mutation
        self._embedding = embedding

    def known(self, texts: list[str], actor: Actor) -> set[str]:
        """Those of the texts that are here, findable or not."""
        by_hash = {content_hash(form): text for text in texts for form in (text, text.strip())}
        with self._store.read(actor.organization_id) as tx:
            here = sa.select(curated.c.content_hash).where(
                tx.owns(curated), among(curated.c.content_hash, list(by_hash))
            )
            return {by_hash[digest] for digest in tx.connection.scalars(here)}

    def add(self, new: NewChunk, actor: Actor) -> AddedChunk:
        """The text as a document of one chunk, found by search at once; or the chunk that has the same text."""
        text = new.text.strip()
        digest = content_hash(text)
        # A chunk that was cut out of a document may end in a space.
        digests = [digest, content_hash(new.text)]
        with self._store.read(actor.organization_id) as tx:
            found = self._existing(tx, digests)
        if found is not None:
            return found
        self._plugins.require_all_loaded()
        vectors = self._embedding.encode([text])
        with self._store.write(actor.organization_id) as tx:
            # Somebody else may have added it meanwhile.
            found = self._existing(tx, digests)
            if found is not None:
                return found
            return self._insert(
                tx, new._replace(text=text), {digest: vectors[0]} if vectors else {}, actor
            )

    def _existing(self, tx: Tx, digests: list[str]) -> AddedChunk | None:
        same = sa.select(curated.c.id, curated.c.document_id, curated.c.is_active)
        same = same.where(tx.owns(curated), among(curated.c.content_hash, digests))
        row = tx.execute(same.order_by(curated.c.is_active.desc(), curated.c.seq).limit(1)).first()
        if row is not None and row.is_active:
            return AddedChunk(row.id, row.document_id, "exists")
        if row is not None:
            raise Conflict(
                f"this text is chunk {row.id}, which was deactivated",
                hint=f"activate it instead: kb chunks activate {row.id}",
                chunk_id=row.id,
                document_id=row.document_id,
            )
        pruned = sa.select(left_over.c.chunk_id).where(
            tx.owns(left_over),
            among(left_over.c.content_hash, digests),
            left_over.c.is_active.is_(False),
        )
        gone = tx.scalar(pruned.limit(1))
        if gone is not None:
            raise Conflict(
                f"this text was chunk {gone}, which was deactivated before it was removed",
                hint="add the document that it came from, and activate the chunk there",
                chunk_id=gone,
            )
        return None

    def _insert(self, tx: Tx, new: NewChunk, vectors: dict[str, bytes], actor: Actor) -> AddedChunk:
        digest = content_hash(new.text)
        # Whoever adds a text says what it is; what was said of it before no longer counts.
        tx.execute(
            sa.delete(left_over).where(tx.owns(left_over), left_over.c.content_hash == digest)
        )
        title = new.source_title or _title(new.text)
        job_id = insert_job(
            tx, actor, "ingest", status="done", filename=title, matched=1, succeeded=1, failed=0
        )
        job = tx.scalar(sa.select(jobs.c.uuid).where(jobs.c.id == job_id))
        values = {
            "doc_type": "research",
            "title": title,
            "path": None,
            "media": "text",
            "lang": None,
            "trust": "secondary",
            "metadata": {
                name: value
                for name in ("source_ref", "source_title")
                if (value := getattr(new, name)) is not None
            },
            "content_hash": digest,
            "bytes": len(new.text.encode()),
            "file": None,
        }
        piece = ChunkText(new.text, {"heading_path": [], "token_count": token_count(new.text)})
        document_id = insert_document(
            tx, values, (), [piece], job, vectors, self._space(tx, vectors)
        )
        tx.execute(sa.update(jobs).where(jobs.c.id == job_id).values(document_id=document_id))
        here = curated.c.document_id == document_id
        curation = {
            "chunk_kind": new.chunk_kind,
            "usage_policy": new.usage_policy,
            "source_type": new.source_type,
            "source_ref": new.source_ref,
            "source_title": new.source_title,
        }
        tx.execute(sa.update(curated).where(here).values(curation))
        log.record(
            tx,
            actor,
            "added_from_research",
            curated,
            here,
            reason=new.reason,
            after={"is_active": True, **curation},
        )
        self._mutation.require_addition(tx, actor, document_id)
        added = sa.select(documents.c.id).where(documents.c.id == document_id)
        self._plugins.documents_changed(Changes("added", actor, added, 1), tx)
        return AddedChunk(tx.scalar(sa.select(curated.c.id).where(here)), document_id, "created")

    def _space(self, tx: Tx, vectors: dict[str, bytes]) -> Space | None:
        try:
            return self._embedding.space_for_writing(tx) if vectors else None
        except EmbedderUnavailable:
            # Another model's vectors are here: the text is found by its words, its vectors come with `kb reindex`.
            return None


def _title(text: str) -> str:
    words = re.sub(r"^[#>*\-\s]+", "", text.splitlines()[0]).strip() or text.strip()
    return words if len(words) <= _TITLE_CHARS else words[: _TITLE_CHARS - 1].rstrip() + "…"
