"""The retrieval pipeline: narrow → retrieve → fuse. A retriever that fails is reported and the others answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Candidate, Hit, RetrievalQuery
from kb_framework.errors import InvalidInput, KBError
from kb_framework.plugins import Plugins
from kb_framework.store.chunks import allowed_chunks
from kb_framework.store.sql import among
from kb_framework.store.store import Tx
from kb_framework.store.tables import chunks

log = logging.getLogger("kb.retrieval")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a search found, what each retriever said, what went wrong on the way, and the query as plugins narrowed it."""

    hits: list[Hit]
    lists: dict[str, list[Candidate]]
    degraded: dict[str, str]
    milliseconds: dict[str, float]
    query: RetrievalQuery


class Retrieval:
    def __init__(self, plugins: Plugins, build: Callable[[str, str], Any]) -> None:
        self._plugins = plugins
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
        for name in query.retrievers:
            started = time.perf_counter()
            try:
                lists[name] = _permitted(query, self._retriever(name).retrieve(query, tx), tx)
            except Exception as error:
                if len(query.retrievers) == 1:
                    raise
                degraded[name] = _words(error) if isinstance(error, KBError) else f"{name} search failed"
                log.warning("retriever %s failed", name, exc_info=None if isinstance(error, KBError) else error)
            milliseconds[name] = round((time.perf_counter() - started) * 1000, 3)
        return Retrieved(self._fuse(query, lists), lists, degraded, milliseconds, query)

    def _fuse(self, query: RetrievalQuery, lists: dict[str, list[Candidate]]) -> list[Hit]:
        if len(lists) > 1:
            return self._plugins.fuse_hits(query, lists)
        return [
            Hit(candidate.chunk, candidate.score, {name: rank}, {name: candidate.score})
            for name, found in lists.items()
            for rank, candidate in enumerate(found, 1)
        ]


def _permitted(query: RetrievalQuery, found: list[Candidate], tx: Tx) -> list[Candidate]:
    """What a retriever may return of what it did: no retriever can bring back what a plugin takes out of searches."""
    if query.condition is None or not found:
        return found
    numbers = [candidate.chunk for candidate in found]
    allowed = set(tx.connection.scalars(allowed_chunks(query, tx).where(among(chunks.c.seq, numbers))))
    return [candidate for candidate in found if candidate.chunk in allowed]


def _words(error: KBError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message
