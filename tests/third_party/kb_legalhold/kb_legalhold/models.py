"""What the operations of legal holds take and give."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from kb_framework.api.models import Body, Id, Text
from kb_framework.api.paging import PageIn, PageMeta


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Matter = Annotated[Text, Field(max_length=200), AfterValidator(_not_blank)]
DocumentIds = Annotated[list[Id], Field(min_length=1, description="The documents.")]


class HoldsIn(PageIn):
    matter: Annotated[Text | None, Field(description="Only the holds of this case.")] = None
    document_id: Annotated[Id | None, Field(description="Only the holds on this document.")] = None


class HoldIn(Body):
    document_ids: DocumentIds
    matter: Annotated[
        Matter | None, Field(description="Their case; by default KB_LEGALHOLD_DEFAULT_MATTER.")
    ] = None
    reason: Annotated[Text, Field(max_length=2000, description="Why.")] = ""
    sealed: Annotated[
        bool, Field(description="Also leave them out of every selection and search.")
    ] = False


class ReleaseIn(Body):
    document_ids: DocumentIds
    matter: Annotated[
        Matter | None, Field(description="Only the holds of this case; by default all.")
    ] = None


class Hold(BaseModel):
    id: int
    document_id: int
    matter: str
    reason: str
    sealed: bool
    user_id: str
    created_at: str


class Placed(BaseModel):
    """How many documents the matter holds since now, and how many it held before."""

    matter: str
    placed: int
    already_held: int


class Released(BaseModel):
    """How many holds ended."""

    released: int


class HoldPage(BaseModel):
    data: list[Hold]
    meta: PageMeta
