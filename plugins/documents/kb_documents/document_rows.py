"""Documents and their chunks, with full text and vectors kept in step in the same transaction."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from kb_framework.api import ChunkText
from kb_framework.api.spaces import Space, remove_vectors
from kb_framework.api.sql import among
from kb_framework.api.tables import chunks, document_tags, documents, file_removals
from kb_framework.api.times import now

if TYPE_CHECKING:
    from kb_framework.api.parts import Tx


# Statements of every document that is added, built once.
_INSERT_DOCUMENT = sa.insert(documents)
_INSERT_TAGS = sa.insert(document_tags)
_INSERT_CHUNKS = sa.insert(chunks)
# How many chunks are written at a time: what is made of them for the indexes takes several times their size.
_SLICE = 500


def content_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Content(NamedTuple):
    """New chunks of a document, each with its place in it; `vectors` are by content hash, `words` what is indexed, if made."""

    document_id: int
    title: str
    pieces: Sequence[tuple[int, ChunkText]]
    job_id: str
    vectors: Mapping[str, bytes]
    words: Sequence[Sequence[str]] | None = None


def insert_document(
    tx: Tx,
    values: dict[str, Any],
    tags: Iterable[str],
    pieces: Sequence[ChunkText],
    job_id: str,
    vectors: Mapping[str, bytes],
    space: Space | None,
) -> int:
    """Add a document with its chunks; `values` are columns of `documents`, `vectors` are by content hash."""
    document_id = insert_empty(tx, values, tags, len(pieces))
    insert_chunks(
        tx, [Content(document_id, values["title"], list(enumerate(pieces)), job_id, vectors)], space
    )
    return document_id


def insert_empty(tx: Tx, values: dict[str, Any], tags: Iterable[str], chunk_count: int) -> int:
    """Add a document; its chunks are to follow in the same transaction."""
    time = now()
    row = {
        **values,
        "organization_id": tx.organization_id,
        "chunk_count": chunk_count,
        "created_at": time,
    }
    inserted = tx.execute(_INSERT_DOCUMENT, {**row, "updated_at": time, "indexed_at": time})
    document_id: int = inserted.inserted_primary_key[0]  # type: ignore[index]
    owner = {"organization_id": tx.organization_id, "document_id": document_id}
    if links := [{**owner, "tag": tag} for tag in dict.fromkeys(tags)]:
        tx.execute(_INSERT_TAGS, links)
    return document_id


def replace_content(
    tx: Tx,
    document_id: int,
    values: dict[str, Any],
    pieces: Sequence[ChunkText],
    job_id: str,
    vectors: Mapping[str, bytes],
    space: Space | None,
) -> None:
    """Give a document new content. A chunk whose text is still there keeps its row, and so its id and all curation."""
    query = sa.select(chunks.c.seq, chunks.c.content_hash).where(
        chunks.c.document_id == document_id
    )
    waiting: dict[str, list[int]] = {}
    for number, digest in tx.execute(query.order_by(chunks.c.chunk_index)):
        waiting.setdefault(digest, []).append(number)
    every = [number for numbers in waiting.values() for number in numbers]
    kept: list[tuple[int, int, ChunkText]] = []
    new: list[tuple[int, ChunkText]] = []
    for index, piece in enumerate(pieces):
        same = waiting.get(content_hash(piece.content))
        if same:
            kept.append((same.pop(0), index, piece))
        else:
            new.append((index, piece))
    gone = sa.select(chunks.c.seq).where(
        among(chunks.c.seq, [number for numbers in waiting.values() for number in numbers])
    )
    # Titles and headings are indexed with every chunk, and may have changed around those that stay.
    tx.text.remove(sa.select(chunks.c.seq).where(among(chunks.c.seq, every)))
    remove_vectors(tx, gone)
    tx.execute(sa.delete(chunks).where(chunks.c.seq.in_(gone)))
    for number, index, piece in kept:
        # The text as well: a chunk is recognised by its hash, and its stored text may be damaged.
        values_now = {
            "chunk_index": index,
            "content": piece.content,
            "metadata": dict(piece.metadata),
        }
        tx.execute(sa.update(chunks).where(chunks.c.seq == number).values(values_now))
    _add_text(tx, values["title"], [(number, piece) for number, _, piece in kept])
    insert_chunks(tx, [Content(document_id, values["title"], new, job_id, vectors)], space)
    row = {**values, "chunk_count": len(pieces), "updated_at": now(), "indexed_at": now()}
    tx.execute(sa.update(documents).where(documents.c.id == document_id).values(row))


def insert_chunks(tx: Tx, contents: Iterable[Content], space: Space | None) -> None:
    """Add chunks of several documents, with full text and vectors."""
    every = (
        (content, index, piece, words)
        for content in contents
        for (index, piece), words in zip(
            content.pieces, content.words or repeat(None, len(content.pieces)), strict=True
        )
    )
    while part := list(islice(every, _SLICE)):
        _insert_slice(tx, part, space)


def _insert_slice(
    tx: Tx,
    part: Sequence[tuple[Content, int, ChunkText, Sequence[str] | None]],
    space: Space | None,
) -> None:
    time = now()
    rows = [
        {
            "id": str(uuid.uuid4()),
            "organization_id": tx.organization_id,
            "document_id": content.document_id,
            "job_id": content.job_id,
            "chunk_index": index,
            "content": piece.content,
            "content_hash": content_hash(piece.content),
            "metadata": dict(piece.metadata),
            "created_at": time,
        }
        for content, index, piece, _ in part
    ]
    tx.execute(_INSERT_CHUNKS, rows)
    numbers = _numbers(tx, rows)
    texts = [
        (number, words) if words else _text_row(number, content.title, piece)
        for number, (content, _, piece, words) in zip(numbers, part, strict=True)
    ]
    tx.text.add(texts)
    if space is not None:
        embedded = [
            (number, content.vectors[row["content_hash"]])
            for number, row, (content, *_) in zip(numbers, rows, part, strict=True)
            if row["content_hash"] in content.vectors
        ]
        tx.vector_index(space.index_name).add(embedded)


def _numbers(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The numbers that the rows were given, in their order."""
    found = tx.execute(
        sa.select(chunks.c.id, chunks.c.seq).where(among(chunks.c.id, [row["id"] for row in rows]))
    )
    by_id = {row[0]: row[1] for row in found}
    return [by_id[row["id"]] for row in rows]


