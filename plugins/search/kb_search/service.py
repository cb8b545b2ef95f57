"""Search, from a question to hits with snippets and citations."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import sqlalchemy as sa
from kb_text.api import text_query

from kb_framework.api import Actor, Hit, RetrievalQuery
from kb_framework.api.chunks import allowed_chunks, citation, hit_columns
from kb_framework.api.models import made
from kb_framework.api.parts import Plugins, Retrieval, Selector, Store, Tx
from kb_framework.api.retrieval import Retrieved
from kb_framework.api.sql import among, among_given
from kb_framework.api.tables import chunks, document_tags, documents
from kb_framework.errors import KBError, NotFound
from kb_search.budget import Content, Draft, Fitted, cost, fit, unlimited
from kb_search.cursor import Cursors, search_digest
from kb_search.facets import count_facets
from kb_search.filters import condition, filter_key, filters_of, names_of
from kb_search.grouping import count_others, learn_documents
from kb_search.models import (
    FacetsOut,
    HitOut,
    PlaceIn,
    PlaceOut,
    RetrievalOut,
    SearchIn,
    SearchOut,
    TracedOut,
    TraceOut,
)
from kb_search.snippet import Matcher
from kb_search.syntax import parse
from kb_search.tables import keys

# How many candidates each retriever is asked for: one alone, and those whose lists are fused. Who pages beyond them gets
# more, each time so many times as many.
_ALONE = 25
_POOL = 150
_GROWTH = 4
_DOCUMENT_FIELDS = ("doc_type", "title", "path", "lang", "media", "trust", "indexed_at")
_TAGS = (
    sa.select(document_tags.c.document_id, document_tags.c.tag)
    .where(among_given(document_tags.c.document_id, "numbers"))
    .order_by(document_tags.c.tag)
)
_SCORE_KINDS = {"lexical": "bm25", "vector": "cosine", "hybrid": "fusion"}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of hits as they were found, before anything is read about them.

    Of all that was found no more is kept: a call of many searches has many pages.
    """

    wanted: SearchIn
    hits: list[Hit]
    # Where hits are grouped: how many more chunks of each hit's document match, by the hit's chunk.
    others: dict[int, int] | None
    shown_before: int
    more: bool
    revision: int
    digest: bytes
    matcher: Matcher
    facets: FacetsOut | None
    trace: TraceOut | None
    hint: str | None


class Asked(NamedTuple):
    """A search, and its vector if that is there already, or the reason why it could not be made: it is not tried again."""

    wanted: SearchIn
    vector: bytes | KBError | None = None


@dataclass(slots=True)
class _Search:
    """A search on its way to its page."""

    number: int
    wanted: SearchIn
    digest: bytes
    before: int
    query: RetrievalQuery
    # Why there is no vector.
    problem: KBError | None
    found: Retrieved | None = None
    # The query as plugins narrowed it, before documents that were found are left out of it.
    narrowed: RetrievalQuery | None = None
    ranking: Sequence[Hit] = ()
    # Where hits are grouped: the document of each chunk.
    document_of: dict[int, int] = field(default_factory=dict)
    error: Exception | None = None

    def take(self, found: Retrieved | Exception) -> None:
        if isinstance(found, Exception):
            self.error = found
            return
        self.found = found
        self.narrowed = self.narrowed or found.query
        if not self.ranking:
            self.ranking = found.hits
        else:
            shown = {hit.chunk for hit in self.ranking}
            self.ranking = [*self.ranking, *(hit for hit in found.hits if hit.chunk not in shown)]

    @property
    def end(self) -> int:
        return self.before + self.wanted.k

    @property
    def shown(self) -> Sequence[Hit]:
        """The hits as they are shown: all, or the best one of each document."""
        if not self.wanted.group:
            return self.ranking
        best: dict[int, Hit] = {}
        for hit in self.ranking:
            if (document := self.document_of.get(hit.chunk)) is not None:
                best.setdefault(document, hit)
        return list(best.values())

    @property
    def needs_more(self) -> bool:
        if self.error or not self.found or len(self.shown) > self.end:
            return False
        return any(len(items) >= self.query.limit for items in self.found.lists.values())


