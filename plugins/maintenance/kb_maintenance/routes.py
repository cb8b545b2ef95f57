"""HTTP: doctor, export, import, backup, reindex."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from anyio import to_thread
from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.response import Stream
from litestar.status_codes import HTTP_200_OK

from kb_framework.api import Actor
from kb_maintenance.backup import BackupService
from kb_maintenance.doctor import DoctorService
from kb_maintenance.exporting import ExportService
from kb_maintenance.importing import ImportService
from kb_maintenance.models import Compacted, Imported, Preview, Reindexed, ReindexIn
from kb_maintenance.service import ReindexService


def _download(parts: Iterator[bytes], filename: str) -> Stream:
    # The first part is made now, so that what goes wrong at the beginning still becomes an error with a status.
    first = next(parts)
    headers = {"Content-Disposition": f'attachment; filename="{filename}"'}
    return Stream(itertools.chain([first], parts), media_type="application/zip", headers=headers)


@get(
    "/export",
    sync_to_thread=True,
    media_type="application/zip",
    opt={"permission": "maintenance.export"},
)
def get_export(exports: NamedDependency[ExportService], actor: NamedDependency[Actor]) -> Stream:
    """Documents, files, chunks, tags and jobs in one archive, as they are at this moment."""
    return _download(exports.parts(actor), "export.kbz")


@get(
    "/backup",
    sync_to_thread=True,
    media_type="application/zip",
    opt={"permission": "engine.operate"},
)
def get_backup(backups: NamedDependency[BackupService]) -> Stream:
    """The whole database and its files, as they are at this moment."""
    return _download(backups.parts(), "backup.kbb")


@post(
    "/import",
    status_code=HTTP_200_OK,
    opt={"permission": "maintenance.import", "body": "bytes"},
    request_max_body_size=None,
)
async def upload_import(
    request: Request[Any, Any, Any],
    imports: NamedDependency[ImportService],
    actor: NamedDependency[Actor],
) -> Preview:
    """Send an archive as the request's body; what it holds that is not here yet. Nothing is added before it is applied."""
    import_id, path = await to_thread.run_sync(imports.receive, actor)
    try:
        size = 0
        with path.open("wb") as file:
            async for part in request.stream():
                size += len(part)
                imports.require_room(size)
                await to_thread.run_sync(file.write, part)
    except BaseException:
        imports.discard(import_id, actor)
        raise
    return await to_thread.run_sync(imports.preview, import_id, actor)


@post(
    "/import/{import_id:uuid}/apply",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "maintenance.import"},
)
def apply_import(
    import_id: FromPath[UUID],
    imports: NamedDependency[ImportService],
    actor: NamedDependency[Actor],
) -> Imported:
    """Add what is new, for about a second; ask again until it is finished."""
    return imports.apply(str(import_id), actor)


@delete("/import/{import_id:uuid}", sync_to_thread=True, opt={"permission": "maintenance.import"})
def discard_import(
    import_id: FromPath[UUID],
    imports: NamedDependency[ImportService],
    actor: NamedDependency[Actor],
) -> None:
    """Forget an uploaded archive."""
    imports.discard(str(import_id), actor)


@post(
    "/reindex", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "engine.operate"}
)
def reindex(data: JSONBody[ReindexIn], reindexing: NamedDependency[ReindexService]) -> Reindexed:
    """Embed all chunks anew beside the vectors in use, for about a second; ask again until it is finished."""
    return reindexing.reindex(data.embedder)


@post(
    "/reindex/compact",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "engine.operate"},
)
def compact(reindexing: NamedDependency[ReindexService]) -> Compacted:
    """Move the vectors to an index without holes, for about a second; ask again until it is finished."""
    return reindexing.compact()


@get("/doctor", sync_to_thread=True, opt={"permission": "engine.operate", "whole": True})
def get_doctor(doctor: NamedDependency[DoctorService]) -> dict[str, Any]:
    """Everything that can be checked, with what to do about what is wrong."""
    return doctor.report()


@post(
    "/doctor/repair",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "engine.operate"},
)
def repair(doctor: NamedDependency[DoctorService]) -> dict[str, Any]:
    """Make full text, vectors, counts and file records anew where they are wrong; what was done, and what the doctor says now.

    It answers after some seconds. While `finished` is false there is more to do: ask again.
    """
    return doctor.repair()


@post(
    "/doctor/deep",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    opt={"permission": "engine.operate"},
)
def check_all(doctor: NamedDependency[DoctorService]) -> dict[str, Any]:
    """Check every stored file and every chunk against its hash, then everything else.

    It answers after some seconds. While `finished` is false there is more to do: ask again.
    """
    return doctor.check_all()


handlers = [
    get_doctor,
    repair,
    check_all,
    get_export,
    get_backup,
    upload_import,
    apply_import,
    discard_import,
    reindex,
    compact,
]
