"""MCP tools: holds can be read and placed; releasing one is left to people."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.client import Engine


def list_holds(
    engine: Engine,
    matter: Annotated[str | None, Field(description="Only the holds of this case.")] = None,
    page: int = 1,
    per_page: int = 20,
) -> dict[str, Any]:
    """The legal holds in force. A document on hold cannot be changed or deleted."""
    return engine.list_holds(matter=matter, page=page, per_page=per_page)


def place(
    engine: Engine,
    document_ids: Annotated[list[int], Field(description="The documents to hold.")],
    matter: Annotated[str | None, Field(description="The case they are held for.")] = None,
    reason: str | None = None,
    sealed: Annotated[bool | None, Field(description="Also leave them out of every selection and search.")] = None,
) -> dict[str, Any]:
    """Put documents on legal hold: they cannot be changed or deleted until a person releases them."""
    return engine.place_hold(document_ids, matter=matter, reason=reason, sealed=sealed)
