"""The retrieval pipeline: narrow → retrieve → permit → fuse → permit → rerank.

A retriever that fails is reported and the others answer; a fuser that fails is reported and the next one is asked; a reranker
that fails is reported and leaves the order as it was. Whatever a plugin returns, no search shows a chunk that was not permitted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from kb_framework.api import Candidate, Hit, RetrievalQuery
from kb_framework.api.chunks import allowed_chunks
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks
from kb_framework.chosen import Chosen
from kb_framework.discovery import HOST_DISTRIBUTION
from kb_framework.errors import (
    ConfigInvalid,
    EmbedderUnavailable,
    InvalidInput,
    KBError,
    PluginFailed,
    StoreUnusable,
)
from kb_framework.pipelines.columns import Candidates, Hits, checked_hits
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.storage.store import Tx

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
    # The chunks of the lists; all of them may be shown.
    permitted: set[int] = field(default_factory=set)
    hits: Sequence[Hit] = ()
    failures: dict[str, Exception] = field(default_factory=dict)
    error: Exception | None = None

    def fail(self, name: str, error: Exception, tx: Tx) -> None:
        """A retriever has failed: others may answer."""
        self.failures[name] = error
        if len(self.query.retrievers) == 1:
            self.error = error
            return
        known = error if isinstance(error, KBError) else tx.engine.explain(error)
        self.degraded[name] = _words(known) if known else f"{name} search failed"
        # The answer says so too.
        log.info("retriever %s failed: %s", name, self.degraded[name])

    def refuse_emptiness(self) -> None:
        """Fail instead of finding nothing where every retriever failed, or one because of the database."""
        if self.hits or not self.failures:
            return
        failures = sorted(
            self.failures.values(), key=lambda error: isinstance(error, EmbedderUnavailable)
        )
        lost = [error for error in failures if isinstance(error, exc.DBAPIError | StoreUnusable)]
        if lost:
            self.error = lost[0]
        elif len(failures) == len(self.query.retrievers):
            first = failures[0]
            words = ", ".join(self.degraded.values())
            self.error = (
                first
                if isinstance(first, KBError)
                else PluginFailed(f"every retriever failed: {words}", hint="kb doctor")
            )

    @property
    def found(self) -> Retrieved:
        return Retrieved(
            self.hits, self.lists, self.degraded, self.milliseconds, self.query, self.hints
        )


class Retrieval:
    def __init__(
        self, plugins: Plugins, host_settings: HostSettings, build: Callable[[str, str], Any]
    ) -> None:
        self._plugins = plugins
        self._build = build
        self._retrievers: dict[str, Chosen[Any]] = {}
        self._reranker: Chosen[Any] = Chosen(
            plugins,
            plugins.rerankers,
            build,
            host_settings.search_reranker,
            variable="KB_SEARCH_RERANKER",
        )

    def _retriever(self, name: str) -> Any:
        chosen = self._retrievers.get(name) or Chosen(
            self._plugins, self._plugins.retrievers, self._build, name
        )
        if not chosen.is_known:
            known = ", ".join(item.name for item in self._plugins.retrievers)
            raise InvalidInput(f"there is no retriever {name!r}; there are: {known}", field="mode")
        return self._retrievers.setdefault(name, chosen).get()

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
            part = [
                search
                for search in searches
                if name in search.query.retrievers and not search.error
            ]
            started = time.perf_counter()
            self._retrieve(name, part, tx)
            for search in part:
                search.milliseconds[name] = round(
                    (time.perf_counter() - started) * 1000 / len(part), 3
                )
        going = [search for search in searches if not search.error]
        self._permit(going, tx)
        self._fuse([search for search in going if not search.error], tx)
        if self._reranker.name != "none":
            for search in searches:
                if len(search.query.retrievers) > 1 and search.hits and not search.error:
                    started = time.perf_counter()
                    search.hits = self._rerank(search.query, search.hits, tx, search.degraded)
                    search.milliseconds["rerank"] = round((time.perf_counter() - started) * 1000, 3)
        for search in searches:
            if not search.error:
                search.refuse_emptiness()
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
                key = (
                    query.actor,
                    query.purpose,
                    None if query.condition is None else id(query.condition),
                )
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
                search.fail(name, self._blamed(name, error, tx), tx)
            return
        found: list[Candidates] | None = None
        if len(part) > 1 and hasattr(retriever, "retrieve_all"):
            try:
                with tx.attempt():
                    found = [
                        Candidates.checked(each)
                        for each in retriever.retrieve_all([search.query for search in part], tx)
                    ]
            except Exception as error:  # noqa: BLE001 - one of them may be the reason
                log.info("retriever %s is asked one by one: %s", name, type(error).__name__)
        for number, search in enumerate(part):
            query = search.query
            try:
                if found is not None and len(found) == len(part):
                    search.lists[name] = found[number]
                else:
                    with tx.attempt():
                        search.lists[name] = Candidates.checked(retriever.retrieve(query, tx))
                if hasattr(retriever, "weight"):
                    search.weights[name] = float(retriever.weight(query))
                if hasattr(retriever, "hint") and (hint := retriever.hint(query, tx)):
                    search.hints.append(str(hint))
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                search.lists.pop(name, None)
                search.fail(name, self._blamed(name, error, tx), tx)

    def _blamed(self, retriever: str, error: Exception, tx: Tx) -> Exception:
        """The error with the name of the plugin, unless it explains itself or is the database's."""
        if isinstance(
            error, KBError | exc.OperationalError | exc.InterfaceError
        ) or tx.engine.explain(error):
            return error
        plugin = self._plugins.retrievers.plugin_of(retriever)
        told = self._plugins.report(plugin, f"the retriever {retriever!r}", error)
        told.__cause__ = error
        return told

    def _permit(self, searches: list[_Search], tx: Tx) -> None:
        """Drop what a retriever may not return: none can bring back what a plugin takes out of searches."""
        by_condition: dict[int, list[_Search]] = {}
        for search in searches:
            search.permitted = {chunk for found in search.lists.values() for chunk in found.numbers}
            # Without a condition only the organization is left to check, which the built-in retrievers keep to.
            if search.permitted and (
                search.query.condition is not None or self._outside & search.lists.keys()
            ):
                by_condition.setdefault(id(search.query.condition), []).append(search)
        for same in by_condition.values():
            numbers = {chunk for search in same for chunk in search.permitted}
            try:
                allowed = self._allowed(same[0].query, numbers, tx)
            except Exception as error:  # noqa: BLE001 - nothing is returned that was not looked at
                for search in same:
                    search.error = error
                continue
            if len(allowed) < len(numbers):
                for search in same:
                    search.permitted &= allowed
                    search.lists = {
                        name: found.among(allowed) for name, found in search.lists.items()
                    }

    @cached_property
    def _outside(self) -> set[str]:
        """The retrievers that do not ship with the host."""
        shipped = {
            info.name for info in self._plugins.infos if info.distribution == HOST_DISTRIBUTION
        }
        return {
            item.name
            for item in self._plugins.retrievers
            if self._plugins.retrievers.plugin_of(item.name) not in shipped
        }

    def _allowed(self, query: RetrievalQuery, numbers: Collection[int], tx: Tx) -> set[int]:
        """Those of the chunks that the search may show."""
        with tx.attempt():
            return set(
                tx.connection.scalars(allowed_chunks(query, tx).where(among(chunks.c.seq, numbers)))
            )

    def _fuse(self, searches: list[_Search], tx: Tx) -> None:
        several = [search for search in searches if len(search.lists) > 1]
        for search in searches:
            if len(search.lists) <= 1:
                search.hits = next(
                    (Hits.alone(name, found) for name, found in search.lists.items()), ()
                )
        queries = [search.query._replace(weights=search.weights) for search in several]
        lists = [search.lists for search in several]
        made = self._plugins.fuse_hits(queries, lists, tx, [search.degraded for search in several])
        for search, hits in zip(several, made, strict=True):
            try:
                if isinstance(hits, PluginFailed):
                    raise hits
                search.hits = self._only_permitted(search, hits, tx)
            except Exception as error:  # noqa: BLE001 - it costs this search alone
                search.error = error

    def _only_permitted(self, search: _Search, hits: Sequence[Hit], tx: Tx) -> Sequence[Hit]:
        """A fuser's ranking, each chunk once, without what the search may not show."""
        numbers = hits.numbers if isinstance(hits, Hits) else [hit.chunk for hit in hits]
        different = set(numbers)
        added = different - search.permitted
        permitted = (
            search.permitted | self._allowed(search.query, added, tx) if added else search.permitted
        )
        if len(different) == len(numbers) and different <= permitted:
            return hits
        return list({hit.chunk: hit for hit in reversed(hits) if hit.chunk in permitted}.values())[
            ::-1
        ]

    def _rerank(
        self, query: RetrievalQuery, hits: Sequence[Hit], tx: Tx, degraded: dict[str, str]
    ) -> Sequence[Hit]:
        head = {hit.chunk: hit for hit in hits[:_RERANKED]}
        try:
            if missing := self._reranker.missing:
                raise ConfigInvalid(missing)
            with tx.attempt():
                ordered = checked_hits(self._reranker.get().rerank(query, list(head.values()), tx))
            first = {hit.chunk: hit for hit in ordered if hit.chunk in head}
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            if not isinstance(error, KBError):
                error = self._reranker.failed(error)
            degraded["rerank"] = _words(error)
            log.info("reranker %s failed: %s", self._reranker.name, degraded["rerank"])
            return hits
        return [*first.values(), *(hit for hit in hits if hit.chunk not in first)]


def _words(error: KBError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message
