"""Filters of a list: chips for those in force, controls for the others, facets with counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kb_console.forms import Control, controls
from kb_console.view import View
from kb_framework.api import Over

# Fields of a list that say how it is shown, not what is in it.
SHOWN_AS = frozenset(
    [
        "page",
        "per_page",
        "sort",
        "limit",
        "k",
        "cursor",
        "trace",
        "facets",
        "snippet_chars",
        "max_tokens",
        "by",
        "top",
        "since",
        "until",
    ]
)
# Which filter each count of values leads to.
FACETS = {
    "tag": "tags",
    "doc_type": "doc_type",
    "lang": "lang",
    "media": "media",
    "trust": "trust_min",
}
_TITLES = {
    "tag": "Tags",
    "doc_type": "Type",
    "lang": "Language",
    "media": "Media",
    "trust": "Trust",
}
# Of the facets that take several values at once.
_SEVERAL = frozenset({"tags", "media", "tag"})


class Chip(NamedTuple):
    """A filter in force, and the address without it."""

    label: str
    value: str
    href: str


class Value(NamedTuple):
    """A value that documents have, how many have it, and the address with or without it."""

    text: str
    documents: int
    href: str
    active: bool


class Facet(NamedTuple):
    name: str
    title: str
    values: list[Value]


def chips(view: View, operation: str, leave_out: Iterable[str] = ()) -> list[Chip]:
    """Return the filters that the address names."""
    skipped = {*SHOWN_AS, *leave_out}
    fields = view.model(operation).model_fields
    return [
        Chip(name.replace("_", " "), value, view.without_value(name, value))
        for name, values in view.query.items()
        if name in fields and name not in skipped
        for value in values
        if value != ""
    ]


def filter_controls(view: View, operation: str, leave_out: Iterable[str] = ()) -> list[Control]:
    """Return a control for each filter that a list takes."""
    model = view.model(operation)
    skipped = {*SHOWN_AS, *leave_out}
    names = [name for name in model.model_fields if name not in skipped]
    return controls(model, names, view.query)


def facets(view: View, counted: Any, fields: Iterable[str]) -> list[Facet]:
    """Return counts of values as links; `counted` is what an operation says of each name."""
    taken = set(fields)
    found = []
    for name, filter_name in FACETS.items():
        items = (counted or {}).get(name)
        if not items or filter_name not in taken:
            continue
        chosen = view.query.get(filter_name, [])
        values = [
            _value(view, filter_name, item["value"], item["count"], chosen)
            for item in items
            if item["value"]
        ]
        # One value that everything has divides nothing.
        if len(values) > 1 or any(value.active for value in values):
            found.append(Facet(filter_name, _TITLES[name], values))
    return found


def _value(view: View, name: str, text: str, count: int, chosen: list[str]) -> Value:
    active = text in chosen
    if active:
        href = view.without_value(name, text)
    elif name in _SEVERAL:
        href = view.with_value(name, text)
    else:
        href = view.without(name, **{name: text})
    return Value(text, count, href, active)


class Selection(NamedTuple):
    """What a list shows as the selection of a bulk operation; `why` says what keeps it from being one."""

    query: list[tuple[str, str]]
    why: str = ""


def selection_of(
    view: View, operation: str, over: Over, leave_out: Iterable[str] = ()
) -> Selection:
    """Return the address of the selection that a list shows. A filter that bulk operations lack is never dropped."""
    names = {
        item.name for item in view.console.plugins.filters if over == "chunks" or item.over == over
    }
    fields = view.model(operation).model_fields
    pairs: list[tuple[str, str]] = []
    for name, values in view.query.items():
        if name not in fields or name in SHOWN_AS or name in leave_out:
            continue
        for value in (item for item in values if item != ""):
            if name not in names:
                label = name.replace("_", " ")
                return Selection(
                    [], f"bulk operations have no filter {label!r}: leave it out to select all"
                )
            pairs.append((name, value))
    if pairs:
        return Selection(pairs)
    # A selection of everything is said, never meant by leaving out.
    return Selection([("from_id", "0")] if over == "documents" else [("status", "all")])
