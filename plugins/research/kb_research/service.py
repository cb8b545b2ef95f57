"""Searching every source, and adding what somebody decided to keep."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Set
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from kb_knowledge.api import AddingService, NewChunk

from kb_framework.api import Actor, ResearchQuery, ResearchResult, ResearchSource, Selection
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Plugins, Selector, Store, Tx
from kb_framework.api.times import format_time, now
from kb_framework.errors import KBError, NotFound, StoreUnusable, WrongType
from kb_research.limits import Limit, Limiter
from kb_research.models import (
    AddIn,
    Filters,
    ResearchIn,
    ResearchOut,
    Result,
    SavedIn,
    SavedItem,
    SavedPage,
    SnippetAdded,
)
from kb_research.settings import ResearchSettings
from kb_research.suggest import suggest
from kb_research.tables import saved_items

STORE = "store"
# The filters of a source that does not say which it applies: those with a field of `ResearchQuery`.
_KNOWN = frozenset({"tags", "created_after", "created_before"})

_SAVED = [saved_items.c[name] for name in SavedItem.model_fields]


class ResearchService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        selector: Selector,
        limiter: Limiter,
        build: Callable[[str, str], Any],
        settings: ResearchSettings,
        knowledge_adding: AddingService,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._selector = selector
        self._limiter = limiter
        self._build = build
        self._settings = settings
        self._adding = knowledge_adding
        self._sources: dict[str, Any] = {}

    def search(self, wanted: ResearchIn, actor: Actor) -> ResearchOut:
        """The best of all sources; one that fails is said so, and the others answer."""
        self._limiter.take(
            "research.search", _who(actor), [Limit(self._settings.search_per_minute, 60)]
        )
        query = self._query(wanted, actor)
        self._require_valid(query, actor)
        results: list[Result] = []
        lost: list[str] = []
        unusable: StoreUnusable | None = None
        for item in self._plugins.registry(ResearchSource):
            try:
                source = self._source(item.name)
                if unknown := query.filters.keys() - _filters_of(source):
                    lost.append(f"{item.name} was left out: it has no filter {min(unknown)}")
                    continue
                found = _checked(source.search(query))
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                plugin = self._plugins.registry(ResearchSource).plugin_of(item.name)
                known = isinstance(error, KBError)
                told = (
                    error
                    if known
                    else self._plugins.report(plugin, f"the research source {item.name!r}", error)
                )
                lost.append(f"{item.name} was left out: {told}")
                unusable = error if isinstance(error, StoreUnusable) else unusable
                continue
            results += self._results(item.name, found, actor)
        if unusable and not results:
            # A damaged index is not the same as nothing found.
            raise unusable
        # Scores of different sources have nothing in common but their order: each counts from its own best.
        results.sort(key=lambda result: (-result.score, result.source != STORE, result.source))
        results = results[: wanted.limit]
        return ResearchOut(
            results=results,
            saved_id=self._save(wanted.query, results, actor),
            hint="; ".join(lost) or None,
        )

    def recent(self, asked: PageIn, actor: Actor) -> SavedPage:
        """Return the caller's searches, newest first."""
        page = asked.wanted
        with self._store.read(actor.organization_id) as tx:
            here = self._own(tx, actor)
            total = tx.scalar(sa.select(sa.func.count()).select_from(saved_items).where(*here))
            query = sa.select(*_SAVED).where(*here)
            rows = tx.rows(
                page.cut(query.order_by(saved_items.c.created_at.desc(), saved_items.c.seq.desc()))
            )
        return SavedPage(
            data=[SavedItem.model_validate(row) for row in rows], meta=page.meta(total)
        )

    def saved(self, asked: SavedIn, actor: Actor) -> SavedItem:
        """Return one of the caller's searches with its results."""
        with self._store.read(actor.organization_id) as tx:
            here = *self._own(tx, actor), saved_items.c.id == asked.saved_id
            rows = tx.rows(sa.select(*_SAVED).where(*here))
        if not rows:
            raise NotFound(
                f"there is no search {asked.saved_id}", hint="kb research recent lists yours"
            )
        return SavedItem.model_validate(rows[0])

    def _own(self, tx: Tx, actor: Actor) -> list[sa.ColumnElement[bool]]:
        return [tx.owns(saved_items), saved_items.c.user_id == actor.user_id, *self._kept()]

    def add(self, wanted: AddIn, actor: Actor) -> SnippetAdded:
        limits = [
            Limit(self._settings.add_per_minute, 60),
            Limit(self._settings.add_per_day, 86_400),
        ]
        self._limiter.take("research.add", _who(actor), limits)
        values = wanted.model_dump()
        added = self._adding.add(NewChunk(text=values.pop("snippet_text"), **values), actor)
        return SnippetAdded(**added._asdict())

    def _query(self, wanted: ResearchIn, actor: Actor) -> ResearchQuery:
        filters = wanted.filters or Filters()
        chosen = self._selector.named(filters, "chunks").filters
        return ResearchQuery(
            wanted.query,
            actor,
            wanted.limit,
            tuple(chosen.get("tags") or ()),
            tuple(filters.source_types or ()),
            chosen.get("created_after"),
            chosen.get("created_before"),
            filters.path_prefix,
            chosen,
        )

    def _require_valid(self, query: ResearchQuery, actor: Actor) -> None:
        """Refuse a filter that no source could apply, such as a view that there is not."""
        if query.filters:
            with self._store.read(actor.organization_id) as tx:
                self._selector.condition(Selection(query.filters), tx, "chunks")

    def _source(self, name: str) -> Any:
        if name not in self._sources:
            item = self._plugins.registry(ResearchSource).get(name)
            assert item is not None
            self._sources[name] = self._build(
                self._plugins.registry(ResearchSource).plugin_of(name), item.target
            )
        return self._sources[name]

    def _results(self, source: str, found: list[ResearchResult], actor: Actor) -> list[Result]:
        """What is here is not offered again by another source, least of all what was pruned."""
        if source != STORE:
            known = self._adding.known([item.snippet_text for item in found], actor)
            found = [item for item in found if item.snippet_text not in known]
        best = max((item.score for item in found), default=0.0)
        return [
            _result(source, item, max(0.0, item.score / best) if best > 0 else 1.0)
            for item in found
        ]

    def _save(self, query: str, results: list[Result], actor: Actor) -> str:
        row = {
            "id": str(uuid.uuid4()),
            "organization_id": actor.organization_id,
            "user_id": actor.user_id,
            "query": query,
            "results": [result.model_dump() for result in results],
            "created_at": now(),
        }
        with self._store.write(actor.organization_id) as tx:
            self._forget_old(tx)
            tx.execute(sa.insert(saved_items).values(row))
        return row["id"]

    def _forget_old(self, tx: Tx) -> None:
        for kept in self._kept():
            tx.execute(sa.delete(saved_items).where(tx.owns(saved_items), ~kept))

    def _kept(self) -> list[sa.ColumnElement[bool]]:
        if not self._settings.keep_days:
            return []
        oldest = datetime.now(UTC) - timedelta(days=self._settings.keep_days)
        return [saved_items.c.created_at >= format_time(oldest)]


