"""The engines that people would pick instead, each filled and asked in its own best way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from search_data import CHUNKS_PER_DOCUMENT, Data, Question, path_of, tags_of

# As many as kb hands to its fusion.
POOL = 100
_LANCE_GRAPH = 100_000
Search = Callable[[Question], Any]


class Peer:
    """`searches` are what it offers, by kind."""

    name = ""

    def __init__(self, folder: Path, data: Data) -> None:
        self.folder = folder
        self.data = data
        self.marker = folder / "filled"

    def fill(self) -> None:
        if not self.marker.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.load()
            self.marker.touch()

    def load(self) -> None:
        raise NotImplementedError

    def searches(self) -> dict[str, Search]:
        raise NotImplementedError

    def close(self) -> None:
        """Most have nothing to let go."""


def document_of(chunk: int) -> int:
    return chunk // CHUNKS_PER_DOCUMENT


def row_of(number: int, text: str, vector: np.ndarray) -> dict[str, Any]:
    document = document_of(number)
    tags = tags_of(document)
    return {
        "id": number,
        "text": text,
        "vector": vector,
        "tenth": "tenth" in tags,
        "hundredth": "hundredth" in tags,
        "folder": path_of(document).partition("/")[0],
    }


class Tantivy(Peer):
    name = "tantivy"

    def _schema(self) -> Any:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field("id", stored=True, fast=True)
        builder.add_text_field("text")
        builder.add_text_field("tag", tokenizer_name="raw", index_option="basic")
        return builder.build()

    def load(self) -> None:
        import tantivy

        index = tantivy.Index(self._schema(), path=str(self.folder))
        writer = index.writer(256_000_000, 2)
        for begin, texts, _ in self.data.batches():
            for number, text in enumerate(texts, begin):
                document = tantivy.Document()
                document.add_unsigned("id", number)
                document.add_text("text", text)
                for tag in tags_of(document_of(number)):
                    document.add_text("tag", tag)
                writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    def searches(self) -> dict[str, Search]:
        import tantivy

        schema = self._schema()
        index = tantivy.Index(schema, path=str(self.folder))
        index.reload()
        searcher = index.searcher()

        def lexical(question: Question, tag: str | None = None) -> list[int]:
            query = index.parse_query(question.text, ["text"])
            if tag:
                must = tantivy.Query.term_query(schema, "tag", tag)
                query = tantivy.Query.boolean_query(
                    [(tantivy.Occur.Must, query), (tantivy.Occur.Must, must)]
                )
            hits = searcher.search(query, POOL).hits
            return [searcher.doc(address)["id"][0] for _, address in hits]

        return {"lexical": lexical, "lexical, 1 %": lambda question: lexical(question, "hundredth")}


class Lance(Peer):
    name = "lancedb"

    def load(self) -> None:
        import lancedb
        import pyarrow as pa

        database = lancedb.connect(self.folder / "lance")

        def batches() -> Any:
            for begin, texts, vectors in self.data.batches():
                rows = [row_of(begin + i, text, vectors[i]) for i, text in enumerate(texts)]
                yield pa.RecordBatch.from_pylist(rows, schema)

        fields = [pa.field("id", pa.int64()), pa.field("text", pa.string())]
        fields += [pa.field("vector", pa.list_(pa.float32(), 256)), pa.field("tenth", pa.bool_())]
        schema = pa.schema(
            [*fields, pa.field("hundredth", pa.bool_()), pa.field("folder", pa.string())]
        )
        table = database.create_table("chunks", batches(), schema=schema, mode="overwrite")
        table.create_fts_index("text", use_tantivy=False, with_position=False)
        table.create_scalar_index("hundredth", index_type="BITMAP")
        table.create_index(metric="cosine", index_type="IVF_HNSW_SQ" if self._small else "IVF_PQ")

    @property
    def _small(self) -> bool:
        # A graph of a million vectors was not finished after 38 minutes; beyond this it gets the index that it makes by default.
        return self.data.size <= _LANCE_GRAPH

    def searches(self) -> dict[str, Search]:
        import lancedb

        table = lancedb.connect(self.folder / "lance").open_table("chunks")
        columns = ["id"]

        def refined(query: Any) -> Any:
            # Of vectors in a few bits the nearest must be compared in full.
            return query if self._small else query.refine_factor(10)

        def vector(question: Question, where: str | None = None) -> list[int]:
            query = refined(table.search(question.vector)).limit(POOL).select(columns)
            return [
                row["id"]
                for row in (query.where(where, prefilter=True) if where else query).to_list()
            ]

        def lexical(question: Question, where: str | None = None) -> list[int]:
            query = table.search(question.text, query_type="fts").limit(POOL).select(columns)
            return [
                row["id"]
                for row in (query.where(where, prefilter=True) if where else query).to_list()
            ]

        def hybrid(question: Question, where: str | None = None) -> list[int]:
            query = refined(
                table.search(query_type="hybrid").vector(question.vector).text(question.text)
            ).limit(POOL)
            return [
                row["id"]
                for row in (query.where(where, prefilter=True) if where else query).to_list()
            ]

        only = "hundredth = true"
        return {
            "lexical": lexical,
            "vector": vector,
            "hybrid": hybrid,
            "vector, 1 %": lambda question: vector(question, only),
            "hybrid, 1 %": lambda question: hybrid(question, only),
        }


class Chroma(Peer):
    name = "chromadb"

    def load(self) -> None:
        collection = self._client().create_collection(
            "chunks", configuration={"hnsw": {"space": "cosine"}}, get_or_create=True
        )
        for begin, _, vectors in self.data.batches(5000):
            numbers = range(begin, begin + len(vectors))
            flags = [
                {"hundredth": "hundredth" in tags_of(document_of(number))} for number in numbers
            ]
            # Its text search only tells whether a document holds a string, so it gets no text.
            collection.add([str(number) for number in numbers], embeddings=vectors, metadatas=flags)  # type: ignore[arg-type]

    def _client(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        return chromadb.PersistentClient(
            str(self.folder / "chroma"), Settings(anonymized_telemetry=False)
        )

    def searches(self) -> dict[str, Search]:
        collection = self._client().get_collection("chunks", embedding_function=None)

        def vector(question: Question, where: Any = None) -> list[int]:
            found = collection.query(
                query_embeddings=[question.vector], n_results=POOL, where=where, include=[]
            )
            return [int(number) for number in found["ids"][0]]

        return {
            "vector": vector,
            "vector, 1 %": lambda question: vector(question, {"hundredth": True}),
        }


class Qdrant(Peer):
    name = "qdrant-client local"

    def load(self) -> None:
        from qdrant_client import QdrantClient, models

        self._client = QdrantClient(":memory:")
        size = models.VectorParams(size=256, distance=models.Distance.COSINE)
        self._client.create_collection("chunks", vectors_config=size)
        for begin, _, vectors in self.data.batches():
            points = [
                models.PointStruct(
                    id=begin + i,
                    vector=vector.tolist(),
                    payload={"hundredth": "hundredth" in tags_of(document_of(begin + i))},
                )
                for i, vector in enumerate(vectors)
            ]
            self._client.upsert("chunks", points)

    def fill(self) -> None:
        # It lives in memory alone.
        self.load()

    def searches(self) -> dict[str, Search]:
        from qdrant_client import models

        condition = models.FieldCondition(key="hundredth", match=models.MatchValue(value=True))
        only = models.Filter(must=[condition])

        def vector(question: Question, where: Any = None) -> list[int]:
            found = self._client.query_points(
                "chunks", query=question.vector.tolist(), limit=POOL, query_filter=where
            )
            return [point.id for point in found.points]  # type: ignore[misc]

        return {"vector": vector, "vector, 1 %": lambda question: vector(question, only)}


PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in (Tantivy, Lance, Chroma, Qdrant)}
