"""What the engine says of itself: health, capabilities, and the schemas of what goes over the wire."""

from __future__ import annotations

import shutil
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from kb_framework import __version__
from kb_framework.api import Actor, Embedder, Selection
from kb_framework.api.data_folder import disk_problem
from kb_framework.api.models import Question
from kb_framework.api.spaces import active_space
from kb_framework.api.tables import chunks, document_tags, documents
from kb_framework.errors import NotFound, error_codes
from kb_framework.operations import Dispatcher
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings
from kb_framework.storage.store import Store
from kb_framework.wire import schemas_of, standing_alone, versioned


class WireIn(Question):
    """A wire object, by name: `search_response.v1`, or a model of the API."""

    name: str


class SystemService:
    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        host_settings: HostSettings,
        dispatcher: Dispatcher,
        embedding: Any = None,
    ) -> None:
        self._store = store
        self._plugins = plugins
        self._settings = host_settings
        self._dispatcher = dispatcher
        # The service of the models plugin, where it is active.
        self._embedding = embedding

    def health(self, _: BaseModel, actor: Actor) -> dict[str, Any]:
        """Return version, plugins that failed, and counts."""
        failed = {info.name: info.reason for info in self._plugins.failed}
        errors = {info.name: info.errors for info in self._plugins.infos if info.errors}
        problem = self._embedding_problem
        loaded = self._plugins.prints
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
            "database": self._store.engine.name,
            "embedder": {"ok": problem is None, "problem": problem},
            "disk": disk,
            "plugins": {"failed": failed, "errors": errors, "loaded": loaded},
            "counts": self._counts(actor),
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
        data_dir = self._settings.data_dir
        problem = disk_problem(data_dir, self._settings.disk_reserve_bytes)
        return {
            "ok": problem is None,
            "free_bytes": shutil.disk_usage(data_dir).free,
            "problem": problem,
        }

    def _counts(self, actor: Actor) -> dict[str, int]:
        with self._store.read(actor.organization_id) as tx:
            visible = self._plugins.narrow_selection(Selection({}), actor, "read", tx)
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

    def schema(self, _: BaseModel, actor: Actor) -> dict[str, Any]:
        """Return what this engine can do, and the JSON Schema of every wire object."""
        plugins = self._plugins
        with self._store.read(actor.organization_id) as tx:
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
            "counts": self._counts(actor),
            "wire": {**self._components, **self._versioned},
        }

    def wire_names(self, _: BaseModel, actor: Actor) -> dict[str, Any]:
        return {"data": sorted({**self._components, **self._versioned})}

    def wire_object(self, wanted: WireIn, actor: Actor) -> dict[str, Any]:
        found = self._versioned.get(wanted.name)
        if found is not None:
            return found
        if wanted.name not in self._components:
            raise NotFound(
                f"there is no wire object {wanted.name!r}", hint="GET /api/v1/wire lists them"
            )
        return standing_alone(wanted.name, self._components)

    # They are made once: that takes longer than everything else in an answer.

    @cached_property
    def _versioned(self) -> dict[str, dict[str, Any]]:
        return versioned(self._plugins)

    @cached_property
    def _components(self) -> dict[str, Any]:
        return schemas_of(self._dispatcher)[1]
