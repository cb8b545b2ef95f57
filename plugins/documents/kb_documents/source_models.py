"""What the routes of source files take and give; apart, so that an unchanged folder needs no more."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.validation import Body, Id, Model, Text


class SourceFile(Body):
    """A file as a folder lists it."""

    source: Annotated[Text, Field(min_length=1, max_length=8192)]
    size: Annotated[int, Field(ge=0)]
    modified_ns: Id


class SourcesIn(Body):
    """Everything that a folder holds now. With `root`, what is known below it and not listed has vanished.

    With `retry`, files that could not be read before are wanted again, although they are the same.
    """

    files: list[SourceFile]
    root: Annotated[Text, Field(min_length=1, max_length=8192)] | None = None
    retry: bool = False


class Source(Model):
    """A file on somebody's disk that a document was read from, and the path it is known by."""

    source: str
    path: str


class SourceList(Model):
    data: list[Source]


class VanishedSource(Model):
    source: str
    document_id: int


class RefusedSource(Model):
    """A file that could not be read when it was last sent, and has not changed since: its place in `files`, and why."""

    place: int
    reason: str
    job_id: int


class SourcesOut(Model):
    """`wanted` are the places in `files` of those that are new or changed."""

    unchanged: int
    max_file_bytes: int
    wanted: list[int]
    refused: list[RefusedSource]
    vanished: list[VanishedSource]


class ForgetIn(Body):
    sources: Annotated[list[Text], Field(min_length=1)]
    force: bool = False
    preview: bool = False


class ForgetOut(Model):
    """Documents whose last source is forgotten are removed; those with another one have merely moved."""

    moved: int
    matched: int
    removed: int
    failed: int
    errors: list[dict[str, Any]]
    job_id: int | None
