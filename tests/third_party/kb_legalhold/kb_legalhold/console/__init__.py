"""What the console shows of legal holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb_framework import api


def of_document(call: api.Call, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the cases that hold a document; None for a document that is not on hold."""
    holds = call("list_holds", document_id=document["id"])["data"]
    return {hold["matter"]: hold["reason"] or "no reason given" for hold in holds} or None
