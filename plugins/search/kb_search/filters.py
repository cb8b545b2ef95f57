"""The filters of a search as SQL, so that they apply before the best are cut."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Hashable, Iterable
from typing import Any

import sqlalchemy as sa
from kb_documents.api import has_all_tags

from kb_framework.api import Extractor
from kb_framework.globs import glob_regex
from kb_framework.plugins import Plugins
from kb_framework.storage.sql import among
from kb_framework.storage.store import Tx
from kb_framework.storage.tables import document_tags, documents
from kb_search.models import SearchIn

_TRUST = ("primary", "secondary", "generated")
_MAGIC = re.compile(r"[*?\[]")
_FIELDS = (
    "tag",
    "tags",
    "tags_match",
    "lang",
    "path_glob",
    "trust_min",
    "media",
    "ingested_after",
    "doc_id",
    "doc_type",
)
# What the standard library calls otherwise, or nothing at all.
_MEDIA_TYPES = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "message/rfc822": "email",
    "text/plain": "text",
}


def filters_of(wanted: SearchIn, plugins: Plugins) -> dict[str, Any]:
    """Return the filters that a search names, each kind of media with its other names behind it."""
    given = {name: getattr(wanted, name) for name in _FIELDS if name != "tags_match"}
    media = wanted.media or []
    given["media"] = list(dict.fromkeys([*media, *sorted(media_names(media, plugins))]))
    if wanted.tags_match == "any":
        given["any_tags"] = given.pop("tags")
    return given


def filter_key(wanted: SearchIn) -> Hashable:
    """What two searches with the same filters have in common."""
    values = (getattr(wanted, name) for name in _FIELDS)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def condition(wanted: SearchIn, plugins: Plugins, tx: Tx) -> sa.ColumnElement[bool] | None:
    """All filters of a search combined, or None where there are none."""
    found: list[sa.ColumnElement[bool]] = []
    if wanted.tag:
        found.append(_has_any(wanted.tag))
    if wanted.tags:
        found.append(
            has_all_tags(wanted.tags) if wanted.tags_match == "all" else _has_any(wanted.tags)
        )
    if wanted.lang is not None:
        asked, lang = wanted.lang.lower(), sa.func.lower(documents.c.lang)
        # `pt` is also `pt-br`.
        found.append(sa.or_(lang == asked, sa.func.substr(lang, 1, len(asked) + 1) == f"{asked}-"))
    if wanted.path_glob is not None:
        found.append(path_matches(wanted.path_glob, tx))
    if wanted.trust_min is not None:
        found.append(documents.c.trust.in_(_TRUST[: _TRUST.index(wanted.trust_min) + 1]))
    if wanted.media:
        found.append(among(documents.c.media, sorted(media_names(wanted.media, plugins))))
    if wanted.ingested_after is not None:
        found.append(documents.c.indexed_at > wanted.ingested_after)
    if wanted.doc_id is not None:
        found.append(documents.c.id == wanted.doc_id)
    if wanted.doc_type is not None:
        found.append(documents.c.doc_type == wanted.doc_type)
    return sa.and_(*found) if found else None


def _has_any(tags: list[str]) -> sa.ColumnElement[bool]:
    return documents.c.id.in_(
        sa.select(document_tags.c.document_id).where(among(document_tags.c.tag, tags))
    )


def media_names(asked: Iterable[str], plugins: Plugins) -> set[str]:
    """The media that documents have, for names as people say them: `markdown`, `md`, `text/markdown`."""
    found: set[str] = set()
    for name in asked:
        plain = name.strip().lower()
        found |= {name, plain, _MEDIA_TYPES.get(plain, plain)}
        for item in plugins.registry(Extractor):
            if f".{plain}" in item.suffixes or any(
                mimetypes.types_map.get(suffix) == plain for suffix in item.suffixes
            ):
                found.add(item.media)
    return found


# Paths


def path_matches(pattern: str, tx: Tx) -> sa.ColumnElement[bool]:
    """The condition that a document's path matches a glob.

    What can be said in SQL that every engine understands is said so; for the rest the paths that begin right are compared
    here, once per search, and their documents named.
    """
    pattern = unicodedata.normalize("NFC", pattern)
    if "/" not in pattern:
        # A bare name is looked for in every folder.
        pattern = f"**/{pattern}"
    start = pattern[: found.start()] if (found := _MAGIC.search(pattern)) else pattern
    if start == pattern:
        return documents.c.path == pattern
    begins = sa.func.substr(documents.c.path, 1, len(start)) == start
    if pattern == f"{start}**" and start.endswith("/"):
        return begins
    regex = re.compile(glob_regex(pattern))
    query = sa.select(documents.c.id, documents.c.path).where(
        tx.owns(documents), documents.c.path.is_not(None), begins
    )
    matching = [
        number
        for number, path in tx.execute(query)
        if regex.fullmatch(unicodedata.normalize("NFC", path))
    ]
    return among(documents.c.id, matching)
