"""What a list of documents takes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kb_framework.api.models import Text
from kb_framework.api.paging import PageIn
from kb_framework.api.parts import Plugins
from kb_framework.api.selection import Filtered, with_filters

Sort = Literal[
    "id",
    "title",
    "created_at",
    "updated_at",
    "bytes",
    "doc_type",
    "-id",
    "-title",
    "-created_at",
    "-updated_at",
    "-bytes",
    "-doc_type",
]


class ListIn(PageIn, Filtered):
    """Which documents are listed, and which page of them. Further fields are the filters that plugins offer."""

    q: Annotated[
        Annotated[Text, Field(max_length=1000)] | None,
        Field(description="Only documents with this in their title or path."),
    ] = None
    sort: Annotated[Sort, Field(description="The order; with - in front, descending.")] = "id"


def list_model(plugins: Plugins) -> type[ListIn]:
    return with_filters("DocumentsIn", ListIn, plugins, "documents")
