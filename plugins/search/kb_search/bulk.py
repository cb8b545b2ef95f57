"""Many searches in one call: embedded in one batch, read from several connections, each failing alone."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kb_models.api import NO_EMBEDDING, Embedding

from kb_framework.api import Actor
from kb_framework.api.models import ErrorV1, validate
from kb_framework.api.nesting import MAX_DEPTH, cut, is_deeper
from kb_framework.api.parts import Plugins, Store, Tx
from kb_framework.errors import EmbedderUnavailable, InternalError, InvalidInput, KBError
from kb_search.budget import Draft, cost, fit, unlimited
from kb_search.inputs import search_model
from kb_search.models import (
    MAX_QUERIES,
    BulkCounts,
    BulkSearchIn,
    BulkSearchItem,
    BulkSearchOut,
    SearchIn,
    SearchOut,
)
from kb_search.service import Asked, Page, SearchService, envelope

log = logging.getLogger("kb.search")

_READERS = 4
# Seconds of work per query, most of it then in the database, which lets others run meanwhile.
_WORTH_A_THREAD = 0.02


@dataclass(slots=True)
class _Query:
    """One of the searches on its way: as it was given, what it asks for, what was found, or what went wrong."""

    given: Any
    wanted: SearchIn | None = None
    page: Page | None = None
    drafts: list[Draft] | None = None
    answer: SearchOut | None = None
    error: KBError | None = None


class BulkSearchService:
    def __init__(
        self,
        store: Store,
        search: SearchService,
        plugins: Plugins,
        embedding: Embedding = NO_EMBEDDING,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._search = search
        self._embedding = embedding
        # How many seconds of work a query was in the call before. Of the first call nothing is known.
        self._seconds_each = 0.0

    def bulk_search(
        self, asked: BulkSearchIn, actor: Actor, purpose: str = "search"
    ) -> BulkSearchOut:
        if len(asked.queries) > MAX_QUERIES:
            raise InvalidInput(f"queries: max {MAX_QUERIES} items", field="queries")
        # A query is told back as it came, but for what no answer could hold.
        queries = [_Query(cut(given, MAX_DEPTH + 1)) for given in asked.queries]
        model = search_model(self._plugins)
        for query in queries:
            try:
                query.wanted = _validated(query.given, model)
            except KBError as error:
                query.error = error
        valid = [query for query in queries if query.wanted]
        vectors = self._vectors([query.wanted for query in valid if query.wanted])
        # Short queries are slower in several threads, which wait for each other.
        readers = _READERS if self._seconds_each > _WORTH_A_THREAD else 1
        parts = [part for start in range(readers) if (part := valid[start::readers])]
        if len(parts) > 1:
            with ThreadPoolExecutor(len(parts)) as threads:
                spent = list(
                    threads.map(lambda part: self._find(part, vectors, actor, purpose), parts)
                )
        else:
            spent = [self._find(part, vectors, actor, purpose) for part in parts]
        if valid:
            self._seconds_each = sum(spent) / len(valid)
        self._finish(queries, asked.max_tokens)
        items = [_item(query) for query in queries]
        failed = sum(1 for query in queries if query.error)
        return _response(items, failed)

    def _vectors(self, wanted: Sequence[SearchIn]) -> dict[str, bytes | KBError]:
        """The vectors of all queries that need one, or what kept them from being made."""
        texts = list({item.query for item in wanted if item.mode != "lexical" and not item.syntax})
        if not texts:
            return {}
        try:
            made = self._embedding.encode(texts)
        except KBError as error:
            return dict.fromkeys(texts, error)
        if made is None:
            unavailable = EmbedderUnavailable(
                f"search by meaning is not possible: {self._embedding.problem}"
            )
            return dict.fromkeys(texts, unavailable)
        return dict(zip(texts, made, strict=True))

    def _find(
        self, part: list[_Query], vectors: dict[str, bytes | KBError], actor: Actor, purpose: str
    ) -> float:
        """Answer some of the queries from one connection; how many seconds of work that was."""
        started = time.thread_time()

        def question(tx: Tx) -> None:
            revision = tx.corpus_revision()
            asked = []
            for query in part:
                assert query.wanted
                # What went wrong where this was asked before does not count.
                query.page = query.drafts = query.answer = query.error = None
                asked.append(
                    Asked(
                        query.wanted,
                        None if query.wanted.syntax else vectors.get(query.wanted.query),
                    )
                )
            for query, page in zip(
                part, self._search.find(tx, asked, actor, revision, purpose=purpose), strict=True
            ):
                if isinstance(page, Exception):
                    # Whatever one query raises costs that query alone.
                    query.error = (
                        page
                        if isinstance(page, KBError)
                        else self._store.engine.explain(page) or _unexpected(page)
                    )
                else:
                    query.page, query.answer = page, self._search.answer(page)
            found = [query for query in part if query.page]
            drafts = self._search.drafts(tx, [query.page for query in found if query.page])
            for query, hits in zip(found, drafts, strict=True):
                query.drafts = hits

        self._store.ask(actor.organization_id, question)
        return time.thread_time() - started

    def _finish(self, queries: list[_Query], max_tokens: int | None) -> None:
        """Give the answers their hits: within each query's own budget, then within that of the call."""
        numbered = [
            (number, query)
            for number, query in enumerate(queries)
            if query.drafts is not None and not query.error
        ]
        for _, query in numbered:
            assert query.wanted and query.page and query.answer and query.drafts is not None
            own = query.wanted.max_tokens
            fitted = (
                unlimited(query.drafts)
                if own is None
                else fit([query.drafts], own - envelope(query.answer))[0]
            )
            self._search.finished(query.answer, query.page, fitted)
            if max_tokens is not None:
                for draft in query.drafts[: len(fitted.hits)]:
                    draft.hit.snippet = None
                del query.drafts[len(fitted.hits) :]
        if max_tokens is None:
            return
        pages: list[list[Draft]] = [[] for _ in queries]
        overhead = cost(_response([], 0).model_dump())
        for query in queries:
            overhead += (
                cost(_item(query).model_dump())
                if query.error
                else cost({"query": query.given}) + _ITEM
            )
            overhead += envelope(query.answer) if query.answer and not query.error else 0
        for number, query in numbered:
            pages[number] = query.drafts or []
        fitted_pages = fit(pages, max_tokens - overhead, once=True)
        for number, query in numbered:
            assert query.page and query.answer
            truncated = query.answer.truncated
            self._search.finished(query.answer, query.page, fitted_pages[number])
            query.answer.truncated |= truncated


