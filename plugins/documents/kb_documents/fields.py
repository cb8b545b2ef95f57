"""The fields that bodies and mutations of documents have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kb_framework.api.models import Text

Trust = Literal["primary", "secondary", "generated"]


def not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Title = Annotated[Text, Field(max_length=1000), AfterValidator(not_blank)]
DocType = Annotated[Text, Field(min_length=1, max_length=64), AfterValidator(not_blank)]
SourceRef = Annotated[
    Text,
    Field(
        min_length=1,
        max_length=2048,
        description="Where it is from: an address or another name of the source.",
    ),
]
SourceTitle = Annotated[
    Text, Field(min_length=1, max_length=255, description="The title of the source.")
]
Lang = Annotated[Text, Field(min_length=2, max_length=35)]
