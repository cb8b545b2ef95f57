"""The list of documents and the page of one."""

from __future__ import annotations

import json
from typing import Any

from kb_console import filters
from kb_console.view import Go, Html, View
from kb_framework.api.models import split_list
from kb_framework.errors import InvalidInput

_COLUMNS = (
    ("title", "Title"),
    ("doc_type", "Type"),
    ("bytes", "Size"),
    ("created_at", "Added"),
    ("updated_at", "Changed"),
)
_DEFAULT_SORT = "-updated_at"
_CHUNKS = 50
_EVENTS = 50
_TEXT = "named"
# Counting the values of more documents takes longer than listing them.
_COUNTED_AT_ONCE = 1_000


def show(view: View) -> Html:
    """The list, with filters, facets and the selection for bulk operations."""
    values = view.values("list_documents", leave_out={"page", "per_page"})
    values.setdefault("sort", _DEFAULT_SORT)
    answer = view.main(
        "list_documents", {**values, "page": view.page, "per_page": view.console.per_page}
    )
    many = answer["meta"]["total"] > _COUNTED_AT_ONCE
    return view.show(
        "documents.html",
        "Documents",
        answer=answer,
        sort=values["sort"],
        columns=_COLUMNS,
        text_field=_TEXT,
        controls=filters.filter_controls(view, "list_documents", (_TEXT,)),
        chips=filters.chips(view, "list_documents", (_TEXT,)),
        facets=[] if many else _facets(view),
        later=view.at("/console/documents/facets") if many else "",
        selection=filters.selection_of(view, "list_documents", "documents"),
        kinds=kinds(view, "documents"),
        views=view.attempt("list_views", page=1, per_page=50),
        can_save=view.may("save_view"),
    )


def show_facets(view: View) -> Html:
    """The counts beside a list that is long: loaded after it."""
    view.current = "/console/documents"
    return view.show("facets.html", "Counts", facets=_facets(view))


def _facets(view: View) -> list[filters.Facet]:
    fields = view.model("list_documents").model_fields
    return filters.facets(view, _counts(view), fields)


def kinds(view: View, over: str) -> list[Any]:
    """Return the mutation kinds that the person may use, destructive ones last."""
    found = [
        kind
        for kind in view.console.plugins.kinds
        if kind.bulk and kind.over == over and view.may(f"bulk_{kind.name}")
    ]
    return sorted(found, key=lambda kind: (kind.destructive, kind.name))


def _counts(view: View) -> dict[str, Any] | None:
    """Return how many of the listed documents have each value."""
    if view.may("document_facets"):
        model = view.model("document_facets")
        shared = {
            name: values
            for name, values in view.query.items()
            if name in view.model("list_documents").model_fields
        }
        # A filter that counting lacks would make the counts those of another list.
        if any(
            name not in model.model_fields for name in set(shared) - {"page", "per_page", "sort"}
        ):
            return None
        return view.attempt("document_facets", **view.values("document_facets", shared), top=12)
    tags = view.attempt("list_tags", page=1, per_page=12)
    return (
        {"tag": [{"value": item["tag"], "count": item["count"]} for item in tags["data"]]}
        if tags
        else None
    )


# One document


