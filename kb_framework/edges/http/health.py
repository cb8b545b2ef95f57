"""Health and schema of the engine."""

from __future__ import annotations

import shutil
from functools import cached_property
from typing import Annotated, Any

import sqlalchemy as sa
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import FromPath, Parameter

from kb_framework import __version__
from kb_framework.api import PUBLIC, Actor, Embedder, Selection
from kb_framework.app import KB
from kb_framework.data_folder import disk_problem
from kb_framework.edges.http.openapi import document
from kb_framework.errors import NotFound, error_codes
from kb_framework.local import prove
from kb_framework.storage.spaces import active_space
from kb_framework.storage.tables import chunks, document_tags, documents
from kb_framework.wire import standing_alone, versioned


class HealthService:
    def __init__(self, kb: KB, instance: str, *, secret: str = "") -> None:
        self._kb = kb
        self.dispatcher = kb.dispatcher
        self.instance = instance
        self._secret = secret
        # The service of the models plugin, where it is active.
        self._embedding: Any = kb.services.get("embedding")

    def live(self, nonce: str | None = None) -> dict[str, Any]:
        """Return that the engine answers; with a nonce, also the proof that it has the data folder's secret."""
        proof = (
            {"proof": prove(self._secret, self.instance, nonce)} if nonce and self._secret else {}
        )
        return {"status": "ok", "instance": self.instance, **proof}

    def health(self, actor: Actor) -> dict[str, Any]:
        failed = {info.name: info.reason for info in self._kb.plugins.failed}
        errors = {info.name: info.errors for info in self._kb.plugins.infos if info.errors}
        problem = self._embedding_problem
        loaded = self._kb.plugins.prints
        if not actor.may("engine.operate"):
            # Reasons may name paths and addresses, which are for who looks after the engine.
            failed = dict.fromkeys(failed, "it failed; an operator can see why")
            errors = {name: ["it raised; an operator can see what"] for name in errors}
            problem = problem and "there is a problem; an operator can see it"
            loaded = {}
        disk = self._disk()
        return {
            "status": "degraded" if failed or errors or not disk["ok"] else "ok",
            "version": __version__,
            "database": self._kb.store.engine.name,
            "embedder": {"ok": problem is None, "problem": problem},
            "disk": disk,
            "plugins": {"failed": failed, "errors": errors, "loaded": loaded},
            "counts": self.counts(actor),
        }

    @property
    def _embedding_problem(self) -> str | None:
        return (
            self._embedding.problem
            if self._embedding
            else "the plugin models is not active: there is no embedder"
        )

    def _disk(self) -> dict[str, Any]:
        """Return the room that is left where the data folder is."""
        data_dir = self._kb.settings.host.data_dir
        problem = disk_problem(data_dir, self._kb.settings.host.disk_reserve_bytes)
        return {
            "ok": problem is None,
            "free_bytes": shutil.disk_usage(data_dir).free,
            "problem": problem,
        }

    def counts(self, actor: Actor) -> dict[str, int]:
        with self._kb.store.read(actor.organization_id) as tx:
            visible = self._kb.plugins.narrow_selection(Selection({}), actor, "read", tx)
            shown = sa.select(documents.c.id).where(tx.owns(documents), *visible)

            def count(
                what: sa.ColumnElement[Any], table: sa.Table, document: sa.ColumnElement[Any]
            ) -> int:
                # Without a condition the documents need not be read.
                where = [document.in_(shown)] if visible else []
                return tx.scalar(sa.select(sa.func.count(what)).where(tx.owns(table), *where))

            return {
                "documents": count(documents.c.id, documents, documents.c.id),
                "chunks": count(chunks.c.seq, chunks, chunks.c.document_id),
                "tags": count(
                    sa.distinct(document_tags.c.tag), document_tags, document_tags.c.document_id
                ),
            }

    def schema(self, actor: Actor) -> dict[str, Any]:
        plugins = self._kb.plugins
        with self._kb.store.read(actor.organization_id) as tx:
            space = active_space(tx)
        return {
            "version": __version__,
            "capabilities": plugins.capabilities,
            "error_codes": error_codes(),
            "models": {
                "embedder": self._embedding.name if self._embedding else "none",
                "embedding_space": {"model": space.model, "dimensions": space.dimensions}
                if space
                else None,
                "available": [item.name for item in plugins.registry(Embedder)],
            },
            "selection_filters": {item.name: item.help for item in plugins.filters},
            "mutation_kinds": {item.name: item.help for item in plugins.kinds},
            "retrievers": [item.name for item in plugins.retrievers],
            "rerankers": [item.name for item in plugins.rerankers],
            "counts": self.counts(actor),
        }

    @cached_property
    def wire(self) -> dict[str, dict[str, Any]]:
        """The JSON Schema of every object that carries its version."""
        return versioned(self._kb.plugins)


Nonce = Annotated[
    str | None, Parameter(max_length=128, description="Random text, which `proof` answers.")
]

# They tell of every route there is, or of plugins whose routes cannot be mounted.
_OF_THE_WHOLE = {"permission": "engine.view", "whole": True}


@get("/health", sync_to_thread=True, opt=_OF_THE_WHOLE)
def get_health(
    system: NamedDependency[HealthService], actor: NamedDependency[Actor]
) -> dict[str, Any]:
    """Whether the engine is well: version, plugins that failed, counts."""
    return system.health(actor)


@get("/health/live", sync_to_thread=False, opt={"permission": PUBLIC})
def get_live(system: NamedDependency[HealthService], nonce: Nonce = None) -> dict[str, Any]:
    """Check that the engine answers, without using the database. With `nonce` it proves that it serves its data folder."""
    return system.live(nonce)


@get("/schema", sync_to_thread=True, opt=_OF_THE_WHOLE)
def get_schema(
    request: Request[Any, Any, Any],
    system: NamedDependency[HealthService],
    actor: NamedDependency[Actor],
) -> dict[str, Any]:
    """Version, capabilities, error codes, models, filters, operations, counts, and the JSON schema of every wire object."""
    return {**system.schema(actor), "wire": {**_components(request, system), **system.wire}}


@get("/wire", sync_to_thread=True, opt=_OF_THE_WHOLE)
def list_wire(
    request: Request[Any, Any, Any], system: NamedDependency[HealthService]
) -> dict[str, Any]:
    """The names of all wire objects, each with a JSON Schema at `/wire/{name}`."""
    return {"data": sorted({**_components(request, system), **system.wire})}


@get("/wire/{name:str}", sync_to_thread=True, opt=_OF_THE_WHOLE)
def get_wire(
    name: FromPath[str], request: Request[Any, Any, Any], system: NamedDependency[HealthService]
) -> dict[str, Any]:
    """The JSON Schema of one wire object, complete in itself: `search_response.v1`, or a model of the API."""
    found = system.wire.get(name)
    if found is not None:
        return found
    components = _components(request, system)
    if name not in components:
        raise NotFound(f"there is no wire object {name!r}", hint="GET /api/v1/wire lists them")
    return standing_alone(name, components)


def _components(request: Request[Any, Any, Any], system: HealthService) -> dict[str, Any]:
    # Made once: it takes longer than everything else in an answer.
    if (found := request.app.state.get("components")) is None:
        found = request.app.state["components"] = document(request.app, system.dispatcher)[
            "components"
        ]["schemas"]
    return found


handlers = [get_health, get_live, get_schema, list_wire, get_wire]
