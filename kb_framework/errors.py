"""One tree of errors; each edge translates it in one place, nobody else catches it."""

from __future__ import annotations

import errno
from typing import Any, Literal

from kb_framework.masking import masked

# How a message ends that may be relied on: whoever reads it may do the same again.
UNCHANGED = "; nothing was changed"


class KBError(Exception):
    """Something a person can act on: a code from a closed list, a sentence, and details.

    `details` are merged into the flat HTTP body, so their names belong to the wire contract.
    """

    code = "internal_error"
    http_status = 500
    exit_code = 1

    def __init__(
        self, message: str, *, hint: str | None = None, code: str | None = None, **details: Any
    ) -> None:
        # Here, so that no edge, log or record can show a password that was part of an address.
        self.message = masked(message)
        self.hint = masked(hint) if hint else hint
        super().__init__(self.message)
        self.details = details
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return self.message

    def flat(self) -> dict[str, Any]:
        """`{"error", "message", …}`: documents, bulk, knowledge, research."""
        hint = {"hint": self.hint} if self.hint else {}
        return {"error": self.code, "message": self.message, **hint, **self.details}

    def v1(self) -> dict[str, Any]:
        """`error.v1`: search, the CLI's `--json`, MCP."""
        return {
            "schema_version": "error.v1",
            "code": self.code,
            "message": self.message,
            "details": self.details,
            "hint": self.hint,
        }

    def envelope(self) -> dict[str, Any]:
        """`{"success": false, "error": {…}}`: chunks by id."""
        code = InvalidRequest.code if self.code == InvalidInput.code else self.code
        return {
            "success": False,
            "error": {"code": code.upper(), "message": self.message, "details": self.details},
        }

    def in_dialect(self, dialect: Literal["flat", "v1", "envelope"]) -> dict[str, Any]:
        """Return the body in the dialect of an operation's errors."""
        return {"flat": self.flat, "v1": self.v1, "envelope": self.envelope}[dialect]()


class InvalidInput(KBError):
    code = "invalid_input"
    http_status = 400
    exit_code = 2


class InvalidRequest(InvalidInput):
    """What invalid input is called where chunks are asked for by id."""

    code = "invalid_request"


class InvalidUuid(InvalidInput):
    code = "invalid_uuid"


class ConfigInvalid(KBError):
    """A setting, or a command line, that cannot be used."""

    code = "config_invalid"
    http_status = 500
    exit_code = 2


class InvalidCursor(InvalidInput):
    """A cursor that this query did not give."""

    code = "invalid_cursor"


class StaleCursor(KBError):
    """A cursor from before the documents changed."""

    code = "stale_cursor"
    http_status = 409


class Unauthorized(KBError):
    code = "unauthorized"
    http_status = 401


class Forbidden(KBError):
    code = "forbidden"
    http_status = 403


class NotFound(KBError):
    code = "not_found"
    http_status = 404


class MethodNotAllowed(KBError):
    code = "method_not_allowed"
    http_status = 405


class Conflict(KBError):
    code = "conflict"
    http_status = 409


class ViewInvalid(Conflict):
    """A view whose filters cannot all be applied. It is refused, since without one of them it would select more."""

    code = "view_invalid"


class SafetyThresholdExceeded(KBError):
    code = "safety_threshold_exceeded"
    http_status = 409


class SelectionChanged(KBError):
    """What a plan was made for is not what it would change now."""

    code = "selection_changed"
    http_status = 409


class PlanExpired(KBError):
    code = "plan_expired"
    http_status = 409


class Declined(KBError):
    """The person who was asked did not say yes."""

    code = "declined"
    http_status = 409


class MutationRefused(KBError):
    """A guard said no to the whole plan, or could not be asked."""

    code = "mutation_refused"
    http_status = 409


class WrongType(TypeError):
    """A plugin's part returned something else than its contract says. The sentence names types, never values."""


class ExtractionFailed(KBError):
    """A file that cannot be read as a document; the reason is on its job."""

    code = "extraction_failed"
    http_status = 400
    exit_code = 1


class NoText(ExtractionFailed):
    """A sound file without text. An extractor of lower precedence may still find some."""


class TooManyRequests(KBError):
    """A limit is used up; `retry_after` says after how many seconds to come back."""

    code = "rate_limited"
    http_status = 429

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, hint=f"try again in {retry_after} s", retry_after=retry_after)


class PayloadTooLarge(KBError):
    code = "payload_too_large"
    http_status = 413
    exit_code = 2