def _add_text(tx: Tx, title: str, numbered: Iterable[tuple[int, ChunkText]]) -> None:
    rows = [_text_row(number, title, piece) for number, piece in numbered]
    if rows:
        tx.text.add(rows)


def _text_row(number: int, title: str, piece: ChunkText) -> tuple[int, Sequence[str]]:
    # Only where something is written: to read how words are made takes longer than many a command.
    from kb_text.api import indexed_words

    return number, indexed_words(title, piece)


def insert_archived(
    tx: Tx,
    targets: tuple[sa.Table, sa.Table],
    document: Mapping[str, Any],
    tags: Iterable[str],
    rows: Sequence[Mapping[str, Any]],
    vectors: Mapping[str, bytes],
    space: Space | None,
) -> int:
    """Add a document and its chunks as they were elsewhere, with ids, times and whatever columns `targets` have; its id.

    The document's own id is kept if it is free.
    """
    to_documents, to_chunks = targets
    taken = tx.scalar(sa.select(documents.c.id).where(documents.c.id == document["id"]))
    values = {name: value for name, value in document.items() if name != "id" or taken is None}
    inserted = tx.execute(
        sa.insert(to_documents).values({**values, "organization_id": tx.organization_id})
    )
    document_id: int = inserted.inserted_primary_key[0]  # type: ignore[index]
    if taken is None:
        tx.engine.numbers_given(tx.connection, documents)
    add_tags(tx, sa.select(documents.c.id).where(documents.c.id == document_id), tags)
    owner = {"organization_id": tx.organization_id, "document_id": document_id}
    for row in rows:
        number = tx.execute(sa.insert(to_chunks).values({**row, **owner})).inserted_primary_key[0]  # type: ignore[index]
        _add_text(tx, document["title"], [(number, ChunkText(row["content"], row["metadata"]))])
        if space is not None and row["content_hash"] in vectors:
            vector = [(number, vectors[row["content_hash"]])]
            tx.vector_index(space.index_name).add(vector)
    return document_id


