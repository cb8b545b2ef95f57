"""Knowledge: chunks by kind, policy and state; one chunk with what was decided about it."""

from __future__ import annotations

from typing import Any

from kb_console import filters
from kb_console.pages.documents import curating, kinds
from kb_console.view import Go, Html, View
from kb_framework.errors import NotFound

_ACTIONS = {
    "activate": "activate_chunk",
    "deactivate": "deactivate_chunk",
    "reclassify": "reclassify_chunk",
    "set-policy": "set_chunk_policy",
}


def show(view: View) -> Html:
    values = view.values("list_chunks", leave_out={"page", "per_page"})
    answer = view.main(
        "list_chunks", {**values, "page": view.page, "per_page": view.console.per_page}
    )
    fields = view.model("list_chunks").model_fields
    text_field = "q" if "q" in fields else "query"
    return view.show(
        "knowledge.html",
        "Knowledge",
        answer=answer,
        text_field=text_field,
        controls=filters.filter_controls(view, "list_chunks", (text_field,)),
        chips=filters.chips(view, "list_chunks"),
        selection=_selection(view, values),
        kinds=kinds(view, "chunks"),
    )


def _selection(view: View, values: dict[str, Any]) -> filters.Selection:
    """Return the selection that the list shows: the words of a list are the query of a selection."""
    if "q" in view.query and view.text("q"):
        return filters.Selection(
            [], "the words of a list do not select: leave them out to select all"
        )
    found = filters.selection_of(view, "list_chunks", "chunks", leave_out=("q",))
    # A list shows active chunks unless it is asked for others; a selection takes all.
    if not found.why and "status" not in dict(found.query):
        return filters.Selection([*found.query, ("status", str(values.get("status", "active")))])
    if not found.why and not view.query.get("status"):
        return filters.Selection([("status", "active")])
    return found


def show_one(view: View) -> Html:
    chunk = view.main("get_chunk", {"chunk_id": view.path["chunk_id"]})
    return view.show(
        "chunk.html",
        chunk["title"],
        chunk=chunk,
        curate=curating(view),
        can_delete=view.may("delete_chunk"),
        panels=view.console.panels(view.actor, "chunk", chunk),
    )


def curate(view: View) -> Go:
    chunk = view.path["chunk_id"]
    given = {
        name: view.field(name)
        for name in ("reason", "chunk_kind", "usage_policy")
        if view.field(name)
    }
    operation = _ACTIONS.get(view.path["action"])
    if operation is None:
        raise NotFound(f"there is no change {view.path['action']!r} of a chunk")
    view.call(operation, chunk_id=chunk, **given)
    return Go(
        view.field("back")
        if view.field("back").startswith("/console/")
        else f"/console/knowledge/{chunk}"
    )


def delete(view: View) -> Go:
    reason = {"reason": view.field("reason")} if view.field("reason") else {}
    view.call("delete_chunk", chunk_id=view.path["chunk_id"], confirm=True, **reason)
    return Go("/console/knowledge")


ROUTES = [
    ("GET", "/knowledge", show),
    ("GET", "/knowledge/{chunk_id:str}", show_one),
    ("POST", "/knowledge/{chunk_id:str}/delete", delete),
    ("POST", "/knowledge/{chunk_id:str}/do/{action:str}", curate),
]
