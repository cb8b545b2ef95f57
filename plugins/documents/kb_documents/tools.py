"""MCP tools that are more than one call, or take what no field holds."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import Field

from kb_framework.api import Operation
from kb_framework.api.client import Engine
from kb_framework.errors import InvalidInput


def get_document(
    engine: Engine,
    operation: Operation[Any, Any],
    *,
    document_id: int,
    content: Annotated[bool, Field(description="Also give its chunks, with their text.")] = False,
) -> dict[str, Any]:
    document = engine.run(operation, {"document_id": document_id})
    if not content:
        return document
    return {**document, "chunks": engine.get_document_chunks(document_id)["data"]}


def append_upload(
    engine: Engine,
    operation: Operation[Any, Any],
    *,
    content: Annotated[
        str, Field(description="The next part: text, or base64 if `base64` is true.")
    ],
    base64: Annotated[bool, Field(description="For files that are not text.")] = False,
    **values: Any,
) -> dict[str, Any]:
    return engine.run(operation, values, _bytes(content) if base64 else content.encode())


def _bytes(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error:
        raise InvalidInput("content: is not base64", field="content") from None