class RequestTimeout(KBError):
    """A body that did not arrive in time."""

    code = "request_timeout"
    http_status = 408


class UnsupportedMediaType(KBError):
    code = "unsupported_media_type"
    http_status = 415
    exit_code = 2


class Busy(KBError):
    """The database stayed locked for longer than the time-out."""

    code = "busy"
    http_status = 503
    exit_code = 3


class Unconfirmed(Busy):
    """The connection was lost during a commit, so nobody knows yet whether the change was made."""


class EmbedderUnavailable(KBError):
    code = "embedder_unavailable"
    http_status = 400


class GeneratorUnavailable(KBError):
    """No answer can be generated: nothing is configured, or the endpoint does not answer."""

    code = "generator_unavailable"
    http_status = 503
    exit_code = 3


class GeneratorRefused(KBError):
    """The generator does not take this prompt: it is too long, or not to its liking."""

    code = "generator_refused"
    http_status = 400


class PluginFailed(KBError):
    """A plugin did not load, or its hook raised."""

    code = "plugin_failed"
    http_status = 503


class StoreUnusable(KBError):
    """The database cannot be opened, read or written."""

    code = "store_unusable"
    http_status = 503
    exit_code = 3


class DatabaseMissing(StoreUnusable):
    """Files are stored, but the database that they belong to is gone."""

    code = "database_missing"


class DiskFull(StoreUnusable):
    """There is no room to write; nothing was changed."""

    code = "disk_full"
    http_status = 507


class OutOfMemory(KBError):
    """The process may not have the memory that a request needs."""

    code = "out_of_memory"
    http_status = 503
    exit_code = 3

    def __init__(self) -> None:
        hint = "give the process more memory (ulimit -v, the container's limit), or ask for less at once"
        super().__init__("there is not enough memory for this request", hint=hint)


_NO_MEMORY = (
    "Cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "out of memory",
)


def memory_trouble(error: BaseException | None) -> OutOfMemory | None:
    """The error that a lack of memory is, however it showed: as itself, as a library that cannot be loaded, as no new thread."""
    while error is not None:
        lacking = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
        if lacking or any(words in str(error) for words in _NO_MEMORY):
            return OutOfMemory()
        error = error.__cause__ or error.__context__
    return None


class FilesUnreachable(StoreUnusable):
    """The storage of files does not answer, or refuses; nothing was changed."""

    code = "files_unreachable"


class FileDamaged(KBError):
    """The content of a stored file is not what was stored."""

    code = "file_damaged"
    exit_code = 3


def disk_trouble(error: OSError) -> KBError | None:
    """What an error of the operating system says of the disk, for a person; None where it is about something else."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"the disk is full{UNCHANGED}",
            hint="free some space where the data folder is, and try again",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreUnusable(
            f"the data folder cannot be read or written{UNCHANGED}",
            hint="check the permissions of its files, and whether its disk is mounted read-only",
        )
    if error.errno in (errno.EIO, errno.EFBIG):
        return StoreUnusable(
            f"the disk failed{UNCHANGED}", hint="check the disk and its quota, then run kb doctor"
        )
    return None


class EngineUnreachable(KBError):
    code = "engine_unreachable"
    http_status = 503
    exit_code = 3


class InternalError(KBError):
    """What a caller may know of an unexpected failure: the id under which it was logged."""

    exit_code = 3


class EngineError(KBError):
    """A non-2xx answer of the engine, with its status and its own body."""

    def __init__(self, status: int, body: Any) -> None:
        fields = body if isinstance(body, dict) else {}
        inner = fields.get("error")
        nested = inner if isinstance(inner, dict) else fields
        code = nested.get("code") or (inner if isinstance(inner, str) else "internal_error")
        super().__init__(
            str(nested.get("message") or f"the engine answered {status}"), code=str(code).lower()
        )
        self.hint = fields.get("hint")
        self.details = nested.get("details") or {
            key: value
            for key, value in fields.items()
            if key not in {"error", "message", "hint", "success"}
        }
        self.http_status = status
        self.body = body
        self.exit_code = 2 if status in (400, 413, 415) else 3 if status >= 500 else 1
        if self.code == ExtractionFailed.code:
            self.exit_code = ExtractionFailed.exit_code


def error_codes() -> list[str]:
    """The closed list of codes that any surface may answer with."""

    def walk(kind: type[KBError]) -> set[str]:
        return {kind.code}.union(*(walk(child) for child in kind.__subclasses__()))

    return sorted(walk(KBError))
