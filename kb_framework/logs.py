"""Log records as JSON lines, and the log file of the data folder."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path

from kb_framework.api.times import now
from kb_framework.masking import masked

LOG_FILE = "kb.log"
_REQUEST = ("request_id", "method", "path", "status", "ms")
_AUDIT = ("action", "subject", "user_id", "key_id", "organization_id")
_FIELDS = (*_REQUEST, *_AUDIT)
# There is one older file, so this is half of what logs may take.
_MAX_BYTES = 5_000_000
_MAX_LINE = 64_000


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the fields of a request where there is one. Passwords and keys are masked."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": now(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = masked(self.formatException(record.exc_info))[-_MAX_LINE:]
        return json.dumps(line, ensure_ascii=False)


class LogFile(logging.Handler):
    """Append records to `kb.log` of the data folder. A full file becomes `kb.log.1`, in place of the one before.

    Several processes write to it, so it is opened for each record: none keeps a file that another has renamed. Nothing is done
    before the first record, and a folder that does not exist is not made.
    """

    def __init__(self, data_dir: Path, max_bytes: int = _MAX_BYTES) -> None:
        super().__init__()
        self.path = data_dir / LOG_FILE
        self._max_bytes = max_bytes
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        line = (self.format(record) + "\n").encode(errors="replace")
        # A full or read-only disk is not worth failing over; the message is on standard error, too.
        with contextlib.suppress(OSError):
            flags = (
                os.O_WRONLY
                | os.O_APPEND
                | os.O_CREAT
                | getattr(os, "O_NOFOLLOW", 0)
                | getattr(os, "O_CLOEXEC", 0)
            )
            file = os.open(self.path, flags, 0o600)
            try:
                os.write(file, line)
                if os.fstat(file).st_size > self._max_bytes:
                    self._rotate(file)
            finally:
                os.close(file)

    def _rotate(self, file: int) -> None:
        with contextlib.suppress(ImportError):
            import fcntl

            # Of several processes that see a full file, the first renames it.
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file), self.path.stat()):
            self.path.replace(self.path.with_name(f"{LOG_FILE}.1"))
