"""The filters of documents, each its type and its SQL condition. Every surface that selects documents has these."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import Field

from kb_documents.globs import glob_regex
from kb_framework.api import Extractor
from kb_framework.api.chunks import source_columns
from kb_framework.api.models import Id, Tag, Text, Time
from kb_framework.api.parts import Plugins, Tx
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, document_tags, documents

Condition = sa.ColumnElement[Any]
Trust = Literal["primary", "secondary", "generated"]
Name = Annotated[Text, Field(min_length=1, max_length=1000)]
SomeTags = Annotated[list[Tag], Field(min_length=1)]

_TRUST = ("primary", "secondary", "generated")
_MAGIC = re.compile(r"[*?\[]")
# Names of media types that differ from those of documents, or that `mimetypes` does not know.
_MEDIA_TYPES = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "message/rfc822": "email",
    "text/plain": "text",
}


def document_ids(value: Annotated[list[Id], Field(min_length=1)]) -> Condition:
    return among(documents.c.id, value)


def from_id(value: Id) -> Condition:
    return documents.c.id >= value


def to_id(value: Id) -> Condition:
    return documents.c.id <= value


def tags(value: SomeTags, tx: Tx) -> Condition:
    wanted = list(dict.fromkeys(value))
    having = _having(tx, wanted)
    if len(wanted) > 1:
        counted = having.group_by(document_tags.c.document_id)
        having = counted.having(sa.func.count() == len(wanted))
    return documents.c.id.in_(having)


def any_tags(value: SomeTags, tx: Tx) -> Condition:
    return documents.c.id.in_(_having(tx, value))


def not_tags(value: SomeTags) -> Condition:
    # Not `NOT IN`: PostgreSQL may run through all who have the tags once for each document.
    tag = among(document_tags.c.tag, value) if len(value) > 1 else document_tags.c.tag == value[0]
    return ~sa.exists().where(document_tags.c.document_id == documents.c.id, tag)


def _having(tx: Tx, wanted: Sequence[str]) -> sa.Select:
    """Return the documents that have any of the tags, read from the index of tags."""
    having = sa.select(document_tags.c.document_id).where(tx.owns(document_tags))
    if len(wanted) == 1:
        return having.where(document_tags.c.tag == wanted[0])
    return having.where(among(document_tags.c.tag, wanted))


def untagged(value: bool) -> Condition:
    has_tag = sa.exists().where(document_tags.c.document_id == documents.c.id)
    return ~has_tag if value else has_tag


def doc_type(value: Name) -> Condition:
    return documents.c.doc_type == value


def lang(value: Name) -> Condition:
    asked, stored = value.lower(), sa.func.lower(documents.c.lang)
    # `pt` is also `pt-br`.
    return sa.or_(stored == asked, sa.func.substr(stored, 1, len(asked) + 1) == f"{asked}-")


def trust_min(value: Trust) -> Condition:
    return documents.c.trust.in_(_TRUST[: _TRUST.index(value) + 1])


def media(value: Annotated[list[Name], Field(min_length=1)], plugins: Plugins) -> Condition:
    return among(documents.c.media, sorted(media_names(value, plugins)))


def media_names(asked: Iterable[str], plugins: Plugins) -> set[str]:
    """Return the media of documents for names that people use: `markdown`, `md`, `text/markdown`."""
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


def created_after(value: Time) -> Condition:
    return documents.c.created_at > value


def created_before(value: Time) -> Condition:
    return documents.c.created_at < value


def updated_after(value: Time) -> Condition:
    return documents.c.updated_at > value


def updated_before(value: Time) -> Condition:
    return documents.c.updated_at < value


def ingested_after(value: Time) -> Condition:
    return documents.c.indexed_at > value


def ingested_before(value: Time) -> Condition:
    return documents.c.indexed_at < value


def path_glob(value: Name, tx: Tx) -> Condition:
    """Compare in SQL where it can; else read the paths that begin right, and compare them here."""
    pattern = unicodedata.normalize("NFC", value)
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


# Over chunks: documents that have such a chunk


def source_ref(
    value: Annotated[Text, Field(min_length=1, max_length=2048)], plugins: Plugins
) -> Condition:
    return source_columns(plugins)[0].element == value


def query(value: Annotated[Text, Field(min_length=1, max_length=1000)], tx: Tx) -> Condition:
    """All words must match in one chunk, its title or its headings, as search matches words."""
    # Imported here: commands that only show their flags need no stemmers.
    from kb_text.api import text_query

    from kb_framework.api.text_query import Expression, Term

    words = tuple(Term(word) for word in dict.fromkeys(value.split()))
    return tx.text.matches(text_query(Expression(words)), chunks.c.seq) if words else sa.false()
