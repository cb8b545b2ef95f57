"""The filters of a search: those of every selection, some of them under names that search had first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import sqlalchemy as sa

from kb_framework.api import Selection
from kb_framework.api.parts import Selector, Tx
from kb_search.models import SearchIn

# Search's own name of a filter, and the one that it has everywhere.
_NAMES = {"tag": "any_tags", "doc_id": "document_ids"}
# Filters that a search has even where no plugin offers them; they are refused then, not left out.
_OWN = frozenset(
    (
        "tag",
        "tags",
        "lang",
        "path_glob",
        "trust_min",
        "media",
        "ingested_after",
        "doc_id",
        "doc_type",
    )
)


def filters_of(wanted: SearchIn, selector: Selector) -> dict[str, Any]:
    """Return the filters that a search names, by its own names."""
    names = {item.name for item in selector.offered("chunks")} - {"query"} | _OWN
    found: dict[str, Any] = {}
    for name in type(wanted).model_fields:
        value = getattr(wanted, name)
        if name in names and value is not None:
            found[name] = [value] if name == "doc_id" else value
    return found


def names_of(wanted: SearchIn) -> dict[str, str]:
    """Return the filters that a search names otherwise than the rest of the program."""
    return {**_NAMES, "tags": "any_tags"} if wanted.tags_match == "any" else _NAMES


def filter_key(wanted: SearchIn, selector: Selector) -> Hashable:
    """Return what two searches with the same filters have in common."""
    filters = filters_of(wanted, selector)
    values = (
        (name, tuple(item) if isinstance(item, list) else item) for name, item in filters.items()
    )
    return wanted.tags_match, *values


def condition(wanted: SearchIn, selector: Selector, tx: Tx) -> sa.ColumnElement[bool] | None:
    """Return all filters of a search combined, or None where there are none."""
    # One by one: two names may stand for the same filter.
    names = names_of(wanted)
    found = [
        selector.condition(Selection({names.get(name, name): value}), tx, "chunks")
        for name, value in filters_of(wanted, selector).items()
    ]
    return sa.and_(*found) if found else None
