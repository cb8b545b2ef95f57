"""What an export holds, checked line by line: documents with their chunks, and rows of other tables."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from kb_framework.store.documents import content_hash
from kb_framework.validation import Id, JsonObject, Model, Tag, Text, invalid
from kb_maintenance.archive import ArchiveReader, refused
from kb_maintenance.exporting import CHUNKS, DOCUMENTS, FORMAT

_MEMBERS = re.compile(r"documents\.ndjson|chunks\.ndjson|tables/[a-z][a-z0-9_]{0,63}\.ndjson")
_DOCUMENTS_AT_ONCE = 100
_CHUNKS_AT_ONCE = 1000

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Time = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class _Line(Model):
    # Further columns are a plugin's.
    model_config = ConfigDict(extra="allow", strict=True)


class _Document(_Line):
    id: Annotated[Id, Field(ge=1)]
    doc_type: Text
    title: Text
    path: Text | None
    media: Text
    lang: Text | None
    trust: Literal["primary", "secondary", "generated"]
    metadata: JsonObject
    content_hash: Hash
    bytes: Annotated[int, Field(ge=0)]
    chunk_count: Annotated[int, Field(ge=0)]
    file: Annotated[str, Field(pattern=r"^[0-9a-f]{2}/[0-9a-f]{64}$")] | None
    created_at: Time
    updated_at: Time
    indexed_at: Time | None
    tags: list[Tag]


class _Chunk(_Line):
    id: Uuid
    document_id: Id
    job_id: Uuid
    chunk_index: Annotated[int, Field(ge=0)]
    content: Text
    content_hash: Hash
    metadata: JsonObject
    created_at: Time


Entry = tuple[dict[str, Any], list[dict[str, Any]]]


class Contents:
    def __init__(self, path: Path, max_bytes: int) -> None:
        self.archive = ArchiveReader(path, FORMAT, max_bytes, _MEMBERS)
        if not {DOCUMENTS, CHUNKS} <= self.archive.names:
            self.archive.close()
            raise refused("it holds no documents")

    def close(self) -> None:
        self.archive.close()

    @property
    def tables(self) -> list[str]:
        names = (
            name.removeprefix("tables/").removesuffix(".ndjson") for name in self.archive.names if name.startswith("tables/")
        )
        return sorted(names)

    def entries(self) -> Generator[Entry, None, None]:
        """Documents with their chunks. Both members are in the order of documents, so neither need be held in memory."""
        # What is left open by a refusal would keep the archive open.
        with closing(self._checked(DOCUMENTS, _Document)) as found, closing(self._checked(CHUNKS, _Chunk)) as waiting:
            chunk = next(waiting, None)
            last = 0
            for document in found:
                if document["id"] <= last:
                    raise refused(f"document {document['id']} is not in its place")
                last = document["id"]
                if document["file"] and document["file"] not in self.archive.files:
                    document["file"] = None
                own: list[dict[str, Any]] = []
                while chunk is not None and chunk["document_id"] == last:
                    if content_hash(chunk["content"]) != chunk["content_hash"]:
                        raise refused(f"the text of chunk {chunk['id']} is not what its hash says")
                    own.append(chunk)
                    chunk = next(waiting, None)
                yield document, own
            if chunk is not None:
                raise refused(f"chunk {chunk['id']} belongs to no document, or is not in its place")

    def batches(self) -> Generator[list[Entry], None, None]:
        batch: list[Entry] = []
        size = 0
        with closing(self.entries()) as entries:
            for entry in entries:
                batch.append(entry)
                size += len(entry[1])
                if len(batch) >= _DOCUMENTS_AT_ONCE or size >= _CHUNKS_AT_ONCE:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _checked(self, member: str, model: type[_Line]) -> Generator[dict[str, Any], None, None]:
        with closing(self.archive.lines(member)) as lines:
            for number, row in enumerate(lines, 1):
                try:
                    model.model_validate(row)
                except ValidationError as error:
                    raise refused(f"line {number} of {member}: {invalid(error).message}") from None
                yield row
