"""The operations of bulk: one for each mutation kind, the preview of any of them, and chunks by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Command, Http, MutationKind, Operation, Tool
from kb_framework.api.parts import Plugins

if TYPE_CHECKING:
    from kb_bulk.models import BulkResult, ChunksFound, ChunksIn, PreviewOut

_MODELS = "kb_bulk.models"

GET_CHUNKS: Operation[ChunksIn, ChunksFound] = Operation(
    "get_chunks",
    "chunks.get",
    "documents.read",
    Http(
        "POST",
        "/chunks/bulk",
        errors="envelope",
        failure="Failed to retrieve chunks",
        max_body_bytes=2**20,
    ),
    input=f"{_MODELS}:ChunksIn",
    output=f"{_MODELS}:ChunksFound",
    help="Chunks by id, up to 100 in one query; ids that are not found are listed.",
    command=Command(
        "chunks get",
        help="Show chunks by id.",
        group="Knowledge",
        positional=("chunk_ids",),
        flags={"include_embeddings": "--embeddings", "include_source": "--source"},
        render="kb_bulk.render:found_chunks",
        examples=("kb chunks get 6ba7b810-9dad-11d1-80b4-00c04fd430c8 --json",),
    ),
    tool=Tool(
        "kb_get_chunks",
        title="Get chunks",
        read_only=True,
        idempotent=True,
        help="Get the whole text of chunks by their ids, in one call. Ordered by id; what is not there is listed in `not_found`.",
    ),
)


def operations(plugins: Plugins) -> list[Operation[Any, Any]]:
    kinds = tuple(kind for kind in plugins.kinds if kind.bulk)
    previews = [_preview(kinds)] if kinds else []
    return [
        GET_CHUNKS,
        *previews,
        *(_bulk(kind, plugins.kinds.plugin_of(kind.name)) for kind in kinds),
    ]


def _preview(kinds: tuple[MutationKind, ...]) -> Operation[Any, PreviewOut]:
    return Operation(
        "bulk_preview",
        "bulk.preview",
        "documents.read",
        Http("POST", "/bulk/preview"),
        input=f"{_MODELS}:preview_model",
        output=f"{_MODELS}:PreviewOut",
        help="What an operation would touch, without touching it.",
        subject=kinds,
    )


def _bulk(kind: MutationKind, plugin: str) -> Operation[Any, BulkResult]:
    over = f"Filters select the {kind.over}: at least one is needed, and all that are given must match."
    refused = f"{_MODELS}:ThresholdError", "The safety threshold is exceeded, or a guard refused"
    return Operation(
        f"bulk_{kind.name}",
        "bulk.run",
        kind.permission,
        Http("POST", kind.path, answers={409: refused}),
        input=f"{_MODELS}:body_model",
        output=f"{_MODELS}:BulkResult",
        help=f"{kind.help} Over a selection: the filters are combined with AND.",
        command=Command(
            kind.command_name,
            "kb_bulk.commands:run",
            help=f"{kind.help} Over a selection.\n{over}",
            group="Bulk",
            omit=("plan",),
            examples=(f"kb {kind.command_name} {kind.example}",) if kind.example else (),
        ),
        tool=Tool(
            kind.tool_name,
            "kb_bulk.tools:run",
            f"Bulk: {kind.help.rstrip('.').lower()}",
            "curate",
            destructive=kind.destructive,
            idempotent=True,
            asks=True,
            describe="kb_bulk.tools:describe",
            omit=("plan",),
        ),
        subject=kind,
        contributed_by=plugin,
    )
