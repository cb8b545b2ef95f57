"""Embedding anew, and making the vector index smaller: in steps, so that a caller can show how far it is."""

from __future__ import annotations

import threading

from kb_framework.embedding import Embedding
from kb_framework.errors import Busy, KBError
from kb_framework.settings import HostSettings
from kb_framework.store.backend import VectorFill
from kb_framework.store.store import Store
from kb_framework.vectors import Step, VectorRebuild, measure
from kb_maintenance.models import Compacted, IndexSize, Reindexed

_STEP_SECONDS = 1.0


class ReindexService:
    def __init__(self, store: Store, embedding: Embedding, host_settings: HostSettings) -> None:
        self._store = store
        self._embedding = embedding
        self._configured = host_settings.embedder
        self._rebuilds: dict[str, VectorRebuild] = {}
        self._before: VectorFill | None = None
        self._one_at_a_time = threading.Lock()

    def reindex(self, embedder: str | None = None) -> Reindexed:
        """One step towards vectors of all chunks by the configured, or another, embedder."""
        name = embedder or self._configured
        step = self._step(name, self._embedding.named(embedder), copy=False)
        hint = None
        if step.finished and name != self._configured:
            hint = f"set KB_EMBEDDER={name}: until then search asks with {self._configured}, whose vectors are gone"
        return Reindexed(**_fields(step), hint=hint)

    def compact(self) -> Compacted:
        """One step towards an index without holes."""
        if "copy" not in self._rebuilds:
            self._before = measure(self._store)
        before = self._before
        if before and before.slots <= before.needed:
            size = _size(before)
            return Compacted(finished=True, done=before.rows, total=before.rows, model=None, before=size, after=size)
        step = self._step("copy", self._embedding, copy=True)
        return Compacted(**_fields(step), before=_size(before), after=_size(measure(self._store)) if step.finished else None)

    def _step(self, key: str, embedding: Embedding, *, copy: bool) -> Step:
        if not self._one_at_a_time.acquire(timeout=4 * _STEP_SECONDS):
            raise Busy("the vector index is being rebuilt by another request; try again")
        try:
            rebuild = self._rebuilds.setdefault(key, VectorRebuild(self._store, embedding, copy=copy))
            step = rebuild.step(_STEP_SECONDS)
            if step.finished:
                del self._rebuilds[key]
            return step
        except KBError:
            # What could not begin, or go on, is begun anew when somebody asks again.
            del self._rebuilds[key]
            raise
        finally:
            self._one_at_a_time.release()


def _fields(step: Step) -> dict:
    model = step.space.model if step.space else None
    return {"finished": step.finished, "done": step.done, "total": step.total, "model": model}


def _size(fill: VectorFill | None) -> IndexSize | None:
    return IndexSize(rows=fill.rows, share_in_use=round(fill.share, 4), bytes=fill.bytes) if fill else None
