"""Rebuild or compact the vector index in steps, so that a caller can show progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kb_models.api import NO_EMBEDDING, Embedding, Step, VectorRebuild

from kb_framework.api import Actor, Progress
from kb_framework.api.engine import VectorFill
from kb_framework.api.models import Body
from kb_framework.api.parts import Store
from kb_framework.errors import Busy, KBError
from kb_maintenance.doctor import DoctorService
from kb_maintenance.models import Compacted, IndexSize, Reindexed, ReindexIn

_STEP_SECONDS = 1.0


class ReindexService:
    def __init__(
        self, store: Store, doctor: DoctorService, embedding: Embedding = NO_EMBEDDING
    ) -> None:
        self._store = store
        self._doctor = doctor
        self._embedding = embedding
        self._configured = embedding.name
        self._rebuilds: dict[str, VectorRebuild] = {}
        # What checks of plugins rebuild after the vectors, by embedder, with the last step of those.
        self._others: dict[str, tuple[Step, Iterator[Progress]]] = {}
        self._before: VectorFill | None = None
        self._one_at_a_time = threading.Lock()

    def reindex(self, wanted: ReindexIn, actor: Actor) -> Reindexed:
        """Work for about a second: on the vectors of all chunks, then on what other checks rebuild."""
        embedder = wanted.embedder
        name = embedder or self._configured
        if name not in self._others:
            step = self._step(name, self._embedding.named(embedder), copy=False)
            if not step.finished:
                return Reindexed(**_fields(step))
            self._others[name] = step, self._doctor.rebuilds()
        step, _ = self._others[name]
        if progress := self._other_step(name):
            total = progress.total or progress.done
            return Reindexed(finished=False, done=progress.done, total=total, model=None)
        hint = None
        if name != self._configured:
            hint = f"kb config set embedder {name}: until then searches use {self._configured}, whose vectors are gone"
        return Reindexed(**_fields(step), hint=hint)

    def _other_step(self, name: str) -> Progress | None:
        """Rebuild what checks rebuild for about a second; None when all of it is done."""
        end = time.monotonic() + _STEP_SECONDS
        with self._alone():
            # Taken out, so that after an error the next request begins again.
            step, events = self._others.pop(name)
            for progress in events:
                if time.monotonic() >= end:
                    self._others[name] = step, events
                    return progress
        return None

    def compact(self, _: Body, actor: Actor) -> Compacted:
        """One step towards an index without holes."""
        if "copy" not in self._rebuilds:
            self._before = self._fill()
        before = self._before
        if before and before.slots <= before.needed:
            size = _size(before)
            return Compacted(
                finished=True,
                done=before.rows,
                total=before.rows,
                model=None,
                before=size,
                after=size,
            )
        step = self._step("copy", self._embedding, copy=True)
        return Compacted(
            **_fields(step),
            before=_size(before),
            after=_size(self._fill()) if step.finished else None,
        )

    def _fill(self) -> VectorFill | None:
        with self._store.read() as tx:
            return self._embedding.fill(tx)

    def _step(self, key: str, embedding: Embedding, *, copy: bool) -> Step:
        with self._alone():
            try:
                rebuild = self._rebuilds.get(key)
                if rebuild is None:
                    rebuild = self._rebuilds[key] = embedding.rebuild(copy=copy)
                step = rebuild.step(_STEP_SECONDS)
            except KBError:
                # The next request begins again.
                self._rebuilds.pop(key, None)
                raise
            if step.finished:
                del self._rebuilds[key]
            return step

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._one_at_a_time.acquire(timeout=4 * _STEP_SECONDS):
            raise Busy("the vector index is being rebuilt by another request; try again")
        try:
            yield
        finally:
            self._one_at_a_time.release()


def _fields(step: Step) -> dict:
    model = step.space.model if step.space else None
    return {"finished": step.finished, "done": step.done, "total": step.total, "model": model}


def _size(fill: VectorFill | None) -> IndexSize | None:
    return (
        IndexSize(rows=fill.rows, share_in_use=round(fill.share, 4), bytes=fill.bytes)
        if fill
        else None
    )
