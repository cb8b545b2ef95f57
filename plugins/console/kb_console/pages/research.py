"""Research: snippets of the store and of other sources, to be added as knowledge with an explicit kind."""

from __future__ import annotations

from typing import Any

from kb_console.forms import controls
from kb_console.view import Go, Html, View, typed
from kb_framework.errors import InvalidInput


def show(view: View) -> Html:
    return _page(view, None)


def search(view: View) -> Html:
    query = view.field("query").strip()
    if not query:
        raise InvalidInput("query: what should be looked for?", field="query")
    model = view.model("research_search").model_fields["filters"].annotation
    inner = _inner(model)
    given = {name: values for name, values in view.fields.items() if name in inner.model_fields}
    chosen = typed(inner, given)
    values: dict[str, Any] = {"query": query, **({"filters": chosen} if chosen else {})}
    view.query = {"query": [query], **given}
    return _page(view, view.main("research_search", values))


def _page(view: View, answer: Any) -> Html:
    inner = _inner(view.model("research_search").model_fields["filters"].annotation)
    recent = view.attempt("research_recent", page=1, per_page=10) or {"data": []}
    return view.show(
        "research.html",
        "Research",
        query=view.text("query"),
        answer=answer,
        controls=controls(inner, None, view.query),
        adding=controls(view.model("research_add"), ["chunk_kind", "usage_policy", "reason"])
        if view.may("research_add")
        else [],
        recent=recent["data"],
    )


def _inner(annotation: Any) -> Any:
    import typing

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
]