def _checked(found: Any) -> list[ResearchResult]:
    """What a plugin's source returned; WrongType where that is no list of results."""
    if not isinstance(found, list | tuple) or isinstance(found, ResearchResult):
        raise WrongType(f"expected a list of ResearchResult, not {type(found).__name__}")
    for item in found:
        if not isinstance(item, ResearchResult):
            raise WrongType(f"expected ResearchResult, not {type(item).__name__}")
        if not isinstance(item.snippet_text, str) or not isinstance(item.source_type, str):
            raise WrongType("snippet_text and source_type of a ResearchResult must be str")
        if not isinstance(item.score, int | float):
            raise WrongType(
                f"the score of a ResearchResult must be a float, not {type(item.score).__name__}"
            )
        for value in (item.source_ref, item.source_title):
            if value is not None and not isinstance(value, str):
                raise WrongType(
                    f"source_ref and source_title of a ResearchResult must be str, not {type(value).__name__}"
                )
    return list(found)


def _filters_of(source: Any) -> Set[str]:
    """Return the filters that a source applies."""
    return getattr(source, "filters", None) or _KNOWN


def _who(actor: Actor) -> str:
    return f"{actor.organization_id}/{actor.user_id}"


def _result(source: str, item: ResearchResult, score: float) -> Result:
    guess = suggest(item.snippet_text)
    return Result.model_validate(
        {
            "snippet_text": item.snippet_text,
            "score": round(score, 6),
            "source": source,
            "source_type": item.source_type,
            "source_ref": item.source_ref,
            "source_title": item.source_title,
            "suggested_kind": item.chunk_kind or guess.kind,
            "suggested_policy": item.usage_policy or guess.policy,
            "chunk_id": item.chunk_id,
            "document_id": item.document_id,
        }
    )
