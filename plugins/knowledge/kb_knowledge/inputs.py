"""The inputs that depend on what plugins contribute."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import Field, create_model

from kb_framework.api import MutationKind, resolve
from kb_framework.api.dispatch import type_of
from kb_framework.api.models import Body
from kb_framework.api.parts import Plugins
from kb_framework.api.selection import Filtered, with_filters
from kb_knowledge import models
from kb_knowledge.models import ChunksIn, ContextIn


def context_model(plugins: Plugins) -> type[ContextIn]:
    """Return the model of a question with the filters that plugins offer for selections."""
    return _context_model(with_filters("KnowledgeFilters", Filtered, plugins, "chunks"))


@functools.lru_cache(maxsize=8)
def _context_model(filters: Any) -> type[ContextIn]:
    """Return the same model for the same filters: a schema names it once."""
    words = 'Selection filters, such as {"tags": ["a"]}.'
    field: Any = (Annotated[filters | None, Field(description=words)], None)
    return create_model("KnowledgeContext", __base__=ContextIn, filters=field)


def chunks_model(plugins: Plugins) -> type[ChunksIn]:
    """Return the model of a list of chunks with the filters that plugins offer."""
    return with_filters("ChunksIn", ChunksIn, plugins, "chunks")


def change_model(_: Plugins, kind: MutationKind) -> type[Body]:
    """Return the model of a change of one chunk: the chunk, what must be said, then what may be."""
    mutation = resolve(kind.target)
    given = sorted(mutation.model_fields.items(), key=lambda item: not item[1].is_required())
    fields: dict[str, Any] = {"chunk_id": (models.OfChunk, ...)}
    for name, info in given:
        default = ... if info.is_required() else info.default
        fields[name] = (type_of(info), Field(default, description=info.description))
    return create_model(mutation.__name__, __base__=Body, **fields)
