"""The search page: hits with their place and score, facets, and how each retriever found them."""

from __future__ import annotations

from typing import Any

from kb_console import filters
from kb_console.view import Html, View

_NOT_FILTERS = ("query", "mode", "syntax", "tags_match", "group")
_HITS = 20
# How many of the fused list are shown beside what each retriever says.
_TRACED = 10


def show(view: View) -> Html:
    query = view.text("query").strip()
    shown: dict[str, Any] = {
        "query": query,
        "controls": filters.filter_controls(view, "search", _NOT_FILTERS),
        "modes": _modes(view),
        "answer": None,
        "chips": [],
        "facets": [],
        "traced": [],
        "all_of": None,
    }
    if not query:
        return view.show("search.html", "Search", **shown)
    inspect = view.text("inspect") == "1"
    values = view.values("search", leave_out={"k", "facets", "trace"})
    values |= {"k": _HITS, "facets": True, **({"trace": True} if inspect else {})}
    answer = view.main("search", values)
    hits = answer["hits"]
    shown |= {
        "answer": answer,
        "best": max((hit["score"] for hit in hits), default=0) or 1,
        "chips": filters.chips(view, "search", _NOT_FILTERS),
        "facets": filters.facets(view, answer.get("facets"), view.model("search").model_fields),
        "traced": _traced(answer) if inspect else [],
        "all_of": _all_of(view, query),
        "ids": list(dict.fromkeys(str(hit["doc_id"]) for hit in hits)),
    }
    return view.show("search.html", f"{query} · Search", **shown)


def _modes(view: View) -> tuple[str, ...]:
    control = next((item for item in filters.controls(view.model("search"), ["mode"])), None)
    return control.choices if control else ()


def _traced(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the best chunks of the fused list, each with its place and score in every retriever's."""
    trace = answer["trace"]
    titles = {hit["chunk_id"]: hit["title"] for hit in answer["hits"]}
    places = {
        name: {item["chunk_id"]: item for item in items} for name, items in trace["lists"].items()
    }
    return [
        {
            **item,
            "title": titles.get(item["chunk_id"]),
            "lists": [places[name].get(item["chunk_id"]) for name in places],
        }
        for item in trace["fusion"][:_TRACED]
    ]


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