class SearchService:
    def __init__(
        self, store: Store, retrieval: Retrieval, plugins: Plugins, selector: Selector
    ) -> None:
        self._store = store
        self._selector = selector
        self._retrieval = retrieval
        self._plugins = plugins

    def search(self, wanted: SearchIn, actor: Actor, purpose: str = "search") -> SearchOut:
        def question(tx: Tx) -> tuple[Page, list[Draft], SearchOut]:
            # The revision is that of the view that is searched, so a page that a lagging replica shows goes on there.
            (page,) = self.find(tx, [Asked(wanted)], actor, tx.corpus_revision(), purpose=purpose)
            if isinstance(page, Exception):
                raise page
            (drafts,) = self.drafts(tx, [page])
            return page, drafts, self.answer(page)

        page, drafts, answer = self._store.ask(actor.organization_id, question)
        fitted = (
            unlimited(drafts)
            if wanted.max_tokens is None
            else fit([drafts], wanted.max_tokens - envelope(answer))[0]
        )
        return self.finished(answer, page, fitted)

    def place(self, asked: PlaceIn, actor: Actor) -> PlaceOut:
        """Return where a chunk stands."""
        chunk_id = asked.chunk_id
        with self._store.read(actor.organization_id) as tx:
            query = self._rows.where(tx.owns(chunks), chunks.c.id == chunk_id.lower())
            found = self._retrieval.narrowed(RetrievalQuery("", actor, 1, ()), tx).condition
            row = next(iter(tx.rows(query if found is None else query.where(found))), None)
        if row is None:
            raise NotFound(f"there is no chunk {chunk_id}")
        return PlaceOut(
            chunk_id=row["id"],
            doc_id=row["document_id"],
            doc_path=row["path"],
            title=row["title"],
            citation=citation(row["path"], row["document_id"], row["metadata"], row["source_ref"]),
        )

    # The steps, which a call of many searches takes for all of them together

    def find(
        self,
        tx: Tx,
        asked: Sequence[Asked],
        actor: Actor,
        revision: int,
        *,
        purpose: str = "search",
    ) -> list[Page | Exception]:
        """The hits of a page for each search, or why it failed."""
        started = time.perf_counter()
        searches: list[_Search] = []
        failed: dict[int, Exception] = {}
        conditions: dict[Hashable, sa.ColumnElement[bool] | None] = {}
        for number, one in enumerate(asked):
            try:
                searches.append(self._begun(tx, number, one, actor, revision, purpose, conditions))
            except Exception as error:  # noqa: BLE001 - it costs this search alone
                failed[number] = error
        self._rank(tx, searches)
        spent = (time.perf_counter() - started) * 1000 / max(1, len(asked))
        found: list[Page | Exception | None] = [failed.get(number) for number in range(len(asked))]
        for search in searches:
            try:
                found[search.number] = _page(tx, search, revision, spent, self._selector)
            except Exception as error:  # noqa: BLE001 - as above
                found[search.number] = error
        return [page for page in found if page is not None]

    def _begun(
        self,
        tx: Tx,
        number: int,
        asked: Asked,
        actor: Actor,
        revision: int,
        purpose: str,
        conditions: dict[Hashable, sa.ColumnElement[bool] | None],
    ) -> _Search:
        wanted, vector = asked
        digest = search_digest(wanted, actor.organization_id)
        before = (
            self._cursors.read(wanted.cursor, revision, digest) if wanted.cursor is not None else 0
        )
        query = self._query(tx, wanted, actor, purpose, conditions)
        problem = vector if isinstance(vector, KBError) else None
        if problem is not None and wanted.mode == "vector":
            raise problem
        if problem is not None and wanted.mode == "hybrid":
            query = query._replace(retrievers=("lexical",))
        elif isinstance(vector, bytes):
            query = query._replace(vector=vector)
        return _Search(
            number, wanted, digest, before, query, problem if wanted.mode == "hybrid" else None
        )

    def drafts(self, tx: Tx, pages: Sequence[Page]) -> list[list[Draft]]:
        """What is to be said of the hits of all pages, read at once."""
        numbers = {hit.chunk for page in pages for hit in page.hits}
        asked = {"owner": tx.organization_id, "numbers": json.dumps(list(numbers))}
        rows = {row.pop("seq"): row for row in tx.rows(self._rows_of_hits, asked)}
        tags: dict[int, list[str]] = {row["document_id"]: [] for row in rows.values()}
        for number, tag in tx.execute(_TAGS, {"numbers": json.dumps(list(tags))}).all():
            tags[number].append(tag)
        described = {
            number: _Described(row, tags[row["document_id"]]) for number, row in rows.items()
        }
        for page in pages:
            for hit in page.hits:
                if (chunk := described.get(hit.chunk)) and len(
                    chunk.content
                ) > page.wanted.snippet_chars:
                    # All words are learnt before any are looked for: what a query finds among them is then told once.
                    _ = chunk.content.words
        return [
            [
                _draft(page, rank, hit, chunk)
                for rank, hit in enumerate(page.hits, page.shown_before + 1)
                # An index that was changed behind its back may name what is not there.
                if (chunk := described.get(hit.chunk)) is not None
            ]
            for page in pages
        ]

    def answer(self, page: Page) -> SearchOut:
        """All of the answer but its hits."""
        cursor = (
            self._cursors.write(page.shown_before + len(page.hits), page.revision, page.digest)
            if page.more
            else None
        )
        return SearchOut(
            schema_version="search_response.v1",
            hits=[],
            next_cursor=cursor,
            truncated=False,
            trace=page.trace,
            hint=page.hint,
            facets=page.facets,
        )

    def finished(self, answer: SearchOut, page: Page, fitted: Fitted) -> SearchOut:
        answer.hits = fitted.hits
        answer.truncated = fitted.truncated
        if len(fitted.hits) < len(page.hits):
            answer.next_cursor = self._cursors.write(
                page.shown_before + len(fitted.hits), page.revision, page.digest
            )
        return answer

    def _query(
        self,
        tx: Tx,
        wanted: SearchIn,
        actor: Actor,
        purpose: str,
        conditions: dict[Hashable, sa.ColumnElement[bool] | None],
    ) -> RetrievalQuery:
        retrievers = ("lexical", "vector") if wanted.mode == "hybrid" else (wanted.mode,)
        # The same filters are the same condition, so that searches which have them in common look at it once.
        key = filter_key(wanted, self._selector)
        if key not in conditions:
            conditions[key] = condition(wanted, self._selector, tx)
        where = conditions[key]
        limit = _POOL if len(retrievers) > 1 else _ALONE
        query = RetrievalQuery(wanted.query, actor, limit, retrievers, purpose, where)
        if not wanted.syntax:
            return query
        parsed = parse(wanted.query)
        # Nothing that does not match is found, by meaning neither.
        matches = tx.text.matches(text_query(parsed.expression), chunks.c.seq)
        where = matches if where is None else sa.and_(where, matches)
        return query._replace(text=parsed.words, condition=where, expression=parsed.expression)

    def _rank(self, tx: Tx, searches: list[_Search]) -> None:
        """Find at least as many hits as are needed, if there are, in an order that does not depend on how many that is.

        What fusion makes of a list depends on how long it is. So a longer list only adds behind what shorter ones gave.
        """
        pending = searches
        while pending:
            answers = self._retrieval.search_all([search.query for search in pending], tx)
            for search, found in zip(pending, answers, strict=True):
                search.take(found)
            for search in pending:
                if search.wanted.group:
                    learn_documents(tx, search.ranking, search.document_of)
            pending = [search for search in pending if search.needs_more]
            for search in pending:
                search.query = search.query._replace(limit=search.query.limit * _GROWTH)
                if search.wanted.group:
                    # However many chunks of these match, others are found next.
                    others = ~among(chunks.c.document_id, set(search.document_of.values()))
                    where = search.query.condition
                    search.query = search.query._replace(
                        condition=others if where is None else sa.and_(where, others)
                    )

    @cached_property
    def _rows_of_hits(self) -> sa.Select:
        mine = chunks.c.organization_id == sa.bindparam("owner")
        return self._rows.where(mine, among_given(chunks.c.seq, "numbers"))

    @cached_property
    def _rows(self) -> sa.Select:
        query = sa.select(
            chunks.c.seq,
            chunks.c.id,
            chunks.c.document_id,
            chunks.c.content,
            chunks.c.metadata,
            *(documents.c[name] for name in _DOCUMENT_FIELDS),
            *hit_columns(self._plugins),
        )
        return query.join(documents, documents.c.id == chunks.c.document_id)

    @cached_property
    def _cursors(self) -> Cursors:
        with self._store.read() as tx:
            return Cursors(
                bytes.fromhex(
                    tx.scalar(sa.select(keys.c.secret).where(keys.c.purpose == "cursors"))
                )
            )


