"""The filters of a search as SQL, so that they apply before the best are cut."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Hashable, Iterable

import sqlalchemy as sa

from kb_framework.plugins import Plugins
from kb_framework.store.documents import has_all_tags
from kb_framework.store.sql import among
from kb_framework.store.store import Tx
from kb_framework.store.tables import document_tags, documents
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
_MEDIA_TYPES = {"text/markdown": "markdown", "text/x-markdown": "markdown", "message/rfc822": "email", "text/plain": "text"}


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
        found.append(has_all_tags(wanted.tags) if wanted.tags_match == "all" else _has_any(wanted.tags))
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
    return documents.c.id.in_(sa.select(document_tags.c.document_id).where(among(document_tags.c.tag, tags)))


def media_names(asked: Iterable[str], plugins: Plugins) -> set[str]:
    """The media that documents have, for names as people say them: `markdown`, `md`, `text/markdown`."""
    found: set[str] = set()
    for name in asked:
        plain = name.strip().lower()
        found |= {name, plain, _MEDIA_TYPES.get(plain, plain)}
        for item in plugins.extractors:
            if f".{plain}" in item.suffixes or any(mimetypes.types_map.get(suffix) == plain for suffix in item.suffixes):
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
    query = sa.select(documents.c.id, documents.c.path).where(tx.owns(documents), documents.c.path.is_not(None), begins)
    matching = [number for number, path in tx.execute(query) if regex.fullmatch(unicodedata.normalize("NFC", path))]
    return among(documents.c.id, matching)


def glob_regex(pattern: str) -> str:
    """A glob as a regular expression: `*` and `?` stay within a folder, `**` is any number of folders, `[a-c]`, `[!a]`."""
    parts, index = [], 0
    while index < len(pattern):
        rest = pattern[index:]
        if rest.startswith("**/") and (index == 0 or pattern[index - 1] == "/"):
            parts.append("(?:[^/]+/)*")
            index += 3
        elif rest == "**" and (index == 0 or pattern[index - 1] == "/"):
            parts.append(".+")
            index += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            index += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            parts.append("[^/]")
            index += 1
        elif rest[0] == "[" and (end := pattern.find("]", index + (3 if rest[1:2] == "!" else 2))) != -1:
            parts.append(_one_of(pattern[index + 1 : end]))
            index = end + 1
        else:
            parts.append(re.escape(rest[0]))
            index += 1
    return "(?s:" + "".join(parts) + ")"


def _one_of(inside: str) -> str:
    """A class of characters, `a-c` or `!x`: ranges that make sense, and everything else as it is."""
    negated, inside = inside.startswith("!"), inside.removeprefix("!")
    items, index = [], 0
    while index < len(inside):
        if inside[index + 1 : index + 2] == "-" and index + 2 < len(inside) and inside[index] <= inside[index + 2]:
            items.append(f"{re.escape(inside[index])}-{re.escape(inside[index + 2])}")
            index += 3
        else:
            items.append(re.escape(inside[index]))
            index += 1
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]"
