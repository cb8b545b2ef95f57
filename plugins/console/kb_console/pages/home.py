"""The home page: how much there is, what waits, what happened last; adding notes and files."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from kb_console.charts import bars
from kb_console.pages.jobs import about
from kb_console.view import Go, Html, View
from kb_framework.api.models import split_list
from kb_framework.errors import InvalidInput

_JOBS = 50
_LAST = 6
_TAGS = 12


def show(view: View) -> Html:
    documents = view.main("list_documents", {"per_page": 5, "page": 1, "sort": "-created_at"})
    growth = view.attempt("document_growth")
    jobs = view.attempt("list_jobs", page=1, per_page=_JOBS)
    return view.show(
        "home.html",
        "Home",
        documents=documents,
        chunks=view.attempt("list_chunks", per_page=1, page=1, status="all"),
        runs=_runs(jobs["data"])[:_LAST] if jobs else None,
        growth=growth,
        plot=bars([(day["day"], day["count"]) for day in growth["days"]], "Documents added per day")
        if growth and growth["added"]
        else "",
        views=view.attempt("list_views", page=1, per_page=20),
        panels=view.console.panels(view.actor, "home", {}),
        about=about,
    )


def show_tags(view: View) -> Html:
    """The most used tags: a part of the home page that is loaded after it."""
    return view.show("home_tags.html", "Tags", tags=view.main("list_tags", {"per_page": _TAGS}))


def show_waiting(view: View) -> Html:
    """What waits for somebody: a part of the home page that is loaded after it."""
    return view.show(
        "waiting.html",
        "Waiting",
        failed=view.attempt("list_jobs", page=1, per_page=1, status="failed"),
        missing=_missing(view),
        report=view.attempt("doctor"),
    )


def _runs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last jobs, with files that were added one after the other as one entry."""
    found: list[dict[str, Any]] = []
    for job in jobs:
        what = job["job_type"], job["status"], job["user"]
        if found and job["job_type"] == "ingest" and found[-1]["what"] == what:
            found[-1]["count"] += 1
        else:
            found.append({"what": what, "job": job, "count": 1})
    return found


def _missing(view: View) -> int:
    answer = view.attempt("list_documents", page=1, per_page=1, missing=True)
    return answer["meta"]["total"] if answer else 0


def add_note(view: View) -> Go:
    fields: dict[str, Any] = {"text": view.field("text")}
    if view.field("title"):
        fields["title"] = view.field("title")
    tags = [tag for text in view.fields.get("tags", []) for tag in split_list(text)]
    added = view.call("add_note", **fields, tags=tags)
    return Go(f"/console/documents/{added['document']['id']}?added={added['status']}")


def add_files(view: View) -> dict[str, Any]:
    """Add one file; the page sends them one by one and shows what became of each."""
    if len(view.files) != 1:
        raise InvalidInput("file: send one file", field="file")
    name, content = view.files[0]
    path = view.field("path") or name
    fields: dict[str, Any] = {"filename": PurePosixPath(path).name, "path": path}
    tags = [tag for text in view.fields.get("tags", []) for tag in split_list(text)]
    added = view.console.call(view.actor, "add_file", {**fields, "tags": tags}, content)
    return {
        "id": added["document"]["id"],
        "title": added["document"]["title"],
        "status": added["status"],
    }


ROUTES = [
    ("GET", "/", show),
    ("GET", "/waiting", show_waiting),
    ("GET", "/tags", show_tags),
    ("POST", "/notes", add_note),
    ("POST", "/files", add_files, "multipart"),
]