def _page(tx: Tx, search: _Search, revision: int, milliseconds: float, selector: Selector) -> Page:
    wanted, found, ranking = search.wanted, search.found, search.ranking
    if search.error or not found or not search.narrowed:
        raise search.error or AssertionError("nobody was asked")
    if search.problem is not None:
        found.degraded["vector"] = search.problem.message
    facets = (
        count_facets(tx, search.narrowed, [hit.chunk for hit in ranking]) if wanted.facets else None
    )
    trace = _trace(tx, found, revision, milliseconds) if wanted.trace else None
    shown = search.shown
    hits, more = list(shown[search.before : search.end]), len(shown) > search.end
    others = count_others(tx, search.narrowed, ranking, hits) if wanted.group else None
    hint = _hint(found)
    if not ranking and not _any_allowed(tx, search.narrowed):
        why = selector.why_empty(tx, filters_of(wanted, selector), "chunks", names=names_of(wanted))
        hint = "; ".join(filter(None, (hint, why))) or None
    return Page(
        wanted,
        hits,
        others,
        search.before,
        more,
        revision,
        search.digest,
        Matcher(search.query.text),
        facets,
        trace,
        hint,
    )


def _any_allowed(tx: Tx, query: RetrievalQuery) -> bool:
    """Return whether the filters of a search leave anything: then they are not why it found nothing."""
    return tx.scalar(allowed_chunks(query, tx).limit(1)) is not None


