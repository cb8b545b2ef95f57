"""Ask: a question, the knowledge that a model is given with it, what was rejected, and the answer."""

from __future__ import annotations

from typing import Any

from kb_console.view import Go, Html, View
from kb_framework.errors import InvalidInput

SECTIONS = ("facts", "angles", "examples", "quotes")


def show(view: View) -> Html:
    return view.show(
        "ask.html",
        "Ask",
        query=view.text("query"),
        asked=None,
        pins=view.query.get("pin", []),
        excluded=view.query.get("exclude", []),
        snapshots=_snapshots(view),
        sections=SECTIONS,
    )


def ask(view: View) -> Html:
    """Assemble the context of a question, and have it answered where a generator is configured."""
    query = view.field("query").strip()
    if not query:
        raise InvalidInput("query: ask something", field="query")
    pins, excluded = (
        [value for value in view.fields.get(name, []) if value] for name in ("pin", "exclude")
    )
    values: dict[str, Any] = {"query": query}
    values |= {"pin": pins} if pins else {}
    values |= {"exclude": excluded} if excluded else {}
    asked = view.main("ask", values)
    view.note("knowledge_context", values)
    view.query = {"query": [query], "pin": pins, "exclude": excluded}
    return view.show(
        "ask.html",
        "Ask",
        query=query,
        asked=asked,
        pins=pins,
        excluded=excluded,
        snapshots=_snapshots(view),
        sections=SECTIONS,
    )


def _snapshots(view: View) -> list[dict[str, Any]]:
    return (view.attempt("list_snapshots", page=1, per_page=12) or {"data": []})["data"]


def snapshot(view: View) -> Html:
    found = view.main("get_snapshot", {"snapshot_id": view.path["snapshot_id"]})
    other = view.text("with")
    return view.show(
        "snapshot.html",
        found["query"],
        snapshot=found,
        other=view.call("get_snapshot", snapshot_id=other) if other else None,
        snapshots=[item for item in _snapshots(view) if item["id"] != found["id"]],
    )


def keep(view: View) -> Go:
    number = view.path["snapshot_id"]
    view.call(
        "answer_snapshot", snapshot_id=number, text=view.field("text"), model=view.field("model")
    )
    return Go(f"/console/ask/{number}")


ROUTES = [
    ("GET", "/ask", show),
    ("POST", "/ask", ask),
    ("GET", "/ask/{snapshot_id:str}", snapshot),
    ("POST", "/ask/{snapshot_id:str}/answer", keep),
]
