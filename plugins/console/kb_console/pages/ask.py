"""Ask: a question, the knowledge that a model is given with it, what was rejected, and the answer.

A question becomes a snapshot, and the snapshot is the page: its address can be kept, shared and compared with another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from kb_console.view import Go, Html, Lines, View
from kb_framework.errors import InvalidInput, KBError

SECTIONS = ("facts", "angles", "examples", "quotes")
_SNAPSHOTS = 12
# `get_chunks` takes no more at once.
_CHUNKS = 100


def show(view: View) -> Html:
    return view.show(
        "ask.html",
        "Ask",
        query=view.text("query"),
        snapshots=_snapshots(view),
        pins=[],
        excluded=[],
    )


def ask(view: View) -> Lines:
    """Have a question answered: the pieces of the answer as they come, then the address of the snapshot."""
    query = view.field("query").strip()
    if not query:
        raise InvalidInput("query: ask something", field="query")
    pins, excluded = (
        [value for value in view.fields.get(name, []) if value] for name in ("pin", "exclude")
    )
    # What was decided last counts: a chunk is either pinned or excluded.
    decided = {**dict.fromkeys(excluded, "exclude"), **dict.fromkeys(pins, "pin")}
    if view.field("undecide"):
        decided.pop(view.field("undecide"), None)
    values: dict[str, Any] = {"query": query}
    for name in ("pin", "exclude"):
        if chosen := [chunk for chunk, what in decided.items() if what == name]:
            values[name] = chosen
    parts = view.call_with("stream_answer", values)
    # The first part is made here, so that an error in it is a page.
    first = next(parts)
    return Lines(_lines(first, parts))


def _lines(first: Any, parts: Iterator[Any]) -> Iterator[dict[str, Any]]:
    try:
        for part in itertools.chain([first], parts):
            yield _line(part)
    except KBError as error:
        yield {"error": error.message}


def _line(part: Any) -> dict[str, Any]:
    if part.asked is None:
        return {"text": part.text}
    return {"go": f"/console/ask/{part.asked.snapshot_id}"}


def _snapshots(view: View) -> list[dict[str, Any]]:
    return (view.attempt("list_snapshots", page=1, per_page=_SNAPSHOTS) or {"data": []})["data"]


def snapshot(view: View) -> Html:
    """What became of a question; with another snapshot, both side by side."""
    found = view.main("get_snapshot", {"snapshot_id": view.path["snapshot_id"]})
    options = found["options"]
    decided = {
        name: options.get(f"knowledge_{key}") or []
        for name, key in (("pin", "pinned"), ("exclude", "excluded"))
    }
    view.note("ask", {"query": found["query"], **{k: v for k, v in decided.items() if v}})
    other = view.call("get_snapshot", snapshot_id=view.text("with")) if view.text("with") else None
    shown = [item for item in (found, other) if item]
    return view.show(
        "snapshot.html",
        "Ask",
        query=found["query"],
        snapshot=found,
        sides=[_side(view, item, shown) for item in shown],
        pins=decided["pin"],
        excluded=decided["exclude"],
        snapshots=[item for item in _snapshots(view) if item["id"] != found["id"]],
    )


def _side(view: View, item: dict[str, Any], shown: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a snapshot with the texts of its chunks by section, as they are now."""
    left_out = item["options"].get("knowledge_left_out") or []
    used = [chunk["chunk_id"] for chunk in item["chunks"]]
    ids = list(dict.fromkeys([*used, *(each["chunk_id"] for each in left_out)]))
    texts = _chunks(view, ids)
    elsewhere = {
        chunk["chunk_id"] for other in shown if other is not item for chunk in other["chunks"]
    }
    pinned = set(item["options"].get("knowledge_pinned") or [])
    sections: dict[str, list[dict[str, Any]]] = {}
    for chunk in item["chunks"]:
        number = chunk["chunk_id"]
        sections.setdefault(chunk["section"], []).append(
            {
                **chunk,
                "text": texts.get(number),
                "pinned": number in pinned,
                "only_here": len(shown) > 1 and number not in elsewhere,
            }
        )
    return {
        "snapshot": item,
        "sections": [(name, sections[name]) for name in SECTIONS if name in sections],
        "left_out": [{**each, "text": texts.get(each["chunk_id"])} for each in left_out],
        "gone": sum(number not in texts for number in used),
        "links": {
            each["label"]: f"#p-{each['label']}"
            if len(shown) == 1
            else f"/console/knowledge/{each['chunk_id']}"
            for each in (item["answer"] or {"citations": []})["citations"]
            if each["valid"]
        },
        "tokens": item["options"].get("knowledge_tokens"),
    }


def _chunks(view: View, ids: list[str]) -> dict[str, dict[str, Any]]:
    """Return chunks as they are now: their texts, and what they are of."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(ids), _CHUNKS):
        some = ids[start : start + _CHUNKS]
        texts = view.attempt("get_chunks", chunk_ids=some)
        about = view.attempt("list_chunks", chunk_ids=some, status="all", page=1, per_page=_CHUNKS)
        for chunk in about["data"] if about else []:
            found[chunk["id"]] = chunk
        for chunk in texts["data"]["chunks"] if texts else []:
            found[chunk["id"]] = {**found.get(chunk["id"], {}), **chunk}
    return {number: chunk for number, chunk in found.items() if "document_id" in chunk}


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
