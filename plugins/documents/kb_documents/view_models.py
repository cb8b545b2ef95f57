"""What the operations on views take and give."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, create_model

from kb_framework.api.models import Body, Model, Question, Text, clean_tag, too_much_json
from kb_framework.api.paging import PageMeta
from kb_framework.api.parts import Plugins
from kb_framework.api.selection import with_filters


def _clean_name(name: str) -> str:
    name = clean_tag(name)
    if "/" in name or name.strip(".") == "":
        raise ValueError("a view's name has no slashes, and is not only dots")
    return name


ViewName = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_clean_name)]


class ViewIn(Question):
    """Which view is meant."""

    name: Annotated[ViewName, Field(description="The view's name.")]


class ViewFilters(Body):
    """The filters of a view. All of them must match."""


def _bounded(filters: BaseModel) -> BaseModel:
    if problem := too_much_json(filters.model_dump(mode="json", exclude_none=True)):
        raise ValueError(f"must not be {problem}")
    return filters


class SaveViewIn(Body):
    """A view as it is saved. One that exists is replaced."""

    name: Annotated[ViewName, Field(description="The view's name.")]
    description: Annotated[
        Annotated[Text, Field(max_length=1000)] | None, Field(description="What it is for.")
    ] = None
    filters: Annotated[ViewFilters, AfterValidator(_bounded)]


def filters_model(plugins: Plugins) -> type[Any]:
    """Return the model of a view's filters: every filter of documents but `view`."""
    return with_filters("ViewFilters", ViewFilters, plugins, "documents", without=("view",))


def save_model(plugins: Plugins) -> type[SaveViewIn]:
    return _save_model(filters_model(plugins))


# A schema has one definition of each name.
@functools.lru_cache(maxsize=8)
def _save_model(filters: Any) -> type[SaveViewIn]:
    field: Any = (
        Annotated[
            filters,
            AfterValidator(_bounded),
            Field(description="The filters that it stands for; all of them must match."),
        ],
        ...,
    )
    return create_model("SaveView", __base__=SaveViewIn, filters=field)


class View(Model):
    """A named selection. `problem` says why it cannot be used; then it is refused, and never selects more."""

    name: str
    description: str | None
    filters: dict[str, Any]
    problem: str | None
    created_at: str
    updated_at: str


class ViewPage(Model):
    data: list[View]
    meta: PageMeta
