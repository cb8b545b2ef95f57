"""The entry point of the files plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_file_stores() -> list[api.FileStore]:
    return [
        api.FileStore("folder", scheme="file", target="kb_files.local:open_folder"),
        api.FileStore("bucket", scheme="s3", target="kb_files.s3:S3Files"),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [api.Service("integrity", "kb_files.integrity:Integrity")]


@hookimpl
def kb_checks() -> list[api.Check]:
    return [
        api.Check("files", "kb_files.checks:FilesCheck", rank=80),
        api.Check("content", "kb_files.checks:ContentCheck", rank=90),
    ]