def show_one(view: View) -> Html:
    number = view.path["document_id"]
    document = view.main("get_document", {"document_id": number})
    tab = view.text("tab", "text")
    chunks = view.call("get_document_chunks", document_id=number)["data"]
    wanted = view.text("chunk")
    place = next((at for at, item in enumerate(chunks) if item["id"] == wanted), 0)
    page = view.page if "page" in view.query else place // _CHUNKS + 1
    shown = chunks[(page - 1) * _CHUNKS : page * _CHUNKS]
    return view.show(
        "document.html",
        document["title"],
        document=document,
        tab=tab,
        chunks=shown,
        total=len(chunks),
        pages=-(-len(chunks) // _CHUNKS),
        page=page,
        wanted=wanted,
        sources=(view.attempt("get_sources", document_id=number) or {}).get("data", []),
        events=_history(view, number) if tab == "history" else [],
        curate=curating(view),
        kinds=kinds(view, "documents"),
        panels=view.console.panels(view.actor, "document", document),
    )


def curating(view: View) -> list[str]:
    """Return the changes of a chunk that the person may make."""
    names = ("deactivate_chunk", "activate_chunk", "reclassify_chunk", "set_chunk_policy")
    return [name for name in names if view.may(name)]


def _history(view: View, number: int) -> list[dict[str, Any]]:
    """Return the jobs that made the document, and the last changes of its chunks; newest first."""
    asked = {"document_id": number, "page": 1, "per_page": _EVENTS}
    events = view.attempt("list_events", **asked) or {"data": []}
    jobs = view.attempt("list_jobs", **asked) or {"data": []}
    found = [
        {
            "time": item["created_at"],
            "what": f"chunk {item['event_type'].replace('_', ' ')}",
            "who": "",
            "why": item["reason"],
            "href": f"/console/knowledge/{item['chunk_id']}",
        }
        for item in events["data"]
    ]
    found += [
        {
            "time": item["created_at"],
            "what": f"{item['job_type']} · {item['status'].replace('_', ' ')}",
            "who": item["user"],
            "why": item["error"],
            "href": f"/console/jobs/{item['id']}",
        }
        for item in jobs["data"]
    ]
    return sorted(found, key=lambda item: item["time"], reverse=True)


def download(view: View) -> Any:
    return view.console.call(view.actor, "get_file", {"document_id": view.path["document_id"]})


def set_tags(view: View) -> Go:
    number = view.path["document_id"]
    tags = [tag for text in view.fields.get("tags", []) for tag in split_list(text)]
    view.call("set_document_tags", document_id=number, tags=list(dict.fromkeys(tags)))
    return Go(f"/console/documents/{number}")


def change(view: View) -> Go:
    number = view.path["document_id"]
    given: dict[str, Any] = {
        name: view.field(name) for name in ("title", "doc_type", "trust") if view.field(name)
    }
    if "metadata" in view.fields:
        try:
            given["metadata"] = json.loads(view.field("metadata") or "{}")
        except ValueError:
            raise InvalidInput("metadata: must be a JSON object", field="metadata") from None
    view.call("update_document", document_id=number, **given)
    return Go(f"/console/documents/{number}")


def remove(view: View) -> Go:
    view.call("delete_document", document_id=view.path["document_id"])
    return Go("/console/documents?done=deleted")


def complete(view: View) -> dict[str, Any]:
    """Tags that begin as what was typed, for the control of tags."""
    prefix = view.text("prefix")
    if view.may("complete_tag"):
        found = view.call("complete_tag", **({"prefix": prefix} if prefix else {}))
        return {"data": found["data"]}
    tags = view.call("list_tags", page=1, per_page=100)["data"]
    return {"data": [item for item in tags if item["tag"].lower().startswith(prefix.lower())][:10]}


def save_view(view: View) -> Go:
    """Save the filters of the list under a name."""
    name = view.field("name").strip()
    given = {key: values for key, values in view.fields.items() if key not in ("name", "csrf")}
    model = view.model("bulk_preview")
    from kb_console.view import typed

    view.call("save_view", name=name, filters=typed(model, given))
    return Go(f"/console/documents?view={name}")


def remove_view(view: View) -> Go:
    view.call("remove_view", name=view.field("name"))
    return Go("/console/documents")


ROUTES = [
    ("GET", "/documents", show),
    ("GET", "/documents/facets", show_facets),
    ("GET", "/documents/{document_id:str}", show_one),
    ("GET", "/documents/{document_id:str}/file", download),
    ("POST", "/documents/{document_id:str}/tags", set_tags),
    ("POST", "/documents/{document_id:str}/change", change),
    ("POST", "/documents/{document_id:str}/delete", remove),
    ("GET", "/tags/complete", complete),
    ("POST", "/views", save_view),
    ("POST", "/views/remove", remove_view),
]
