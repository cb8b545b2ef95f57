"""Bodies made of what plugins contribute: a kind's own fields, every selection filter, and `force`."""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from kb_framework.api import MutationKind, resolve
from kb_framework.plugins import Plugins
from kb_framework.selection import Selector
from kb_framework.validation import Body

FORCE: Any = (Annotated[bool, Field(description="Proceed although the safety threshold is exceeded.")], False)


def operation_fields(kind: MutationKind) -> dict[str, Any]:
    return dict(resolve(kind.target).model_fields)


def body_model(plugins: Plugins, kind: MutationKind) -> type[Any]:
    """The kind's operation, with the filters as further fields: the parsed body is the operation itself."""
    operation = resolve(kind.target)
    filters = Selector(plugins).fields(kind.over)
    name = "Bulk" + kind.name.title().replace("_", "")
    return create_model(name, __base__=operation, __doc__=kind.help, **filters, force=FORCE)


def preview_model(plugins: Plugins) -> type[Any]:
    """Any kind's body, with the kind's name as `operation`; each kind checks its own fields."""
    kinds = [kind for kind in plugins.kinds if kind.bulk]
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
        operation=(operation, ...),
        **fields,
        force=FORCE,
    )


def _any_of(infos: list[FieldInfo]) -> Any:
    """A field that two kinds may have under the same name, of whatever type."""
    annotation: Any = functools.reduce(operator.or_, (info.annotation for info in infos))
    return Annotated[annotation | None, Field(description=infos[0].description)], None


class BulkResult(BaseModel):
    job_id: int
    status: Literal["done", "partial_failure"]
    matched: int
    succeeded: int
    failed: int
    errors: list[dict[str, Any]]


class SampleDocument(BaseModel):
    id: int
    title: str
    doc_type: str


class SampleChunk(BaseModel):
    id: str
    document_id: int
    title: str
    text: str


class Preview(BaseModel):
    operation: str
    matched: int
    total: int
    percent: float
    threshold: int
    exceeds: bool
    sample: list[SampleDocument] | list[SampleChunk]


class ThresholdError(BaseModel):
    error: str
    message: str
    matched: int
    total: int
    percent: float
    threshold: int
