"""Jobs: who did what to how many with which filter, and what went wrong."""

from __future__ import annotations

import json
from typing import Any

from kb_console.shown import address
from kb_console.view import Html, View

_STATUSES = ("done", "partial_failure", "failed", "queued", "running")


def show(view: View) -> Html:
    values = view.values("list_jobs", leave_out={"page", "per_page"})
    answer = view.main(
        "list_jobs", {**values, "page": view.page, "per_page": view.console.per_page}
    )
    types = ["ingest", *(kind.job_type for kind in view.console.plugins.kinds if kind.bulk)]
    return view.show(
        "jobs.html", "Jobs", answer=answer, statuses=_STATUSES, types=types, about=about
    )


def about(job: dict[str, Any]) -> str:
    """Return what a job was about: a file's name, or a selection in words."""
    selection = selected(job)
    if selection is None:
        return job["filename"] or ""
    return " · ".join(
        f"{name.replace('_', ' ')}: {_words(value)}" for name, value in selection.items()
    )


def selected(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the selection of a bulk operation's job."""
    if not job["job_type"].startswith("bulk_") or not job["filename"]:
        return None
    try:
        found = json.loads(job["filename"])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _words(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    shown = ", ".join(map(str, value[:5]))
    return shown if len(value) <= 5 else f"{shown} and {len(value) - 5:,} more"


def show_one(view: View) -> Html:
    job = view.main("get_job", {"job_id": view.path["job_id"]})
    selection = selected(job)
    kind = view.console.plugins.kinds.get(job["job_type"].removeprefix("bulk_"))
    over = kind.over if kind else "documents"
    path = "/console/documents" if over == "documents" else "/console/knowledge"
    return view.show(
        "job.html",
        f"Job {job['id']}",
        job=job,
        kind=kind,
        selection=selection,
        errors=_errors(job),
        again=address(path, selection)
        if selection and not {"document_ids", "chunk_ids"} & set(selection)
        else "",
        about=about(job),
        saves=_as_view(view, over, selection),
        panels=view.console.panels(view.actor, "job", job),
    )


def _as_view(view: View, over: str, selection: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the selection of a job as what a view is saved from; nothing where it cannot be one."""
    by_hand = {"document_ids", "chunk_ids", "view"} & set(selection or ())
    if not selection or over != "documents" or by_hand or not view.may("save_view"):
        return []
    return [
        (name, ",".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in selection.items()
    ]


def _errors(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what went wrong, each with what it is about."""
    if not job["error"]:
        return []
    try:
        found = json.loads(job["error"])
    except ValueError:
        return [{"error": job["error"]}]
    items = found if isinstance(found, list) else [found]
    return [item if isinstance(item, dict) else {"error": str(item)} for item in items]


ROUTES = [("GET", "/jobs", show), ("GET", "/jobs/{job_id:str}", show_one)]
