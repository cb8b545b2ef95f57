"""Bodies made of what plugins contribute: a kind's own fields, every selection filter, and `force`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation, WithJsonSchema, create_model, model_validator
from pydantic.fields import FieldInfo

from kb_bulk.plans import read
from kb_framework.api import Flag, MutationKind, SelectionFilter, resolve
from kb_framework.api.models import Body, Model
from kb_framework.api.paging import Hint
from kb_framework.api.parts import Plugins, Selector
from kb_framework.api.selection import filter_field

FORCE: Any = (
    Annotated[
        bool, Field(description="Proceed although the safety threshold is exceeded."), Flag("-f")
    ],
    False,
)


PLAN: Any = (
    Annotated[
        str | None,
        Field(
            description="The plan of a preview: executes exactly that, and once. No other field is needed."
        ),
    ],
    None,
)


_IDS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string", "format": "uuid"},
    "minItems": 1,
    "maxItems": 100,
    "description": "Ids of chunks, as search gives them; 1 to 100.",
}


def operation_fields(kind: MutationKind) -> dict[str, Any]:
    return dict(resolve(kind.target).model_fields)


def body_model(plugins: Plugins, kind: MutationKind) -> type[Any]:
    """The kind's operation, with the filters as further fields: the parsed body is the operation itself.

    What a body with a plan leaves out comes from the plan; whether the plan is genuine is for the service to say.
    """
    filters = tuple((item, resolve(item.target)) for item in Selector(plugins).offered(kind.over))
    return _body_model(kind, resolve(kind.target), filters)


# A preview asks for it each time, and so does every engine that is opened: the same parts make the same model.
@functools.lru_cache(maxsize=64)
def _body_model(
    kind: MutationKind,
    operation: type[Any],
    filters: tuple[tuple[SelectionFilter, Callable[..., Any]], ...],
) -> type[Any]:
    fields = {item.name: filter_field(item, function) for item, function in filters}
    name = "Bulk" + kind.name.title().replace("_", "")
    validators: Any = {"_filled": model_validator(mode="before")(_filled_from_plan)}
    return create_model(
        name,
        __base__=operation,
        __doc__=kind.help,
        __validators__=validators,
        **fields,
        force=FORCE,
        plan=PLAN,
    )


def _filled_from_plan(cls: type[Any], values: Any) -> Any:
    if not isinstance(values, dict) or not isinstance(values.get("plan"), str):
        return values
    given = {name: value for name, value in values.items() if value is not None}
    return {**read(values["plan"]).fields, **given}


def preview_model(plugins: Plugins, kinds: Iterable[MutationKind]) -> type[Any]:
    """Any kind's body, with the kind's name as `operation`; each kind checks its own fields."""
    own: dict[str, list[FieldInfo]] = {}
    for kind in kinds:
        for name, info in operation_fields(kind).items():
            own.setdefault(name, []).append(info)
    fields: dict[str, Any] = {name: _any_of(infos) for name, infos in own.items()}
    for kind in kinds:
        fields |= Selector(plugins).fields(kind.over)
    operation: Any = Literal[tuple(kind.name for kind in kinds)]  # pyright: ignore[reportInvalidTypeForm]
    return create_model(
        "BulkPreview",
        __base__=Body,
        # Its parts are many, and most commands never ask for a preview.
        __cls_kwargs__={"defer_build": True},
        operation=(operation, ...),
        **fields,
        force=FORCE,
    )


def _any_of(infos: list[FieldInfo]) -> Any:
    """A field that two kinds may have under the same name, of whatever type."""
    annotation: Any = functools.reduce(operator.or_, (info.annotation for info in infos))
    return Annotated[annotation | None, Field(description=infos[0].description)], None


class ChunksIn(Body):
    """Which chunks, by id. What is wrong with the ids is said in this route's own words, by the service."""

    chunk_ids: Annotated[
        list[str] | Any, WithJsonSchema(_IDS), Field(description=_IDS["description"])
    ]
    include_embeddings: Annotated[
        bool, Field(description="Include the vectors: hundreds of numbers for each chunk.")
    ] = False
    include_source: Annotated[
        bool, Field(description="Include the job that each chunk came from.")
    ] = False

    @model_validator(mode="before")
    @classmethod
    def _with_ids(cls, values: Any) -> Any:
        return {"chunk_ids": None, **values} if isinstance(values, dict) else values


class FoundChunks(Model):
    # They come out of the database: checking each of them again would cost as much as reading it.
    chunks: SkipValidation[list[dict[str, Any]]]
    found_count: int
    requested_count: int
    not_found: list[str]


class ChunksFound(Model):
    success: Literal[True] = True
    data: FoundChunks


class BulkResult(Model):
    job_id: int
    status: Literal["done", "partial_failure"]
    matched: int
    succeeded: int
    failed: int
    errors: list[dict[str, Any]]
    hint: Hint = None


class SampleDocument(Model):
    id: int
    title: str
    doc_type: str


class SampleChunk(Model):
    id: str
    document_id: int
    title: str
    text: str


class PreviewObjection(Model):
    """Why a guard would refuse a document or a chunk; without an id, the whole operation."""

    document_id: int | None = None
    chunk_id: str | None = None
    error: str


class PreviewOut(Model):
    operation: str
    matched: int
    total: int
    percent: float
    threshold: int
    exceeds: bool
    sample: list[SampleDocument] | list[SampleChunk]
    refused: Annotated[
        int, Field(description="How many of those that match a guard would refuse as it is now.")
    ]
    objections: Annotated[
        list[PreviewObjection],
        Field(description="What guards say, the first 100; without an id, to all."),
    ]
    plan: Annotated[str, Field(description="Send it back to change exactly these, once.")]
    expires_at: Annotated[str, Field(description="Until when the plan can be sent.")]
    hint: Hint = None


class ThresholdError(Model):
    error: str
    message: str
    matched: int
    total: int
    percent: float
    threshold: int
