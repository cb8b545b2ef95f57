"""The operations of maintenance: doctor, export, import, backup, reindex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Http, Operation

if TYPE_CHECKING:
    from kb_framework.api.models import Body
    from kb_maintenance import models

_MODELS = "kb_maintenance.models"
_OPERATE = "engine.operate"
_ARCHIVE = "application/zip"

DOCTOR: Operation[Body, models.DoctorReport] = Operation(
    "doctor",
    "doctor.report",
    _OPERATE,
    Http("GET", "/doctor"),
    output=f"{_MODELS}:DoctorReport",
    help="Check everything, and say what to do about what is wrong.",
)

REPAIR: Operation[Body, models.DoctorRun] = Operation(
    "repair",
    "doctor.repair",
    _OPERATE,
    Http("POST", "/doctor/repair"),
    output=f"{_MODELS}:DoctorRun",
    help=(
        "Rebuild full text, vectors, counts and file records where they are wrong, then check everything. "
        "It answers after some seconds; while `finished` is false, send it again."
    ),
)

CHECK_ALL: Operation[Body, models.DoctorRun] = Operation(
    "check_all",
    "doctor.check_all",
    _OPERATE,
    Http("POST", "/doctor/deep"),
    output=f"{_MODELS}:DoctorRun",
    help=(
        "Compare every stored file and every chunk with its hash, then check everything else. "
        "It answers after some seconds; while `finished` is false, send it again."
    ),
)

EXPORT: Operation[Body, Any] = Operation(
    "export_archive",
    "exports.download",
    "maintenance.export",
    Http("GET", "/export", download=_ARCHIVE),
    help="Download documents, files, chunks, tags and jobs in one archive, as they are at this moment.",
)

BACKUP: Operation[Body, Any] = Operation(
    "download_backup",
    "backups.download",
    _OPERATE,
    Http("GET", "/backup", download=_ARCHIVE),
    help="Download the whole database and its files, as they are at this moment.",
)

UPLOAD_IMPORT: Operation[Body, models.Preview] = Operation(
    "upload_import",
    "imports.upload",
    "maintenance.import",
    Http("POST", "/import", content="stream"),
    output=f"{_MODELS}:Preview",
    help=(
        "Send an archive as the request's body, and see what it holds that is not here yet. "
        "Nothing is added before it is applied."
    ),
)

APPLY_IMPORT: Operation[models.ImportIn, models.Imported] = Operation(
    "apply_import",
    "imports.apply",
    "maintenance.import",
    Http("POST", "/import/{import_id:uuid}/apply"),
    input=f"{_MODELS}:ImportIn",
    output=f"{_MODELS}:Imported",
    help="Add what is new, for about a second; while `finished` is false, send it again.",
)

DISCARD_IMPORT: Operation[models.ImportIn, None] = Operation(
    "discard_import",
    "imports.discard",
    "maintenance.import",
    Http("DELETE", "/import/{import_id:uuid}", status=204),
    input=f"{_MODELS}:ImportIn",
    help="Delete an uploaded archive.",
)

REINDEX: Operation[models.ReindexIn, models.Reindexed] = Operation(
    "reindex",
    "reindexing.reindex",
    _OPERATE,
    Http("POST", "/reindex"),
    input=f"{_MODELS}:ReindexIn",
    output=f"{_MODELS}:Reindexed",
    help=(
        "Embed all chunks again beside the vectors in use, for about a second; "
        "while `finished` is false, send it again."
    ),
)

COMPACT: Operation[Body, models.Compacted] = Operation(
    "compact",
    "reindexing.compact",
    _OPERATE,
    Http("POST", "/reindex/compact"),
    output=f"{_MODELS}:Compacted",
    help=(
        "Move the vectors to an index without holes, for about a second; "
        "while `finished` is false, send it again."
    ),
)

OPERATIONS: list[Operation[Any, Any]] = [
    DOCTOR,
    REPAIR,
    CHECK_ALL,
    EXPORT,
    BACKUP,
    UPLOAD_IMPORT,
    APPLY_IMPORT,
    DISCARD_IMPORT,
    REINDEX,
    COMPACT,
]
