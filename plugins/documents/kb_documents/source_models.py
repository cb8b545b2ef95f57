"""What the routes of source files take and give; apart, so that an unchanged folder needs no more."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_documents.fields import DocType
from kb_framework.api.models import Body, Id, Model, Tag, Tags, Text
from kb_framework.api.paging import PageMeta

Root = Annotated[Text, Field(min_length=1, max_length=8192)]


class SourceFile(Body):
    """A file as a folder lists it."""

    source: Annotated[Text, Field(min_length=1, max_length=8192)]
    size: Annotated[int, Field(ge=0)]
    modified_ns: Id
    stamp: Annotated[Text, Field(max_length=128)] | None = None


class SourcesIn(Body):
    """Everything that a folder holds now. With `root`, what is known below it and not listed has vanished.

    With `retry`, unchanged files that could not be read before are wanted again; with `checksum`, all files are; with `tags`,
    those whose documents lack one of them. With `elsewhere`, further sources of the documents are named.
    """

    files: list[SourceFile]
    root: Root | None = None
    tags: Tags = []
    retry: bool = False
    checksum: bool = False
    elsewhere: bool = False


class Source(Model):
    """A file on somebody's disk that a document was read from, and the path it is known by."""

    source: str
    path: str


class SourceList(Model):
    data: list[Source]


class VanishedSource(Model):
    """A file that is gone; `reading` is the state in which it was known, for `forget`."""

    source: str
    document_id: int
    reading: str | None


class RefusedSource(Model):
    """A file that could not be read when it was last sent, and has not changed since: its place in `files`, and why."""

    place: int
    reason: str
    job_id: int


class LeftOutSource(Model):
    """A file that had no text when it was last sent, and has not changed since: its place in `files`, and its kind."""

    place: int
    kind: str


class MovedFolder(Model):
    """A folder that holds the files of another. Where the other one no longer exists, it was renamed or moved."""

    old: str
    new: str


class SourcesOut(Model):
    """The places in `files` of those that are new or changed (`wanted`), and of those that need not be sent.

    `reads` lists the kinds and suffixes of files usually without text, such as images, that a plugin reads all the same.
    With `root`: `moved` are folders to call `move` for, `elsewhere` further sources of the documents in the listing, and
    `expired` counts documents that have been missing for too long.
    """

    unchanged: int
    max_file_bytes: int
    wanted: list[int]
    refused: list[RefusedSource]
    left_out: list[LeftOutSource]
    reads: list[str]
    vanished: list[VanishedSource]
    moved: list[MovedFolder] = []
    elsewhere: list[VanishedSource] = []
    expired: int = 0


class GoneSource(Body):
    source: Annotated[Text, Field(min_length=1, max_length=8192)]
    reading: Annotated[Text, Field(max_length=36)] | None = None


class ForgetIn(Body):
    """Files that are gone from the folder `root`, as `compare` named them; what was read again since then stays.

    With `force`, the safety threshold of the folder is not applied.
    """

    root: Root
    sources: Annotated[list[GoneSource], Field(min_length=1)]
    force: bool = False
    preview: bool = False


class NamedDocument(Model):
    id: int
    title: str
    path: str | None


class ForgetOut(Model):
    """Documents whose last source is gone are missing now, or `removed` where nothing missing is kept.

    Documents with another source have moved.
    """

    moved: int
    matched: int
    missing: int
    removed: int
    failed: int
    errors: list[dict[str, Any]]
    job_id: int | None
    documents: list[NamedDocument]


class MoveIn(Body):
    """The folder `old` is `new` now, which is `root` or below it."""

    root: Root
    old: Root
    new: Root


class MoveOut(Model):
    moved: int


class ExpireIn(Body):
    """Nothing: what is due is known by itself."""


class ExpireOut(Model):
    removed: int


class FolderRoot(Body):
    root: Root


class FolderIn(FolderRoot):
    """Options to sync a folder by; those that are absent stay as they are."""

    tags: list[Tag] | None = None
    doc_type: DocType | None = None
    include: list[Text] | None = None
    exclude: list[Text] | None = None
    host: Annotated[Text, Field(max_length=255)] | None = None


class SyncedFolder(Model):
    """A folder that was synced. `name` begins the paths of its documents; `host` is the machine that has it."""

    root: str
    name: str
    tags: list[str]
    doc_type: str | None
    include: list[str]
    exclude: list[str]
    host: str | None


class RecalledFolder(Model):
    folder: SyncedFolder | None


class FolderPage(Model):
    data: list[SyncedFolder]
    meta: PageMeta
