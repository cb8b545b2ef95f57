"""The retrieval pipeline: narrow → retrieve → fuse → rerank.

A retriever that fails is reported and the others answer; a reranker that fails is reported and leaves the order as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Candidate, Hit, RetrievalQuery
from kb_framework.errors import ConfigInvalid, InvalidInput, KBError
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.store.chunks import allowed_chunks
from kb_framework.store.sql import among
from kb_framework.store.store import Tx
from kb_framework.store.tables import chunks

log = logging.getLogger("kb.retrieval")

# How many hits are ordered anew: what a person or a model reads, and some that deserve to be among them.
_RERANKED = 50


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a search found, what each retriever said, what went wrong on the way, and the query as plugins narrowed it."""

    hits: list[Hit]
    lists: dict[str, list[Candidate]]
    degraded: dict[str, str]
    milliseconds: dict[str, float]
    query: RetrievalQuery
    hints: list[str]


class Retrieval:
    def __init__(self, plugins: Plugins, host_settings: HostSettings, build: Callable[[str, str], Any]) -> None:
        self._plugins = plugins
        self._reranker_name = host_settings.search_reranker
        self._build = build
        self._built: dict[str, Any] = {}

    def _retriever(self, name: str) -> Any:
        if name not in self._built:
            item = self._plugins.retrievers.get(name)
            if item is None:
                known = ", ".join(item.name for item in self._plugins.retrievers)
                raise InvalidInput(f"there is no retriever {name!r}; there are: {known}", field="mode")
            self._built[name] = self._build(self._plugins.retrievers.plugin_of(name), item.target)
        return self._built[name]

    def narrowed(self, query: RetrievalQuery, tx: Tx) -> RetrievalQuery:
        """The query without what plugins take out of every search."""
        narrowings = self._plugins.narrow_retrieval(query, query.actor, query.purpose, tx)
        conditions = [*narrowings, *([] if query.condition is None else [query.condition])]
        return query._replace(condition=sa.and_(*conditions) if conditions else None)

    def search(self, query: RetrievalQuery, tx: Tx) -> Retrieved:
        query = self.narrowed(query, tx)
        lists: dict[str, list[Candidate]] = {}
        degraded: dict[str, str] = {}
        milliseconds: dict[str, float] = {}
        weights: dict[str, float] = {}
        hints: list[str] = []
        for name in query.retrievers:
            started = time.perf_counter()
            try:
                retriever = self._retriever(name)
                with tx.attempt():
                    lists[name] = _permitted(query, retriever.retrieve(query, tx), tx)
                if hasattr(retriever, "weight"):
                    weights[name] = retriever.weight(query)
                if hasattr(retriever, "hint") and (hint := retriever.hint(query, tx)):
                    hints.append(hint)
            except Exception as error:
                if len(query.retrievers) == 1:
                    raise
                degraded[name] = _words(error) if isinstance(error, KBError) else f"{name} search failed"
                log.warning("retriever %s failed", name, exc_info=None if isinstance(error, KBError) else error)
            milliseconds[name] = round((time.perf_counter() - started) * 1000, 3)
        hits = self._fuse(query._replace(weights=weights), lists, tx)
        if len(query.retrievers) > 1 and hits and self._reranker_name != "none":
            started = time.perf_counter()
            hits = self._rerank(query, hits, tx, degraded)
            milliseconds["rerank"] = round((time.perf_counter() - started) * 1000, 3)
        return Retrieved(hits, lists, degraded, milliseconds, query, hints)

    def _fuse(self, query: RetrievalQuery, lists: dict[str, list[Candidate]], tx: Tx) -> list[Hit]:
        if len(lists) > 1:
            return self._plugins.fuse_hits(query, lists, tx)
        return [
            Hit(candidate.chunk, candidate.score, {name: rank}, {name: candidate.score})
            for name, found in lists.items()
            for rank, candidate in enumerate(found, 1)
        ]

    def _rerank(self, query: RetrievalQuery, hits: list[Hit], tx: Tx, degraded: dict[str, str]) -> list[Hit]:
        name = self._reranker_name
        head = {hit.chunk: hit for hit in hits[:_RERANKED]}
        try:
            with tx.attempt():
                ordered = self._reranker(name).rerank(query, list(head.values()), tx)
            first = {hit.chunk: hit for hit in ordered if hit.chunk in head}
        except Exception as error:
            degraded["rerank"] = _words(error) if isinstance(error, KBError) else f"the reranker {name!r} failed"
            log.warning("reranker %s failed", name, exc_info=None if isinstance(error, KBError) else error)
            return hits
        return [*first.values(), *(hit for hit in hits if hit.chunk not in first)]

    def _reranker(self, name: str) -> Any:
        key = f"reranker {name}"
        if key not in self._built:
            item = self._plugins.rerankers.get(name)
            if item is None:
                known = ", ".join(item.name for item in self._plugins.rerankers) or "none"
                raise ConfigInvalid(f"the reranker {name!r} is not available (KB_SEARCH_RERANKER); available: {known}")
            self._built[key] = self._build(self._plugins.rerankers.plugin_of(name), item.target)
        return self._built[key]


def _permitted(query: RetrievalQuery, found: list[Candidate], tx: Tx) -> list[Candidate]:
    """What a retriever may return of what it did: no retriever can bring back what a plugin takes out of searches."""
    if query.condition is None or not found:
        return found
    numbers = [candidate.chunk for candidate in found]
    allowed = set(tx.connection.scalars(allowed_chunks(query, tx).where(among(chunks.c.seq, numbers))))
    return [candidate for candidate in found if candidate.chunk in allowed]


def _words(error: KBError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message
