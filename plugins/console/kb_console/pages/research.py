"""Research: snippets of the store and of other sources, to be added as knowledge with an explicit kind.

A search is kept with its results, and what was kept is the page: its address can be opened again.
"""

from __future__ import annotations

import typing
from typing import Any

from kb_console.forms import controls
from kb_console.view import Go, Html, View, typed
from kb_framework.errors import InvalidInput

_RECENT = 12


def show(view: View) -> Html:
    view.note("research_recent", {"page": 1, "per_page": _RECENT})
    return _page(view, view.text("query"), None)


def show_saved(view: View) -> Html:
    saved = view.main("get_research", {"saved_id": view.path["saved_id"]})
    view.note("research_search", {"query": saved["query"]})
    return _page(view, saved["query"], saved)


def search(view: View) -> Go:
    query = view.field("query").strip()
    if not query:
        raise InvalidInput("query: what should be looked for?", field="query")
    inner = _filters(view)
    given = {name: values for name, values in view.fields.items() if name in inner.model_fields}
    chosen = typed(inner, given)
    values: dict[str, Any] = {"query": query, **({"filters": chosen} if chosen else {})}
    answer = view.call_with("research_search", values)
    return Go(f"/console/research/{answer['saved_id']}", said=answer["hint"] or "")


def _page(view: View, query: str, saved: Any) -> Html:
    recent = view.attempt("research_recent", page=1, per_page=_RECENT) or {"data": []}
    model = view.model("research_add").model_fields if view.may("research_add") else {}
    return view.show(
        "research.html",
        "Research",
        query=query,
        saved=saved,
        controls=controls(_filters(view), None, view.query),
        kinds=_choices(model, "chunk_kind"),
        policies=_choices(model, "usage_policy"),
        recent=recent["data"],
    )


def _choices(fields: Any, name: str) -> tuple[str, ...]:
    return typing.get_args(fields[name].annotation) if name in fields else ()


def _filters(view: View) -> Any:
    annotation = view.model("research_search").model_fields["filters"].annotation
    return next(part for part in typing.get_args(annotation) if part is not type(None))


def add(view: View) -> Go:
    names = view.model("research_add").model_fields
    values = {name: view.field(name) for name in names if view.field(name)}
    added = view.call("research_add", **values)
    return Go(f"/console/knowledge/{added['chunk_id']}?added={added['status']}")


ROUTES = [
    ("GET", "/research", show),
    ("POST", "/research", search),
    ("POST", "/research/add", add),
    ("GET", "/research/{saved_id:str}", show_saved),
]
