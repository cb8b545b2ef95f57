"""What handlers of hand-written routes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api.lazy import lazily

if TYPE_CHECKING:
    from kb_framework.edges.http.auth import SESSIONS as SESSIONS
    from kb_framework.edges.http.params import Answer as Answer
    from kb_framework.edges.http.params import DocumentId as DocumentId
    from kb_framework.edges.http.params import upload_bytes as upload_bytes

__getattr__ = lazily(
    __name__,
    {
        "kb_framework.edges.http.auth": "SESSIONS",
        "kb_framework.edges.http.params": "Answer DocumentId upload_bytes",
    },
)
