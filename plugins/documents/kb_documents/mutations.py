"""What can be done to documents, one or many at once; the host's pipeline does the rest."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import sqlalchemy as sa
from pydantic import Field, model_validator

from kb_documents.document_rows import add_tags, delete_documents, remove_tags, touch
from kb_documents.fields import DocType, Title, Trust
from kb_framework.api import Flag
from kb_framework.api.models import Body, JsonObject, Tags
from kb_framework.api.parts import Tx


class Delete(Body):
    """Delete documents for good."""

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        delete_documents(tx, documents)


class ChangeTags(Body):
    """Add and remove tags."""

    keeps_chunks: ClassVar[bool] = True

    add: Annotated[Tags | None, Field(description="Tags to add to every selected document.")] = None
    remove: Annotated[
        Tags | None, Field(description="Tags to remove from every selected document.")
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> ChangeTags:
        if not self.add and not self.remove:
            raise ValueError("give tags to add or to remove")
        both = sorted(set(self.add or ()) & set(self.remove or ()))
        if both:
            raise ValueError(f"{both[0]!r} is both added and removed")
        return self

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        if self.remove:
            remove_tags(tx, documents, self.remove)
        add_tags(tx, documents, self.add or ())
        touch(tx, documents)


class SetTags(Body):
    """Replace all tags."""

    keeps_chunks: ClassVar[bool] = True

    new_tags: Annotated[
        Tags,
        Flag("--set"),
        Field(description="Tags that replace all tags of every selected document; [] removes all."),
    ]

    @model_validator(mode="before")
    @classmethod
    def _named_apart(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("new_tags") is None:
            raise ValueError("new_tags is required: tags selects; new_tags replaces")
        return values

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        remove_tags(tx, documents, None)
        add_tags(tx, documents, self.new_tags)
        touch(tx, documents)


class Update(Body):
    """Change fields of a document; absent ones stay."""

    keeps_chunks: ClassVar[bool] = True

    title: Title | None = None
    doc_type: DocType | None = None
    metadata: JsonObject | None = None
    trust: Trust | None = None

    def apply(self, tx: Tx, documents: sa.Select) -> None:
        touch(tx, documents, **self.model_dump(exclude_none=True))
