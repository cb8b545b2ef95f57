"""Knowledge bases of any size in seconds: documents with tags, chunks, full text, vectors and stored files.

Rows are written to the store directly, a batch per statement, so that a benchmark or a test of large collections spends its
time on what it is about. Every second document has the tag `old`; all have `all`. Texts follow Zipf's law, vectors are random.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from kb_text.api import index_fields

from kb_framework.api import DEFAULT_ORGANIZATION
from kb_framework.api.spaces import active_space, create_space
from kb_framework.api.tables import chunks, documents
from kb_framework.api.times import now
from kb_framework.app import KB

_BATCH = 2_000
_VOCABULARY = 20_000


@dataclass(frozen=True)
class Item:
    """One chunk of one document, as any store could hold it."""

    id: str
    document: int
    index: int
    text: str
    vector: bytes

    @property
    def old(self) -> bool:
        return self.document % 2 == 0


def items(
    documents: int, chunks_each: int, *, words: int = 60, dimensions: int = 256, seed: int = 1
) -> Iterator[list[Item]]:
    """The chunks, in batches of whole documents; the same ones for the same arguments."""
    random = np.random.default_rng(seed)
    vocabulary = np.array([f"w{number:x}" for number in range(_VOCABULARY)])
    per_batch = max(1, _BATCH // chunks_each)
    for first in range(1, documents + 1, per_batch):
        numbers = range(first, min(first + per_batch, documents + 1))
        count = len(numbers) * chunks_each
        chosen = vocabulary[np.minimum(random.zipf(1.3, (count, words)), _VOCABULARY) - 1]
        vectors = random.standard_normal((count, dimensions), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        made = random.bytes(16 * count)
        yield [
            Item(
                str(uuid.UUID(bytes=made[16 * place : 16 * place + 16], version=4)),
                numbers[place // chunks_each],
                place % chunks_each,
                " ".join(chosen[place]),
                vectors[place].tobytes(),
            )
            for place in range(count)
        ]


def fill(
    kb: KB,
    batches: Iterator[list[Item]],
    *,
    files: bool = False,
    organization_id: str = DEFAULT_ORGANIZATION,
) -> None:
    """Write the items to an organization, beside what is there, all in one transaction."""
    time = now()
    with kb.store.write(organization_id) as tx:
        run, owner = tx.connection.exec_driver_sql, tx.organization_id
        sign = "?" if tx.engine.name == "sqlite" else "%s"

        def insert(statement: str, rows: list[tuple[Any, ...]]) -> None:
            run(statement.replace("?", sign), rows)

        embedder = kb.services["embedding"].embedder()
        space = active_space(tx) or create_space(tx, embedder.model, embedder.dimensions)
        number = run("SELECT coalesce(max(seq), 0) FROM chunks").scalar_one()
        before = run("SELECT coalesce(max(id), 0) FROM documents").scalar_one()
        for batch in batches:
            if before:
                batch = [
                    dataclasses.replace(item, document=before + item.document) for item in batch
                ]
            sizes: dict[int, int] = {}
            for item in batch:
                sizes[item.document] = sizes.get(item.document, 0) + 1
            keys = {document: _store(kb, document) if files else None for document in sizes}
            insert(
                "INSERT INTO documents (id, organization_id, doc_type, title, path, media, trust, metadata, content_hash, bytes, "
                "chunk_count, file, created_at, updated_at, indexed_at) "
                "VALUES (?, ?, 'note', ?, ?, 'markdown', 'primary', '{}', ?, 8, ?, ?, ?, ?, ?)",
                [
                    (
                        n,
                        owner,
                        f"document {n}",
                        f"{n}.md",
                        _digest(str(n)),
                        size,
                        keys[n],
                        time,
                        time,
                        time,
                    )
                    for n, size in sizes.items()
                ],
            )
            insert(
                "INSERT INTO document_tags (organization_id, document_id, tag) VALUES (?, ?, ?)",
                [
                    (owner, n, tag)
                    for n in sizes
                    for tag in (("all", "old") if n % 2 == 0 else ("all",))
                ],
            )
            numbered = list(enumerate(batch, number + 1))
            number += len(batch)
            insert(
                "INSERT INTO chunks (seq, id, organization_id, document_id, job_id, chunk_index, content, content_hash, "
                "metadata, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        seq,
                        i.id,
                        owner,
                        i.document,
                        i.id,
                        i.index,
                        i.text,
                        _digest(i.text),
                        json.dumps({"lines": [1, 2]}),
                        time,
                    )
                    for seq, i in numbered
                ],
            )
            texts = [
                (seq, index_fields([f"document {i.document}", "", i.text])) for seq, i in numbered
            ]
            tx.text.add(texts)
            tx.vector_index(space.index_name).add([(seq, i.vector) for seq, i in numbered])
        for table in (documents, chunks):
            tx.engine.numbers_given(tx.connection, table)


def _store(kb: KB, document: int) -> str:
    """A small stored file, not made durable: nothing of it is measured but its removal."""
    data = str(document).encode()
    key = f"{_digest(data.decode())[:2]}/{_digest(data.decode())}"
    path = kb.files.path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return key


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