def _trace(tx: Tx, found: Retrieved, revision: int, milliseconds: float) -> TraceOut:
    numbers = {item.chunk for items in (*found.lists.values(), found.hits) for item in items}
    ids = {
        row.seq: row.id
        for row in tx.execute(
            sa.select(chunks.c.seq, chunks.c.id).where(among(chunks.c.seq, numbers))
        )
    }

    def told(items: Sequence[Any]) -> list[TracedOut]:
        return [
            TracedOut(chunk_id=ids[item.chunk], rank=rank, score=item.score)
            for rank, item in enumerate(items, 1)
            if item.chunk in ids
        ]

    return TraceOut(
        lists={name: told(items) for name, items in found.lists.items()},
        fusion=told(found.hits),
        degraded=found.degraded,
        milliseconds={**found.milliseconds, "total": round(milliseconds, 3)},
        revision=revision,
    )


def envelope(answer: SearchOut) -> int:
    """What an answer costs beside its hits; what was asked for beside hits is not counted."""
    return cost(
        answer.model_copy(
            update={"hits": [], "trace": None, "facets": None, "next_cursor": "-" * 52}
        ).model_dump()
    )


class _Described:
    """What is to be said of a chunk, whoever found it."""

    __slots__ = ("content", "fields", "more")

    def __init__(self, row: dict[str, Any], tags: list[str]) -> None:
        metadata = row.pop("metadata")
        self.content = Content(row.pop("content"), row["lang"])
        path, number = row.pop("path"), row.pop("document_id")
        self.fields = {
            "chunk_id": row.pop("id"),
            "doc_id": number,
            "doc_path": path,
            "heading_path": list(metadata.get("heading_path") or []),
            "snippet": None,
            "citation": citation(path, number, metadata, row["source_ref"]),
            "source_ref": row.pop("source_ref"),
            "source_title": row.pop("source_title"),
            "tags": tags,
            "snippet_ref": None,
            "title": row.pop("title"),
            "doc_type": row.pop("doc_type"),
            "lang": row.pop("lang"),
            "media": row.pop("media"),
            "trust": row.pop("trust"),
            "indexed_at": row.pop("indexed_at"),
            # These two are always there.
            "chunk_kind": row.pop("chunk_kind", None),
            "usage_policy": row.pop("usage_policy", None),
        }
        # What else plugins added to chunks and want to be seen.
        self.more = row


def _draft(page: Page, rank: int, hit: Hit, chunk: _Described) -> Draft:
    mode = page.wanted.mode
    retrieval = {
        "method": mode,
        "fusion_score": hit.score if mode == "hybrid" else None,
        "lexical_score": hit.scores.get("lexical"),
        "vector_score": hit.scores.get("vector"),
        "lexical_rank": hit.ranks.get("lexical"),
        "vector_rank": hit.ranks.get("vector"),
    }
    own = {
        "rank": rank,
        "score": hit.score,
        "score_kind": _SCORE_KINDS[mode],
        "more": None if page.others is None else page.others.get(hit.chunk, 0),
        "retrieval": made(RetrievalOut, retrieval),
    }
    out = made(HitOut, own | chunk.fields, chunk.more)
    return Draft(out, chunk.content, page.matcher, page.wanted.snippet_chars)


def _hint(found: Retrieved) -> str | None:
    lost = [f"{reason} ({name} was left out)" for name, reason in found.degraded.items()]
    return "; ".join([*lost, *found.hints]) or None
