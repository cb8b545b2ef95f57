"""Knowledge: chunks by kind, policy and state; one chunk with what was decided about it; the log of decisions."""

from __future__ import annotations

from typing import Any

from kb_console import filters
from kb_console.forms import controls
from kb_console.pages.documents import curating, kinds
from kb_console.view import Go, Html, View
from kb_framework.errors import NotFound

_ACTIONS = {
    "activate": "activate_chunk",
    "deactivate": "deactivate_chunk",
    "reclassify": "reclassify_chunk",
    "set-policy": "set_chunk_policy",
}
# The filters that are links above the list, and so are in no form.
_CHOICES = ("status", "kind", "policy")
_USES = 5


def show(view: View) -> Html:
    values = view.values("list_chunks", leave_out={"page", "per_page"})
    answer = view.main(
        "list_chunks", {**values, "page": view.page, "per_page": view.console.per_page}
    )
    model = view.model("list_chunks")
    # Words that the index finds can select what a change is about; `q` reads every chunk, and cannot.
    text_field = "query" if "query" in model.model_fields else "q"
    return view.show(
        "knowledge.html",
        "Knowledge",
        answer=answer,
        text_field=text_field,
        choices=controls(model, _CHOICES, view.query),
        controls=filters.filter_controls(view, "list_chunks", (text_field, "q", *_CHOICES)),
        chips=filters.chips(view, "list_chunks", (text_field, *_CHOICES)),
        selection=_selection(view, values),
        kinds=kinds(view, "chunks"),
        log=view.may("list_events"),
    )


def _selection(view: View, values: dict[str, Any]) -> filters.Selection:
    """Return the selection that the list shows."""
    found = filters.selection_of(view, "list_chunks", "chunks")
    if found.why or view.query.get("status"):
        return found
    # A list shows active chunks unless it is asked for others; a selection takes all.
    chosen = [pair for pair in found.query if pair[0] != "status"]
    return filters.Selection([*chosen, ("status", str(values.get("status", "active")))])


def show_one(view: View) -> Html:
    number = view.path["chunk_id"]
    chunk = view.main("get_chunk", {"chunk_id": number})
    return view.show(
        "chunk.html",
        chunk["title"],
        chunk=chunk,
        curate=curating(view),
        can_delete=view.may("delete_chunk"),
        uses=view.attempt("chunk_impact", chunk_id=number, page=1, per_page=_USES),
        panels=view.console.panels(view.actor, "chunk", chunk),
    )


def show_log(view: View) -> Html:
    """The log of what people and agents decided about chunks."""
    values = view.values("list_events", leave_out={"page", "per_page"})
    answer = view.main(
        "list_events", {**values, "page": view.page, "per_page": view.console.per_page}
    )
    return view.show(
        "knowledge_log.html",
        "Knowledge",
        answer=answer,
        controls=filters.filter_controls(view, "list_events"),
        chips=filters.chips(view, "list_events"),
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
    fields = view.model(operation).model_fields
    view.call(
        operation,
        chunk_id=chunk,
        **{name: value for name, value in given.items() if name in fields},
    )
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
    ("GET", "/knowledge/log", show_log),
    ("GET", "/knowledge/{chunk_id:str}", show_one),
    ("POST", "/knowledge/{chunk_id:str}/delete", delete),
    ("POST", "/knowledge/{chunk_id:str}/do/{action:str}", curate),
]
