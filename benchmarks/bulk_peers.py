"""The same bulk operations on chromadb, lancedb and qdrant-client, each in its local, persistent form.

An item is a chunk: id, text, vector, its document and whether it is old. A tag is what each offers for it: a boolean field in
chromadb, an element of a list elsewhere. "10,000 documents" are the 10,000 items with index 0, "100,000" all items: one item per
document, which spares these stores the other chunks of a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from synthetic import Item


class Peer(Protocol):
    name: str

    def load(self, batches: Iterable[list[Item]]) -> None: ...

    def add_tag(self, first_only: bool) -> None: ...

    def remove_tag(self, first_only: bool) -> None: ...

    def replace_tags(self, first_only: bool) -> None: ...

    def fetch(self, ids: Sequence[str], vectors: bool) -> int: ...

    def delete_old(self) -> None: ...


class Chroma:
    name = "chromadb"

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self._client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._items = self._client.create_collection("items", embedding_function=None)

    def load(self, batches: Iterable[list[Item]]) -> None:
        for batch in batches:
            self._items.add(
                ids=[item.id for item in batch],
                embeddings=[np.frombuffer(item.vector, np.float32) for item in batch],
                documents=[item.text for item in batch],
                metadatas=[
                    {
                        "document": item.document,
                        "index": item.index,
                        "old": item.old,
                        "tag_all": True,
                    }
                    for item in batch
                ],
            )

    def _update(self, first_only: bool, change: dict[str, Any]) -> None:
        # There is no update by filter: the ids are asked for, and sent back in batches.
        where = {"index": 0} if first_only else {"tag_all": True}
        ids = self._items.get(where=where, include=[])["ids"]  # type: ignore[arg-type]
        for part in _parts(ids):
            self._items.update(ids=list(part), metadatas=[change] * len(part))  # type: ignore[arg-type]

    def add_tag(self, first_only: bool) -> None:
        self._update(first_only, {"tag_x": True})

    def remove_tag(self, first_only: bool) -> None:
        self._update(first_only, {"tag_x": None})

    def replace_tags(self, first_only: bool) -> None:
        self._update(first_only, {"tag_y": True, "tag_z": True, "tag_x": None})

    def fetch(self, ids: Sequence[str], vectors: bool) -> int:
        include = ["documents", "metadatas", *(["embeddings"] if vectors else [])]
        return len(self._items.get(ids=list(ids), include=include)["ids"])  # type: ignore[arg-type]

    def delete_old(self) -> None:
        self._items.delete(where={"old": True})


class Lance:
    name = "lancedb"

    def __init__(self, folder: Path) -> None:
        import lancedb

        self._database = lancedb.connect(str(folder))
        self._table: Any = None

    def load(self, batches: Iterable[list[Item]]) -> None:
        import pyarrow as pa

        for batch in batches:
            rows = pa.table(
                {
                    "id": [item.id for item in batch],
                    "text": [item.text for item in batch],
                    "document": [item.document for item in batch],
                    "index": [item.index for item in batch],
                    "old": [item.old for item in batch],
                    "tags": [["all"] for _ in batch],
                    "vector": pa.FixedSizeListArray.from_arrays(
                        pa.array(
                            np.frombuffer(b"".join(item.vector for item in batch), np.float32)
                        ),
                        len(batch[0].vector) // 4,
                    ),
                }
            )
            if self._table is None:
                self._table = self._database.create_table("items", rows)
            else:
                self._table.add(rows)
        self._table.create_scalar_index("id")
        self._table.optimize()

    def _update(self, first_only: bool, change: str) -> None:
        self._table.update(where="index = 0" if first_only else "true", values_sql={"tags": change})

    def add_tag(self, first_only: bool) -> None:
        self._update(first_only, "array_append(tags, 'x')")

    def remove_tag(self, first_only: bool) -> None:
        self._update(first_only, "array_remove(tags, 'x')")

    def replace_tags(self, first_only: bool) -> None:
        self._update(first_only, "make_array('y', 'z')")

    def fetch(self, ids: Sequence[str], vectors: bool) -> int:
        columns = ["id", "text", "document", "index", "tags", *(["vector"] if vectors else [])]
        listed = ", ".join(f"'{number}'" for number in ids)
        return len(
            self._table.search()
            .where(f"id IN ({listed})")
            .select(columns)
            .limit(len(ids))
            .to_list()
        )

    def delete_old(self) -> None:
        self._table.delete("old = true")


class Qdrant:
    name = "qdrant-client"

    def __init__(self, folder: Path) -> None:
        import warnings

        import qdrant_client
        from qdrant_client import models

        # It warns of collections as large as this one in its local form, which is the one that needs no server.
        warnings.simplefilter("ignore")
        self._models = models
        self._client = qdrant_client.QdrantClient(path=str(folder))

    def load(self, batches: Iterable[list[Item]]) -> None:
        models = self._models
        for batch in batches:
            if not self._client.collection_exists("items"):
                size = len(batch[0].vector) // 4
                self._client.create_collection(
                    "items", models.VectorParams(size=size, distance=models.Distance.COSINE)
                )
            self._client.upsert(
                "items",
                models.Batch(
                    ids=[item.id for item in batch],
                    vectors=[np.frombuffer(item.vector, np.float32).tolist() for item in batch],
                    payloads=[
                        {
                            "text": i.text,
                            "document": i.document,
                            "index": i.index,
                            "old": i.old,
                            "tags": ["all"],
                        }
                        for i in batch
                    ],
                ),
            )

    def _where(self, field: str, value: Any) -> Any:
        models = self._models
        return models.Filter(
            must=[models.FieldCondition(key=field, match=models.MatchValue(value=value))]
        )

    def _set(self, first_only: bool, tags: list[str]) -> None:
        # A list cannot be appended to: the tags are known here, so they are set.
        where = self._where("index", 0) if first_only else self._models.Filter()
        self._client.set_payload("items", {"tags": tags}, where)

    def add_tag(self, first_only: bool) -> None:
        self._set(first_only, ["all", "x"])

    def remove_tag(self, first_only: bool) -> None:
        self._set(first_only, ["all"])

    def replace_tags(self, first_only: bool) -> None:
        self._set(first_only, ["y", "z"])

    def fetch(self, ids: Sequence[str], vectors: bool) -> int:
        return len(
            self._client.retrieve("items", list(ids), with_payload=True, with_vectors=vectors)
        )

    def delete_old(self) -> None:
        self._client.delete("items", self._models.FilterSelector(filter=self._where("old", True)))


def _parts(ids: list[str], size: int = 5_000) -> Iterable[list[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


PEERS = {peer.name: peer for peer in (Chroma, Lance, Qdrant)}
