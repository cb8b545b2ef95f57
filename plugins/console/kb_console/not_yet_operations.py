"""The list of documents, which is still served by a hand-written route, called here the same way."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kb_framework.api import Actor, Http, Operation
from kb_framework.paging import PageIn, PageMeta
from kb_framework.validation import Tag, Text

_HERE = "kb_console.not_yet_operations"


class DocumentsIn(PageIn):
    tags: Annotated[list[Tag] | None, Field(description="Has ALL of these tags.")] = None
    doc_type: Annotated[Text | None, Field(description="Is of this type.")] = None
    q: Annotated[Text | None, Field(description="Title or path contains this.")] = None
    sort: Annotated[Text, Field(description="A field, with - for descending.")] = "id"
    missing: Annotated[
        bool, Field(description="Only those whose files vanished from a synced folder.")
    ] = False


def _operation(
    name: str, method: Any, path: str, model: str, permission: str = "documents.read"
) -> Operation[Any, Any]:
    return Operation(
        name,
        f"console_not_yet.{name}",
        permission,
        Http(method, path, by_hand=True),
        input=f"{_HERE}:{model}",
    )


OPERATIONS = {
    item.name: item for item in (_operation("list_documents", "GET", "/documents", "DocumentsIn"),)
}


class NotYet:
    """Calls the service behind that route."""

    def __init__(self, documents: Any) -> None:
        self._documents = documents

    def list_documents(self, asked: DocumentsIn, actor: Actor) -> dict[str, Any]:
        data, meta, hint = self._documents.list(
            actor,
            asked.wanted,
            asked.tags or [],
            asked.doc_type,
            asked.q,
            asked.sort,
            asked.missing,
        )
        return {**_page(data, meta), "hint": hint}


def _page(data: Any, meta: PageMeta) -> dict[str, Any]:
    rows = [item if isinstance(item, dict) else item.model_dump(mode="json") for item in data]
    return {"data": rows, "meta": meta.model_dump()}
