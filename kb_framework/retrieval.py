"""The retrieval pipeline: narrow → retrieve → fuse → rerank.

A retriever that fails is reported and the others answer; a reranker that fails is reported and leaves the order as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Candidate, Hit, RetrievalQuery
from kb_framework.columns import Candidates, Hits
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
    """What a search found, what each retriever said, what went wrong on the way, and the query as plugins narrowed it.

    Each chunk is once among the hits.
    """

    hits: Sequence[Hit]
    lists: Mapping[str, Sequence[Candidate]]
    degraded: dict[str, str]
    milliseconds: dict[str, float]
    query: RetrievalQuery
    hints: list[str]


@dataclass(slots=True)
class _Search:
    """One of the searches on their way."""

    query: RetrievalQuery
    lists: dict[str, Candidates] = field(default_factory=dict)
    degraded: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    hits: Sequence[Hit] = ()
    error: Exception | None = None

    def fail(self, name: str, error: Exception) -> None:
        """A retriever has failed: others may answer."""
        if len(self.query.retrievers) == 1:
            self.error = error
            return
        self.degraded[name] = _words(error) if isinstance(error, KBError) else f"{name} search failed"
        log.warning("retriever %s failed", name, exc_info=None if isinstance(error, KBError) else error)

    @property
    def found(self) -> Retrieved:
        return Retrieved(self.hits, self.lists, self.degraded, self.milliseconds, self.query, self.hints)


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
        (found,) = self.search_all([query], tx)
        if isinstance(found, Exception):
            raise found
        return found

    def search_all(self, queries: Sequence[RetrievalQuery], tx: Tx) -> list[Retrieved | Exception]:
        """What each of several searches found, or why it failed; what is the same for all of them is done once."""
        searches = [_Search(query) for query in queries]
        self._narrow(searches, tx)
        for name in dict.fromkeys(name for query in queries for name in query.retrievers):
            part = [search for search in searches if name in search.query.retrievers and not search.error]
            started = time.perf_counter()
            self._retrieve(name, part, tx)
            for search in part:
                search.milliseconds[name] = round((time.perf_counter() - started) * 1000 / len(part), 3)
        going = [search for search in searches if not search.error]
        self._permit(going, tx)
        self._fuse([search for search in going if not search.error], tx)
        if self._reranker_name != "none":
            for search in searches:
                if len(search.query.retrievers) > 1 and search.hits and not search.error:
                    started = time.perf_counter()
                    search.hits = self._rerank(search.query, search.hits, tx, search.degraded)
                    search.milliseconds["rerank"] = round((time.perf_counter() - started) * 1000, 3)
        return [search.error or search.found for search in searches]

    def _narrow(self, searches: list[_Search], tx: Tx) -> None:
        known: dict[Hashable, RetrievalQuery] = {}
        for search in searches:
            query = search.query
            try:
                if self._plugins.narrows_by_query:
                    search.query = self.narrowed(query, tx)
                    continue
                # Those who may find the same have the same condition, so that it is looked at once.
                key = (query.actor, query.purpose, None if query.condition is None else id(query.condition))
                if key not in known:
                    known[key] = self.narrowed(query, tx)
                search.query = query._replace(condition=known[key].condition)
            except Exception as error:  # noqa: BLE001 - it costs this search alone
                search.error = error

    def _retrieve(self, name: str, part: list[_Search], tx: Tx) -> None:
        """Ask one retriever, for all at once if it can; whatever it raises then, each is asked alone."""
        try:
            retriever = self._retriever(name)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            for search in part:
                search.fail(name, error)
            return
        found: list[Candidates] | None = None
        if len(part) > 1 and hasattr(retriever, "retrieve_all"):
            try:
                with tx.attempt():
                    found = [Candidates.of(each) for each in retriever.retrieve_all([search.query for search in part], tx)]
            except Exception as error:  # noqa: BLE001 - one of them may be the reason
                log.info("retriever %s is asked one by one: %s", name, type(error).__name__)
        for number, search in enumerate(part):
            query = search.query
            try:
                if found is not None and len(found) == len(part):
                    search.lists[name] = found[number]
                else:
                    with tx.attempt():
                        search.lists[name] = Candidates.of(retriever.retrieve(query, tx))
                if hasattr(retriever, "weight"):
                    search.weights[name] = retriever.weight(query)
                if hasattr(retriever, "hint") and (hint := retriever.hint(query, tx)):
                    search.hints.append(hint)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                search.fail(name, error)

    def _permit(self, searches: list[_Search], tx: Tx) -> None:
        """Drop what a retriever may not return: none can bring back what a plugin takes out of searches."""
        by_condition: dict[int, list[_Search]] = {}
        for search in searches:
            if search.query.condition is not None and any(search.lists.values()):
                by_condition.setdefault(id(search.query.condition), []).append(search)
        for same in by_condition.values():
            numbers = {chunk for search in same for found in search.lists.values() for chunk in found.numbers}
            try:
                with tx.attempt():
                    query = allowed_chunks(same[0].query, tx).where(among(chunks.c.seq, numbers))
                    allowed = set(tx.connection.scalars(query))
            except Exception as error:  # noqa: BLE001 - nothing is returned that was not looked at
                for search in same:
                    search.error = error
                continue
            if len(allowed) < len(numbers):
                for search in same:
                    search.lists = {name: found.among(allowed) for name, found in search.lists.items()}

    def _fuse(self, searches: list[_Search], tx: Tx) -> None:
        several = [search for search in searches if len(search.lists) > 1]
        for search in searches:
            if len(search.lists) <= 1:
                search.hits = next((Hits.alone(name, found) for name, found in search.lists.items()), ())
        queries = [search.query._replace(weights=search.weights) for search in several]
        made = self._plugins.fuse_many(queries, [search.lists for search in several], tx) if several else None
        for number, search in enumerate(several):
            try:
                search.hits = made[number] if made else _once(self._plugins.fuse_hits(queries[number], search.lists, tx))
            except Exception as error:  # noqa: BLE001 - it costs this search alone
                search.error = error

    def _rerank(self, query: RetrievalQuery, hits: Sequence[Hit], tx: Tx, degraded: dict[str, str]) -> Sequence[Hit]:
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


def _once(hits: Iterable[Hit]) -> list[Hit]:
    found: dict[int, Hit] = {}
    for hit in hits:
        found.setdefault(hit.chunk, hit)
    return list(found.values())


def _words(error: KBError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message
