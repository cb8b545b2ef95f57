"""What an export holds, checked line by line: documents with their chunks, and rows of other tables."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

from kb_files.api import WHAT_TO_DO, chunk_damaged, is_changed, named_document
from pydantic import ConfigDict, Field, ValidationError

from kb_framework.api.models import Id, Model, StoredJson, Tags, Text, invalid, too_much_json
from kb_framework.api.nesting import PROBLEM
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
    metadata: StoredJson
    content_hash: Hash
    bytes: Annotated[int, Field(ge=0)]
    chunk_count: Annotated[int, Field(ge=0)]
    file: Annotated[str, Field(pattern=r"^[0-9a-f]{2}/[0-9a-f]{64}$")] | None
    created_at: Time
    updated_at: Time
    indexed_at: Time | None
    tags: Tags


class _Chunk(_Line):
    id: Uuid
    document_id: Id
    job_id: Uuid
    chunk_index: Annotated[int, Field(ge=0)]
    content: Text
    content_hash: Hash
    metadata: StoredJson
    created_at: Time


Entry = tuple[dict[str, Any], list[dict[str, Any]]]


class Contents:
    def __init__(self, path: Path, max_bytes: int) -> None:
        self.archive = ArchiveReader(path, FORMAT, max_bytes, _MEMBERS)
        # What is added although it is damaged, or without its file.
        self.damaged: list[str] = []
        if not {DOCUMENTS, CHUNKS} <= self.archive.names:
            self.archive.close()
            raise refused("it holds no documents")

    def close(self) -> None:
        self.archive.close()

    @property
    def tables(self) -> list[str]:
        names = (
            name.removeprefix("tables/").removesuffix(".ndjson")
            for name in self.archive.names
            if name.startswith("tables/")
        )
        return sorted(names)

    def entries(self) -> Generator[Entry, None, None]:
        """Documents with their chunks. Both members are in the order of documents, so neither need be held in memory."""
        # What is left open by a refusal would keep the archive open.
        with (
            closing(self._checked(DOCUMENTS, _Document)) as found,
            closing(self._checked(CHUNKS, _Chunk)) as waiting,
        ):
            chunk = next(waiting, None)
            last = 0
            for document in found:
                if document["id"] <= last:
                    raise refused(f"document {document['id']} is not in its place")
                last = document["id"]
                if document["file"] and document["file"] not in self.archive.files:
                    self.damaged.append(
                        _lost(document, is_damaged=document["file"] in self.archive.damaged)
                    )
                    document["file"] = None
                own: list[dict[str, Any]] = []
                while chunk is not None and chunk["document_id"] == last:
                    if is_changed(chunk["content"], chunk["content_hash"]):
                        # Damaged before it was exported: most of the text is better than none, and its hash still tells.
                        self.damaged.append(f"{chunk_damaged(chunk['id'], document)}: {WHAT_TO_DO}")
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
                if problem := too_much_json(row.get("metadata")):
                    # It costs its own metadata, not the document, and not the import.
                    row["metadata"] = {
                        PROBLEM: f"this was left out when it was imported: it was {problem}"
                    }
                try:
                    model.model_validate(row)
                except ValidationError as error:
                    raise refused(f"line {number} of {member}: {invalid(error).message}") from None
                yield row


def _lost(document: dict[str, Any], *, is_damaged: bool) -> str:
    """Name a document that is added without its file."""
    problem = "is damaged in the archive" if is_damaged else "is not in the archive"
    return f"the stored file of {named_document(document)} {problem}; its text is added. Add the original again (kb add)"