def delete_documents(tx: Tx, selected: sa.Select) -> None:
    """Remove documents with everything derived from them; their files are noted for removal after the commit."""
    gone = sa.select(chunks.c.seq).where(chunks.c.document_id.in_(selected))
    tx.text.remove(gone)
    remove_vectors(tx, gone)
    tx.execute(sa.delete(chunks).where(chunks.c.document_id.in_(selected)))
    tx.execute(sa.delete(document_tags).where(document_tags.c.document_id.in_(selected)))
    release_files(tx, selected)
    tx.execute(sa.delete(documents).where(documents.c.id.in_(selected)))


def delete_chunks(tx: Tx, selected: sa.Select) -> None:
    """Remove single chunks, by number, with everything derived from them; their documents stay."""
    numbers = list(tx.connection.scalars(selected))
    gone = sa.select(chunks.c.seq).where(among(chunks.c.seq, numbers))
    shrunk = list(
        tx.connection.scalars(
            sa.select(chunks.c.document_id).where(among(chunks.c.seq, numbers)).distinct()
        )
    )
    tx.text.remove(gone)
    remove_vectors(tx, gone)
    tx.execute(sa.delete(chunks).where(among(chunks.c.seq, numbers)))
    left = (
        sa.select(sa.func.count()).where(chunks.c.document_id == documents.c.id).scalar_subquery()
    )
    tx.execute(
        sa.update(documents)
        .where(among(documents.c.id, shrunk))
        .values(chunk_count=left, updated_at=now())
    )


def release_files(tx: Tx, selected: sa.Select) -> None:
    """Note the files of these documents for removal after the commit, unless another document refers to them."""
    # The file may be another organization's too, who may be deleting it at the same time.
    tx.engine.take_turns(tx.connection, "files")
    keeping = documents.alias()
    kept = sa.select(keeping.c.id).where(
        keeping.c.file == documents.c.file, keeping.c.id.not_in(selected)
    )
    files = sa.select(documents.c.file, sa.literal(now())).distinct()
    files = files.where(
        documents.c.id.in_(selected), documents.c.file.is_not(None), ~sa.exists(kept)
    )
    known = sa.select(file_removals.c.key)
    tx.execute(
        sa.insert(file_removals).from_select(
            ["key", "created_at"], files.where(documents.c.file.not_in(known))
        )
    )


def add_tags(tx: Tx, selected: sa.Select, tags: Iterable[str]) -> None:
    """Give every selected document every tag that it does not have yet."""
    chosen = selected.subquery()
    (number,) = chosen.c
    for tag in dict.fromkeys(tags):
        # By the primary key, document by document: a list of all who have the tag may be far longer than the selection.
        has = sa.exists().where(document_tags.c.document_id == number, document_tags.c.tag == tag)
        missing = sa.select(sa.literal(tx.organization_id), number, sa.literal(tag)).where(~has)
        tx.execute(
            sa.insert(document_tags).from_select(["organization_id", "document_id", "tag"], missing)
        )


def remove_tags(tx: Tx, selected: sa.Select, tags: Iterable[str] | None) -> None:
    """Take the tags, or (None) all tags, from every selected document."""
    statement = sa.delete(document_tags).where(document_tags.c.document_id.in_(selected))
    if tags is not None:
        statement = statement.where(document_tags.c.tag.in_(list(tags)))
    tx.execute(statement)


def touch(tx: Tx, selected: sa.Select, **values: Any) -> None:
    """Set columns of the selected documents, and `updated_at`."""
    tx.execute(
        sa.update(documents).where(documents.c.id.in_(selected)).values(updated_at=now(), **values)
    )
    if "title" in values:
        # The title is indexed with every chunk.
        query = sa.select(chunks.c.seq, chunks.c.content, chunks.c.metadata).where(
            chunks.c.document_id.in_(selected)
        )
        numbered = [
            (number, ChunkText(content, metadata))
            for number, content, metadata in tx.execute(query)
        ]
        tx.text.remove(query.with_only_columns(chunks.c.seq))
        _add_text(tx, values["title"], numbered)


def has_all_tags(tags: Sequence[str]) -> sa.ColumnElement[bool]:
    """The condition that a document has every one of the tags."""
    conditions = [
        sa.exists().where(document_tags.c.document_id == documents.c.id, document_tags.c.tag == tag)
        for tag in dict.fromkeys(tags)
    ]
    return sa.and_(*conditions)
