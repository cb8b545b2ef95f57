"""Why an answer is empty: the filter value that no document has, and the nearest one that exists."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, document_tags, documents
from kb_framework.storage.store import Tx

# Values that the nearest one is looked for among, the most frequent first.
_CANDIDATES = 2000
_ASKED = 20
_LONGEST = 128
_TOLD = 300
_LANGUAGES = 10
_MAGIC = re.compile(r"[*?\[]")
_COLUMNS: dict[str, tuple[str, sa.Column[Any]]] = {
    "tag": ("tag", document_tags.c.tag),
    "tags": ("tag", document_tags.c.tag),
    "any_tags": ("tag", document_tags.c.tag),
    "doc_type": ("type", documents.c.doc_type),
    "lang": ("language", documents.c.lang),
    "media": ("media", documents.c.media),
}
_IDS: dict[str, tuple[str, sa.Column[Any]]] = {
    "doc_id": ("document", documents.c.id),
    "document_id": ("document", documents.c.id),
    "document_ids": ("document", documents.c.id),
    "chunk_ids": ("chunk", chunks.c.id),
}


def why_empty(
    tx: Tx,
    filters: Mapping[str, Any],
    more: Mapping[str, tuple[str, sa.Column[Any]]] | None = None,
    noun: str = "document",
) -> str | None:
    """Return what to tell where nothing matches these filters, or None. Only for empty answers: it reads the values in use.

    `more` are filters beyond those of documents, each with its label and column.
    """
    columns = {**_COLUMNS, **(more or {})}
    given = {name: value for name, value in filters.items() if value not in (None, [], ())}
    for name, value in given.items():
        values = list(value)[:_ASKED] if isinstance(value, list | tuple) else [value]
        if name in _IDS and (gone := _absent(tx, _IDS[name][1], values)):
            return f"there is no {_IDS[name][0]} {gone[0]}"
        if (
            name in columns
            and (gone := _absent(tx, columns[name][1], values))
            and _matters(name, gone, values)
        ):
            label, column = columns[name]
            known = _candidates(tx, column)
            told = f"no {noun} has {label} {gone[0]!r}"
            if near := _nearest(str(gone[0]), known):
                return f"{told}; nearest: {near!r}"
            # A name like `english` is near to no code.
            return (
                f"{told}; in use: {', '.join(known[:_LANGUAGES])}"
                if name == "lang" and known
                else told
            )
    if list(given) == ["tags"] and len(given["tags"]) > 1:
        return f"no {noun} has all of the tags {', '.join(given['tags'])}"[:_TOLD]
    if len(given) > 1:
        return f"no {noun} matches all of {', '.join(given)}"
    return next((_alone(tx, name, value, noun) for name, value in given.items()), None)


def _alone(tx: Tx, name: str, value: Any, noun: str) -> str | None:
    """Return what to tell of the only filter, which leaves nothing."""
    if name == "path_glob":
        told = f"no {noun} has a path like {value!r}"
        near = _nearest(_MAGIC.split(value, maxsplit=1)[0].strip("/"), _places(tx))
        return f"{told}; nearest: {near!r}" if near else told
    if name == "ingested_after":
        newest = tx.scalar(sa.select(sa.func.max(documents.c.indexed_at)).where(tx.owns(documents)))
        return f"no {noun} was ingested after {value}" + (f"; the newest: {newest}" * bool(newest))
    if name == "trust_min":
        known = _candidates(tx, documents.c.trust)
        return f"no {noun} has trust {value!r} or more; in use: {', '.join(known) or 'none'}"
    return None


def _places(tx: Tx) -> list[str]:
    """Return the folders that documents are in, each before those inside it, their paths and the names of their files."""
    found: dict[str, None] = {}
    for path in _candidates(tx, documents.c.path):
        parts = path.split("/")
        found |= {"/".join(parts[:end]): None for end in range(1, len(parts) + 1)}
        found[parts[-1]] = None
    return list(found)


def _matters(name: str, gone: list[Any], values: list[Any]) -> bool:
    """Of filters that want any of several values, all must be missing."""
    return name == "tags" or len(gone) == len(values)


def _absent(tx: Tx, column: sa.Column[Any], values: list[Any]) -> list[Any]:
    if column is documents.c.lang:
        # `pt` is also `pt-br`, in any case.
        there = {lang.lower() for lang in _candidates(tx, column)}
        return [
            value
            for value in values
            if not any(f"{lang}-".startswith(f"{value.lower()}-") for lang in there)
        ]
    found = set(
        tx.execute(
            sa.select(column).distinct().where(tx.owns(column.table), among(column, values))
        ).scalars()
    )
    return [value for value in values if value not in found]


def _candidates(tx: Tx, column: sa.Column[Any]) -> list[str]:
    counted = sa.select(column).where(tx.owns(column.table), column.is_not(None)).group_by(column)
    query = counted.order_by(sa.func.count().desc(), column).limit(_CANDIDATES)
    return [value for value in tx.execute(query).scalars() if len(value) <= _LONGEST]


def _nearest(value: str, known: Iterable[str]) -> str | None:
    by_plain: dict[str, str] = {}
    for item in known:
        by_plain.setdefault(item.casefold(), item)
    plain = value[:_LONGEST].casefold()
    if plain in by_plain:
        return by_plain[plain]
    close = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.6)
    return by_plain[close[0]] if close else None
