"""The search page: hits with their place and score, facets, and how each retriever found them."""

from __future__ import annotations

from typing import Any

from kb_console import filters
from kb_console.view import Html, View

_NOT_FILTERS = ("query", "mode", "syntax", "tags_match", "group")
_HITS = 20


def show(view: View) -> Html:
    query = view.text("query").strip()
    controls = filters.filter_controls(view, "search", _NOT_FILTERS)
    if not query:
        return view.show(
            "search.html",
            "Search",
            query="",
            answer=None,
            controls=controls,
            chips=[],
            facets=[],
            groups=[],
            inspect=False,
            best=0,
            all_of=None,
            modes=_modes(view),
        )
    inspect = view.text("inspect") == "1"
    values = view.values("search", leave_out={"k", "facets", "trace"})
    values |= {"k": _HITS, "facets": True, **({"trace": True} if inspect else {})}
    answer = view.main("search", values)
    hits = answer["hits"]
    grouped = view.text("by") == "document"
    return view.show(
        "search.html",
        f"{query} · Search",
        query=query,
        answer=answer,
        groups=_groups(hits) if grouped else [[hit] for hit in hits],
        controls=controls,
        chips=filters.chips(view, "search", _NOT_FILTERS),
        facets=filters.facets(view, answer.get("facets"), view.model("search").model_fields),
        inspect=inspect,
        best=max((hit["score"] for hit in hits), default=0) or 1,
        all_of=_all_of(view, query),
        modes=_modes(view),
    )


def _modes(view: View) -> tuple[str, ...]:
    control = next((item for item in filters.controls(view.model("search"), ["mode"])), None)
    return control.choices if control else ()


def _groups(hits: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Put the hits of one document together, in the order of their best."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for hit in hits:
        groups.setdefault(hit["doc_id"], []).append(hit)
    return list(groups.values())


def _all_of(view: View, query: str) -> list[tuple[str, str]] | None:
    """Return the filters of the list of all documents of this search, where lists take a query."""
    fields = view.model("list_documents").model_fields
    if "query" not in fields:
        return None
    return [("query", query)] + [
        (name, value)
        for name, values in view.query.items()
        if name in fields and name not in ("query", *filters.SHOWN_AS)
        for value in values
        if value
    ]


ROUTES = [("GET", "/search", show)]
