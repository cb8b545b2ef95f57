"""The bulk flow: a selection, a kind, its form, a preview that is a frozen plan, then the job."""

from __future__ import annotations

from typing import Any

from kb_console.forms import controls
from kb_console.pages.documents import kinds
from kb_console.shown import address
from kb_console.view import Go, Html, View, typed
from kb_framework.api import MutationKind
from kb_framework.api.models import takes_list
from kb_framework.errors import InvalidInput, NotFound

# The operation that lists what a kind is over, and its page.
_LISTS = {
    "documents": ("list_documents", "/console/documents"),
    "chunks": ("list_chunks", "/console/knowledge"),
}
_NOT_OWN = frozenset({"force", "plan"})


def show(view: View) -> Html:
    kind = _kind(view)
    model = view.model(f"bulk_{kind.name}")
    names = filter_names(view, kind)
    own = [name for name in model.model_fields if name not in names and name not in _NOT_OWN]
    selection = {name: view.query[name] for name in names if any(view.query.get(name, ()))}
    form = controls(model, own, view.query)
    asked = view.text("preview") == "1" or not form
    preview = diff = panels = count = None
    if not selection:
        raise InvalidInput(
            "no selection: nothing is selected",
            hint="select rows or filter a list, then choose an action",
        )
    if asked:
        values = typed(model, {**selection, **{name: view.query.get(name, []) for name in own}})
        for name in own:
            info = model.model_fields[name]
            if info.is_required() and name not in values and takes_list(info.annotation):
                values[name] = []
        preview = view.main("bulk_preview", {"operation": kind.name, **values})
        view.note(f"bulk_{kind.name}", values)
        diff = tag_changes(view, kind, selection, values, preview["matched"])
        panels = view.console.panels(view.actor, "preview", preview)
    else:
        count = _count(view, kind, selection)
        name = _LISTS[kind.over][0]
        view.note(name, view.values(name, selection))
    return view.show(
        "bulk.html",
        kind.help.rstrip("."),
        kind=kind,
        selection=_said(selection),
        hidden=[(name, value) for name, values in selection.items() for value in values],
        form=form,
        count=preview["matched"] if preview else count,
        preview=preview,
        diff=diff or [],
        panels=panels or [],
        others=[item for item in kinds(view, kind.over) if item.name != kind.name],
        back=_back(kind, selection),
        inside=_inside(view, kind, selection),
        saves=_can_be_view(view, kind, selection),
        query=selection,
    )


def _kind(view: View) -> MutationKind:
    kind = view.console.plugins.kinds.get(view.path["kind"])
    if kind is None or not kind.bulk or view.console.operation(f"bulk_{kind.name}") is None:
        raise NotFound(f"there is no operation {view.path['kind']!r}")
    if not view.may(f"bulk_{kind.name}"):
        view.actor.require(kind.permission)
    return kind


def filter_names(view: View, kind: MutationKind) -> list[str]:
    fields = view.model(f"bulk_{kind.name}").model_fields
    return [item.name for item in view.console.plugins.filters if item.name in fields]


def _said(selection: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return the selection in words: long lists of ids are counted."""
    said = []
    for name, values in selection.items():
        flat = [part for value in values for part in value.split(",")]
        if name in ("document_ids", "chunk_ids") and len(flat) > 3:
            said.append((name.replace("_", " "), f"{len(flat)} chosen by hand"))
        elif (name, values) == ("from_id", ["0"]):
            said.append(("everything", "all documents"))
        elif (name, values) == ("status", ["all"]) and len(selection) == 1:
            said.append(("everything", "all chunks"))
        else:
            said.append((name.replace("_", " "), ", ".join(values)))
    return said


def _count(view: View, kind: MutationKind, selection: dict[str, list[str]]) -> int | None:
    """Return how many are selected, by the preview of a kind that needs no fields; None where there is none."""
    for item in view.console.plugins.kinds:
        model = view.model(f"bulk_{item.name}") if item.bulk else None
        if (
            model
            and item.over == kind.over
            and not any(info.is_required() for info in model.model_fields.values())
        ):
            try:
                values = typed(model, selection)
                return view.call("bulk_preview", operation=item.name, **values)["matched"]
            except InvalidInput:
                continue
    return None


def tag_changes(
    view: View,
    kind: MutationKind,
    selection: dict[str, list[str]],
    values: dict[str, Any],
    matched: int,
) -> list[dict[str, Any]]:
    """Return what becomes of each tag: how many of the selected documents have it before and after."""
    add, remove, new = (values.get(name) for name in ("add", "remove", "new_tags"))
    if kind.over != "documents" or (add is None and remove is None and new is None):
        return []
    counted = (
        view.attempt(
            "document_facets",
            **typed(view.model("document_facets"), selection),
            by=["tag"],
            top=200,
        )
        if view.may("document_facets")
        else None
    )
    if counted is None:
        return []
    before = {item["value"]: item["count"] for item in counted["tag"]}
    touched = [*(add or []), *(remove or []), *(new or [])] + (
        list(before) if new is not None else []
    )
    rows = []
    for tag in dict.fromkeys(touched):
        had = before.get(tag, 0)
        has = matched if tag in (add or []) or tag in (new or []) else 0
        rows.append({"tag": tag, "before": had, "after": has, "matched": matched})
    return rows


def _inside(view: View, kind: MutationKind, selection: dict[str, list[str]]) -> str:
    """Return the address of the list of what is selected; empty where the list lacks one of the filters."""
    name, path = _LISTS[kind.over]
    if not view.may(name) or set(selection) - set(view.model(name).model_fields):
        return ""
    return address(path, selection)


def _can_be_view(view: View, kind: MutationKind, selection: dict[str, list[str]]) -> bool:
    by_hand = {"document_ids", "chunk_ids", "view"} & set(selection)
    return kind.over == "documents" and not by_hand and view.may("save_view")


def _back(kind: MutationKind, selection: dict[str, list[str]]) -> str:
    path = _LISTS[kind.over][1]
    if {"document_ids", "chunk_ids"} & set(selection) or selection == {"from_id": ["0"]}:
        return path
    return address(path, selection)


def run(view: View) -> Go:
    """Execute the plan of a preview, and show its job."""
    kind = _kind(view)
    matched = view.field("matched")
    force = view.field("force") == "1"
    if force and view.field("typed").replace(",", "").strip() != matched:
        raise InvalidInput(
            f"type the number of {kind.over}, {matched}, to go beyond the safety threshold",
            field="typed",
        )
    answer = view.call(
        f"bulk_{kind.name}", plan=view.field("plan"), **({"force": True} if force else {})
    )
    return Go(f"/console/jobs/{answer['job_id']}?done=1")


ROUTES = [("GET", "/bulk/{kind:str}", show), ("POST", "/bulk/{kind:str}", run)]
