"""Files on their way into the store, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kb_documents.document_rows import Content
from kb_documents.extraction import LeftOut
from kb_documents.prepare import Incoming, Ready
from kb_framework.api.files import Staged
from kb_framework.errors import ExtractionFailed, KBError, MutationRefused, PayloadTooLarge


class Outcome(NamedTuple):
    document_id: int
    job_id: int
    status: Literal["added", "updated", "unchanged"]
    attachments: tuple[dict[str, Any], ...] = ()
    # The document was missing.
    returned: bool = False
    tags_added: tuple[str, ...] = ()
    # Another source has the same content.
    is_copy: bool = False


class Known(NamedTuple):
    """What is already there for an incoming file."""

    unchanged: int | None = None
    changed: int | None = None
    # The title that was derived when the source was last read, and the document it led to.
    source_title: str | None = None
    source_document: int | None = None


@dataclass(slots=True)
class Item:
    """A file on its way: made ready or refused, then written."""

    incoming: Incoming
    ready: Ready | None = None
    error: KBError | None = None
    outcome: Outcome | None = None
    staged: Staged | None = None
    # The chunks of a document that was just added, still to be written.
    content: Content | None = None
    # Whether files inside it are still to be added.
    holds_files: bool = False
    # Whether the stored file of the same content is missing or damaged.
    heals: bool = False
    reading: str | None = None

    @property
    def key(self) -> str:
        assert self.staged is not None
        return self.staged.key


def told(incoming: Incoming, outcome: Outcome | KBError) -> dict[str, Any]:
    """Return what became of a file inside another."""
    if isinstance(outcome, Outcome):
        return {"path": incoming.path, "status": outcome.status, "document_id": outcome.document_id}
    if not isinstance(outcome, ExtractionFailed | PayloadTooLarge | MutationRefused):
        # The file is not at fault: it is to be sent again.
        raise outcome
    if isinstance(outcome, LeftOut):
        return {
            "path": incoming.path,
            "status": "left_out",
            "reason": outcome.message,
            "kind": outcome.details["file_kind"],
        }
    return {
        "path": incoming.path,
        "status": "failed",
        "reason": outcome.message,
        "job_id": outcome.details.get("job_id"),
    }
