"""HTTP: one route per mutation kind, and the preview."""

from __future__ import annotations

from typing import Any

from litestar import post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from litestar.status_codes import HTTP_200_OK

from kb_bulk.chunks import ChunksService
from kb_bulk.models import BulkResult, ChunksFound, ChunksIn, Preview, ThresholdError, body_model, preview_model
from kb_bulk.service import BulkService
from kb_framework.api import Actor, MutationKind
from kb_framework.http import Answer
from kb_framework.plugins import Plugins

REFUSED = {409: Answer(ThresholdError, "The safety threshold is exceeded, or a guard refused")}


def handlers(plugins: Plugins) -> list[HTTPRouteHandler]:
    kinds = [kind for kind in plugins.kinds if kind.bulk]
    return [get_chunks, *([_preview(plugins)] if kinds else []), *(_bulk(plugins, kind) for kind in kinds)]


@post(
    "/chunks/bulk",
    sync_to_thread=True,
    status_code=HTTP_200_OK,
    request_max_body_size=2**20,
    opt={"permission": "documents.read", "errors": "envelope", "failure": "Failed to retrieve chunks"},
)
def get_chunks(data: JSONBody[ChunksIn], chunks: NamedDependency[ChunksService], actor: NamedDependency[Actor]) -> ChunksFound:
    """Chunks by id, up to 100 in one query; ids that are not found are listed."""
    return chunks.get(data, actor)


def _bulk(plugins: Plugins, kind: MutationKind) -> HTTPRouteHandler:
    def handler(data: Any, bulk: NamedDependency[BulkService], actor: NamedDependency[Actor]) -> BulkResult:
        return bulk.run(kind.name, data, actor)

    handler.__name__ = f"bulk_{kind.name}"
    handler.__doc__ = f"{kind.help} Over a selection: the filters are combined with AND."
    handler.__annotations__ = {
        "data": JSONBody[body_model(plugins, kind)],
        "bulk": NamedDependency[BulkService],
        "actor": NamedDependency[Actor],
        "return": BulkResult,
    }
    opt = {"permission": kind.permission}
    return post(kind.path, sync_to_thread=True, status_code=HTTP_200_OK, responses=REFUSED, opt=opt)(handler)


def _preview(plugins: Plugins) -> HTTPRouteHandler:
    def bulk_preview(data: Any, bulk: NamedDependency[BulkService], actor: NamedDependency[Actor]) -> Preview:
        """What an operation would touch, without touching it."""
        return bulk.preview(data, actor)

    bulk_preview.__annotations__ = {
        "data": JSONBody[preview_model(plugins)],
        "bulk": NamedDependency[BulkService],
        "actor": NamedDependency[Actor],
        "return": Preview,
    }
    opt = {"permission": "documents.read"}
    return post("/bulk/preview", sync_to_thread=True, status_code=HTTP_200_OK, opt=opt)(bulk_preview)
