"""How documents divide: by tag, type, language, media, trust and month, and how many were added on each day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from kb_documents.count_models import (
    FACETS,
    Day,
    Facet,
    FacetsIn,
    FacetsOut,
    Growth,
    GrowthIn,
    TagCompletions,
    TagPrefixIn,
)
from kb_documents.missing import not_missing
from kb_framework.api import Actor
from kb_framework.api.parts import Selector, Store, Tx
from kb_framework.api.tables import document_tags, documents
from kb_framework.errors import InvalidInput

_DAYS = 30
_MOST_DAYS = 3660
_MONTH = sa.func.substr(documents.c.created_at, 1, 7)
_DAY = sa.func.substr(documents.c.created_at, 1, 10)


def count_values(
    tx: Tx, matched: sa.Select, by: Sequence[str], top: int
) -> tuple[int, dict[str, list[Facet]]]:
    """Return how many documents are selected, and how many of them have each value, most frequent first.

    `matched` selects ids of documents, each once. All is one statement, which evaluates `matched` once and reads the
    documents once, however many values are counted.
    """
    once = matched.cte("matched").prefix_with("MATERIALIZED")
    ids = sa.select(*once.c)
    count = sa.func.count()
    parts = [sa.select(sa.literal("documents").label("name"), sa.null(), count).select_from(once)]
    if "tag" in by:
        here = tx.owns(document_tags), document_tags.c.document_id.in_(ids)
        tagged = sa.select(document_tags.c.tag.label("value"), count.label("count")).where(*here)
        parts.append(_most("tag", tagged.group_by(document_tags.c.tag), top))
    if columns := [_column(name).label(name) for name in by if name != "tag"]:
        here = tx.owns(documents), documents.c.id.in_(ids)
        combined = sa.select(*columns, count.label("count")).where(*here).group_by(*columns)
        combinations = combined.cte("combinations").prefix_with("MATERIALIZED")
        for column in columns:
            value = combinations.c[column.name]
            amount = sa.func.sum(combinations.c["count"]).cast(sa.BigInteger)
            summed = sa.select(value.label("value"), amount.label("count")).group_by(value)
            parts.append(_most(column.name, summed, top))
    total = 0
    found: dict[str, list[Facet]] = {name: [] for name in by}
    for name, value, amount in tx.execute(sa.union_all(*parts)):
        if name == "documents":
            total = amount
        else:
            found[name].append(Facet(value=value, count=amount))
    for name, values in found.items():
        if name == "month":
            values.sort(key=lambda item: item.value or "")
        else:
            values.sort(key=lambda item: (-item.count, item.value or ""))
    return total, found


def _most(name: str, counted: sa.Select, top: int) -> sa.Select:
    """Return the most frequent values, in a query of its own: a union cannot limit its parts."""
    value, amount = counted.selected_columns
    best = counted.order_by(amount.desc(), value).limit(top).subquery()
    return sa.select(sa.literal(name), *best.c)


def _column(name: str) -> Any:
    return _MONTH if name == "month" else documents.c[name]


class CountsService:
    def __init__(self, store: Store, selector: Selector) -> None:
        self._store = store
        self._selector = selector

    def facets(self, asked: FacetsIn, actor: Actor) -> FacetsOut:
        by = list(dict.fromkeys(FACETS if asked.by is None else asked.by))
        selection = self._selector.named(asked, "documents")
        with self._store.read(actor.organization_id) as tx:
            here = self._selector.visible(selection, actor, tx, "documents")
            matched = sa.select(documents.c.id).where(tx.owns(documents), *here)
            total, found = count_values(tx, matched, by, asked.top)
            hint = None if total else self._selector.why_empty(tx, selection.filters)
        return FacetsOut(documents=total, hint=hint, **found)

    def growth(self, asked: GrowthIn, actor: Actor) -> Growth:
        since, until = _period(asked)
        selection = self._selector.named(asked, "documents")
        first, end = since.isoformat(), (until + timedelta(days=1)).isoformat()
        with self._store.read(actor.organization_id) as tx:
            here = self._selector.visible(selection, actor, tx, "documents")
            counted = (
                sa.select(_DAY, sa.func.count())
                .select_from(documents)
                .where(tx.owns(documents), *here)
            )
            within = documents.c.created_at >= first, documents.c.created_at < end
            by_day: dict[str, int] = {
                row[0]: row[1] for row in tx.execute(counted.where(*within).group_by(_DAY))
            }
            before = counted.with_only_columns(sa.func.count(), maintain_column_froms=True)
            earlier: int = tx.scalar(before.where(documents.c.created_at < first))
        days = [
            (since + timedelta(days=number)).isoformat()
            for number in range((until - since).days + 1)
        ]
        return Growth(
            since=first,
            until=until.isoformat(),
            before=earlier,
            added=sum(by_day.values()),
            days=[Day(day=day, count=by_day.get(day, 0)) for day in days],
        )

    def complete_tag(self, asked: TagPrefixIn, actor: Actor) -> TagCompletions:
        """Return the tags that begin with a text, in any case, most used first."""
        tag, count = document_tags.c.tag, sa.func.count()
        with self._store.read(actor.organization_id) as tx:
            query = sa.select(tag, count.label("count")).where(
                tx.owns(document_tags), not_missing(tx)
            )
            if asked.prefix:
                prefix = asked.prefix
                # SQLite changes the case of ASCII letters alone.
                begins = tag.startswith(prefix, autoescape=True) | sa.func.lower(tag).startswith(
                    prefix.lower(), autoescape=True
                )
                query = query.where(begins)
            query = query.group_by(tag).order_by(count.desc(), tag).limit(asked.limit)
            return TagCompletions.model_validate({"data": tx.rows(query)})


def _period(asked: GrowthIn) -> tuple[date, date]:
    until = _date(asked.until, "until") or datetime.now(UTC).date()
    since = _date(asked.since, "since") or _earlier(until, _DAYS - 1)
    if since > until:
        raise InvalidInput("since: must not be after until", field="since")
    if (until - since).days >= _MOST_DAYS:
        raise InvalidInput(f"since: a period has at most {_MOST_DAYS} days", field="since")
    return since, until


def _date(text: str | None, field: str) -> date | None:
    try:
        found = None if text is None else date.fromisoformat(text)
    except ValueError:
        found = date.max
    # The day after it must be a date too.
    if found == date.max:
        raise InvalidInput(f"{field}: must be a date such as 2026-01-31", field=field)
    return found


def _earlier(day: date, days: int) -> date:
    return date.fromordinal(max(1, day.toordinal() - days))
