"""From a question to the knowledge a model is given: topK → gate → group → caps → budget → prompt, and a snapshot of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from kb_text.api import token_count

from kb_framework.api import Actor, Hit, Rejection, RetrievalQuery, ScoredChunk, Selection
from kb_framework.api.chunks import SOURCE, citation
from kb_framework.api.parts import Plugins, Retrieval, Selector, Store, Tx
from kb_framework.api.retrieval import Retrieved
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, documents
from kb_framework.errors import InvalidInput, WrongType
from kb_knowledge.conditions import UNCURATED, is_hidden
from kb_knowledge.models import Context, ContextChunk, ContextIn, Rejected, Sections
from kb_knowledge.prompt import SECTIONS, compose, section_of
from kb_knowledge.snapshots import SnapshotsService
from kb_knowledge.tables import curated

_POOL = 100
_PAIR = ("lexical", "vector")
# The order in which sections are filled while there is room: facts first, inspiration last.
_FILL = ("facts", "quotes", "examples", "angles")


class ContextService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        retrieval: Retrieval,
        selector: Selector,
        knowledge_snapshots: SnapshotsService,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._retrieval = retrieval
        self._selector = selector
        self._snapshots = knowledge_snapshots

    def assemble(self, wanted: ContextIn, actor: Actor) -> Context:
        """The context, the same for the same question in the same state. Whoever asks, a model is what reads it."""
        made = _Assembly(wanted)
        with self._store.read(actor.organization_id) as tx:
            query = self._query(tx, wanted, actor)
            found = self._retrieval.search(query, tx)
            excluded = set(wanted.exclude)
            numbers = [hit.chunk for hit in found.hits[: wanted.top_k + len(excluded)]]
            rows = self._rows(tx, among(curated.c.seq, numbers) | among(curated.c.id, wanted.pin))
            hits = made.choose([hit for hit in found.hits if hit.chunk in rows], rows)
            made.pin(rows, self._findable(tx, query, wanted.pin))
            made.reject(self._gate(tx, query, hits, rows), rows)
            made.disabled = self._disabled(tx, query, wanted.top_k)
        context = made.fill(hits, rows)
        options = made.options(context)
        return context.model_copy(
            update={
                "snapshot_id": self._snapshots.keep(wanted.query, options, context, actor),
                "hint": _hint(found),
            }
        )

    def _query(self, tx: Tx, wanted: ContextIn, actor: Actor) -> RetrievalQuery:
        names = [item.name for item in self._plugins.retrievers]
        if not names:
            raise InvalidInput(
                "nothing can be retrieved: the search plugin is switched off", field="query"
            )
        retrievers = _PAIR if set(_PAIR) <= set(names) else tuple(names)
        filters = getattr(wanted, "filters", None)
        # Without any filter everything may be found; only a change needs to say what it is about.
        chosen = self._selector.named(filters, "chunks") if filters else Selection({})
        condition = self._selector.condition(chosen, tx, "chunks") if chosen.filters else None
        reader = actor._replace(reader="model")
        return RetrievalQuery(
            wanted.query, reader, max(_POOL, wanted.top_k), retrievers, "model", condition
        )

    def _rows(self, tx: Tx, where: sa.ColumnElement[bool]) -> dict[int, Mapping[str, Any]]:
        query = sa.select(curated, documents.c.title, documents.c.path)
        query = query.join(documents, documents.c.id == curated.c.document_id).where(
            tx.owns(curated), where
        )
        return {row["seq"]: row for row in tx.rows(query)}

    def _findable(self, tx: Tx, query: RetrievalQuery, pins: list[str]) -> set[str]:
        """Those of the pins that a search for a model could find: a pin does not undo curation."""
        narrowed = self._plugins.narrow_retrieval(query, query.actor, query.purpose, tx)
        source = chunks.join(documents, documents.c.id == chunks.c.document_id)
        allowed = (
            sa.select(chunks.c.id)
            .select_from(source)
            .where(tx.owns(chunks), among(chunks.c.id, pins), *narrowed)
        )
        return set(tx.connection.scalars(allowed)) if pins else set()

    def _gate(
        self, tx: Tx, query: RetrievalQuery, hits: list[Hit], rows: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, str]:
        scored = [
            ScoredChunk(
                hit.chunk,
                rows[hit.chunk]["id"],
                rows[hit.chunk]["title"],
                rows[hit.chunk]["content"],
                hit.score,
                hit.ranks,
                hit.scores,
            )
            for hit in hits
        ]
        reasons: dict[int, str] = {}
        arguments = {"query": query, "hits": scored, "tx": tx}
        for rejections in self._plugins.ask("kb_gate_hits", _rejections, **arguments):
            for rejection in rejections:
                # Where several gates reject a hit, the first reason counts.
                reasons.setdefault(rejection.chunk, rejection.reason)
        return reasons

    def _disabled(self, tx: Tx, query: RetrievalQuery, top_k: int) -> int:
        """How many of the best candidates curation kept out, had it not."""
        if not tx.scalar(
            sa.select(sa.exists(sa.select(curated.c.seq).where(tx.owns(curated), is_hidden())))
        ):
            return 0
        found = self._retrieval.search(query._replace(purpose=UNCURATED), tx)
        numbers = [hit.chunk for hit in found.hits[:top_k]]
        hidden = (
            sa.select(sa.func.count())
            .select_from(curated)
            .where(among(curated.c.seq, numbers), is_hidden())
        )
        return tx.scalar(hidden)


def _rejections(answer: Any) -> list[Rejection]:
    if answer is None:
        return []
    if isinstance(answer, str | bytes | Mapping | Rejection) or not isinstance(answer, Iterable):
        raise WrongType(f"expected a list of Rejection, not {type(answer).__name__}")
    items = list(answer)
    for item in items:
        if (
            not isinstance(item, Rejection)
            or type(item.chunk) is not int
            or type(item.reason) is not str
        ):
            raise WrongType(
                f"expected Rejection(chunk: int, reason: str), not {type(item).__name__}"
            )
    return items


class _Assembly:
    """What was decided so far, and why."""

    def __init__(self, wanted: ContextIn) -> None:
        self._wanted = wanted
        self._rejected: dict[str, str] = {}
        self._gated: list[Rejected] = []
        self._pinned: list[int] = []
        self._candidates = 0
        self._excluded = 0
        self._curated = False
        self.disabled = 0

    def choose(self, hits: list[Hit], rows: Mapping[int, Mapping[str, Any]]) -> list[Hit]:
        """The candidates; what was excluded makes room for others."""
        excluded = set(self._wanted.exclude)
        for hit in hits[: self._wanted.top_k]:
            if rows[hit.chunk]["id"] in excluded:
                self._rejected[rows[hit.chunk]["id"]] = "excluded by the request"
                self._excluded += 1
        chosen = [hit for hit in hits if rows[hit.chunk]["id"] not in excluded][
            : self._wanted.top_k
        ]
        self._candidates = len(chosen)
        self._curated = any(
            (rows[hit.chunk]["chunk_kind"], rows[hit.chunk]["usage_policy"]) != ("fact", "normal")
            for hit in chosen
        )
        return chosen

    def pin(self, rows: Mapping[int, Mapping[str, Any]], findable: set[str]) -> None:
        by_id = {row["id"]: number for number, row in rows.items()}
        for chunk_id in dict.fromkeys(self._wanted.pin):
            if chunk_id in findable:
                self._pinned.append(by_id[chunk_id])
            elif chunk_id not in by_id:
                self._rejected[chunk_id] = "pinned, but there is no such chunk"
            else:
                row = rows[by_id[chunk_id]]
                why = (
                    "it is inactive"
                    if not row["is_active"]
                    else f"its policy is {row['usage_policy']}"
                )
                self._rejected[chunk_id] = f"pinned, but {why}"

    def reject(self, reasons: Mapping[int, str], rows: Mapping[int, Mapping[str, Any]]) -> None:
        for number, reason in reasons.items():
            if number in rows:
                rejected = Rejected(chunk_id=rows[number]["id"], reason=reason)
                self._gated.append(rejected)
                # A person who pins has judged the relevance.
                if number not in self._pinned:
                    self._rejected.setdefault(rejected.chunk_id, reason)

    def fill(self, hits: list[Hit], rows: Mapping[int, Mapping[str, Any]]) -> Context:
        """Pins, then facts, then the rest, each by its score, while caps and budget last."""
        scores = {hit.chunk: hit.score for hit in hits}
        accepted = [
            hit.chunk
            for hit in hits
            if hit.chunk not in self._pinned and rows[hit.chunk]["id"] not in self._rejected
        ]
        section = {
            number: section_of(rows[number]["chunk_kind"], rows[number]["usage_policy"])
            for number in (*self._pinned, *accepted)
        }
        ordered = [
            *self._pinned,
            *(number for name in _FILL for number in accepted if section[number] == name),
        ]
        chosen: dict[str, list[ContextChunk]] = {name: [] for name in SECTIONS}
        for number in ordered:
            name, pinned = section[number], number in self._pinned
            limit = getattr(self._wanted.caps, f"max_{name}")
            row = rows[number]
            if not pinned and limit is not None and len(chosen[name]) >= limit:
                self._rejected[row["id"]] = f"more than max_{name} ({limit})"
                continue
            item = _item(
                row, f"{SECTIONS[name]}{len(chosen[name]) + 1}", scores.get(number), pinned
            )
            chosen[name].append(item)
            if token_count(self._prompt(chosen)) > self._wanted.max_tokens:
                chosen[name].pop()
                self._rejected[row["id"]] = f"no room within max_tokens ({self._wanted.max_tokens})"
        prompt = self._prompt(chosen)
        rejected = [
            Rejected(chunk_id=chunk_id, reason=reason)
            for chunk_id, reason in self._rejected.items()
        ]
        made = {
            "rejected": rejected,
            "prompt": prompt,
            "tokens": token_count(prompt),
            "snapshot_id": "",
        }
        return Context.model_validate({**chosen, **made})

    def _prompt(self, chosen: Mapping[str, list[ContextChunk]]) -> str:
        return compose(self._wanted.query, Sections.model_validate(chosen))

    def options(self, context: Context) -> dict[str, Any]:
        """What a snapshot says about how its context came about; everything in it was counted."""
        rejected = [item.model_dump() for item in self._gated]
        gate = {
            "candidates": self._candidates,
            "accepted": self._candidates - len(rejected),
            "rejected": rejected,
        }
        return {
            "knowledge_context_breakdown": {name: len(getattr(context, name)) for name in SECTIONS},
            "knowledge_disabled_count": self.disabled,
            "knowledge_gate": gate,
            "knowledge_user_overrides_applied": bool(
                self._pinned or self._excluded or self._curated or self.disabled
            ),
            "knowledge_pinned": self._wanted.pin,
            "knowledge_excluded": self._wanted.exclude,
            "knowledge_left_out": [item.model_dump() for item in context.rejected],
            "knowledge_tokens": context.tokens,
        }


def _item(row: Mapping[str, Any], label: str, score: float | None, pinned: bool) -> ContextChunk:
    source = {name: row[name] or row["metadata"].get(name) for name in SOURCE}
    place = citation(row["path"], row["document_id"], row["metadata"], source["source_ref"])
    values = {
        **row,
        **source,
        "chunk_id": row["id"],
        "label": label,
        "citation": place,
        "score": score,
        "pinned": pinned,
    }
    return ContextChunk.model_validate({**values, "tokens": token_count(row["content"])})


def _hint(found: Retrieved) -> str | None:
    return (
        "; ".join(
            f"{reason} ({name} search was left out)" for name, reason in found.degraded.items()
        )
        or None
    )