_ITEM = cost({"schema_version": "bulk_search_item.v1", "response": None, "error": None})


def _validated(given: Any, model: type[SearchIn]) -> SearchIn:
    if is_deeper(given, MAX_DEPTH):
        raise InvalidInput(
            f"query: must not be nested more than {MAX_DEPTH} levels deep", field="query"
        )
    if not isinstance(given, dict):
        raise InvalidInput('a search must be an object: {"query": "…"}', field="query")
    return validate(model, given)


def _item(query: _Query) -> BulkSearchItem:
    error = ErrorV1.model_construct(**query.error.v1()) if query.error else None
    return BulkSearchItem.model_construct(
        schema_version="bulk_search_item.v1",
        query=query.given,
        response=None if error else query.answer,
        error=error,
    )


def _response(items: list[BulkSearchItem], failed: int) -> BulkSearchOut:
    counts = BulkCounts(total=len(items), succeeded=len(items) - failed, failed=failed)
    return BulkSearchOut.model_construct(
        schema_version="bulk_search_response.v1", results=items, summary=counts
    )


def _unexpected(error: Exception) -> KBError:
    number = uuid.uuid4().hex[:16]
    log.error("a query of a bulk search failed: %s", number, exc_info=error)
    return InternalError(f"something went wrong; it was logged as {number}", id=number)
