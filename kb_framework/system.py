"""What the engine says of itself: health, schema, and the doctor's findings."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.status_codes import HTTP_200_OK
from sqlalchemy import exc

from kb_framework import __version__
from kb_framework.api import PUBLIC, Actor
from kb_framework.app import KB
from kb_framework.errors import Busy, KBError, NotFound, StoreUnusable, error_codes
from kb_framework.languages import advise, count_languages
from kb_framework.repair import Doing, Event, Repair
from kb_framework.store.documents import active_space
from kb_framework.store.tables import chunks, document_tags, documents, file_removals, organizations
from kb_framework.wire import standing_alone, versioned

# How long one request repairs; how long another waits for it; and when nobody is taken to go on with it any more.
_REPAIR_SECONDS = 5.0
_PATIENCE_SECONDS = 60.0
_ABANDONED_SECONDS = 120.0


@dataclass(slots=True)
class _RepairRun:
    """A repair between two requests."""

    events: Iterator[Event]
    repairs: list[str] = field(default_factory=list)
    doing: Doing = field(default_factory=lambda: Doing("looking", 0, None))
    seen: float = field(default_factory=time.monotonic)


class SystemService:
    def __init__(self, kb: KB, instance: str, repair_seconds: float = _REPAIR_SECONDS) -> None:
        self._kb = kb
        self.instance = instance
        self._repair_seconds = repair_seconds
        self._repair: _RepairRun | None = None
        self._one_repair = threading.Lock()

    def live(self) -> dict[str, Any]:
        return {"status": "ok", "instance": self.instance}

    def health(self, actor: Actor) -> dict[str, Any]:
        failed = {info.name: info.reason for info in self._kb.plugins.failed}
        errors = {info.name: info.errors for info in self._kb.plugins.infos if info.errors}
        problem = self._kb.embedding.problem
        if not actor.may("engine.operate"):
            # Reasons may name paths and addresses, which are for who looks after the engine.
            failed = dict.fromkeys(failed, "it failed; an operator can see why")
            errors = {name: ["it raised; an operator can see what"] for name in errors}
            problem = problem and "there is a problem; an operator can see it"
        return {
            "status": "degraded" if failed or errors else "ok",
            "version": __version__,
            "database": self._kb.store.backend.name,
            "embedder": {"ok": problem is None, "problem": problem},
            "plugins": {"failed": failed, "errors": errors},
            "counts": self.counts(actor),
        }

    def counts(self, actor: Actor) -> dict[str, int]:
        with self._kb.store.read(actor.organization_id) as tx:

            def count(what: sa.ColumnElement[Any], table: sa.Table) -> int:
                return tx.scalar(sa.select(sa.func.count(what)).where(tx.owns(table)))

            return {
                "documents": count(documents.c.id, documents),
                "chunks": count(chunks.c.seq, chunks),
                "tags": count(sa.distinct(document_tags.c.tag), document_tags),
            }

    def schema(self, actor: Actor) -> dict[str, Any]:
        plugins = self._kb.plugins
        with self._kb.store.read(actor.organization_id) as tx:
            space = active_space(tx)
        return {
            "version": __version__,
            "capabilities": dict(plugins.capabilities.items()),
            "error_codes": error_codes(),
            "models": {
                "embedder": self._kb.settings.host.embedder,
                "embedding_space": {"model": space.model, "dimensions": space.dimensions} if space else None,
                "available": [item.name for item in plugins.embedders],
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

    def repair(self) -> dict[str, Any]:
        """Make anew what is derived, for a while; who asks again goes on, until all is done and has been looked at again."""
        if not self._one_repair.acquire(timeout=_PATIENCE_SECONDS):
            raise Busy("another repair is under way; try again")
        try:
            return self._repair_on()
        finally:
            self._one_repair.release()

    def _repair_on(self) -> dict[str, Any]:
        now = time.monotonic()
        run = self._repair
        if run is None or now - run.seen > _ABANDONED_SECONDS:
            kb = self._kb
            run = self._repair = _RepairRun(Repair(kb.store, kb.files, kb.embedding, kb.upkeep).steps())
        try:
            for event in run.events:
                run.seen = time.monotonic()
                if isinstance(event, str):
                    run.repairs.append(event)
                else:
                    run.doing = event
                if run.seen - now >= self._repair_seconds:
                    return {"finished": False, **run.doing._asdict(), "repairs": run.repairs}
        except BaseException:
            # Begun anew, it finds what is left to do.
            self._repair = None
            raise
        self._repair = None
        return {**self.doctor(), "finished": True, "repairs": run.repairs}

    def doctor(self) -> dict[str, Any]:
        """Look everywhere; a check is ok, a warning, or an error, with what to do."""
        checks = [
            *self._check_settings(),
            *self._check_folder(),
            *self._check_plugins(),
            *self._check_store(),
            *self._check_side(),
            *self._check_files(),
        ]
        worst = {check["state"] for check in checks}
        return {
            "status": "error" if "error" in worst else "warning" if "warning" in worst else "ok",
            "checks": checks,
        }

    def _check_settings(self) -> list[dict[str, Any]]:
        unknown = self._kb.settings.unknown_variables
        if unknown:
            return [_check("settings", "warning", f"no setting is called {', '.join(unknown)}: a spelling mistake?")]
        return [_check("settings", "ok", f"data in {self._kb.settings.host.data_dir}")]

    def _check_folder(self) -> list[dict[str, Any]]:
        """Where there are keys, nobody should be able to go around them."""
        folder = self._kb.settings.host.data_dir
        if os.name == "posix" and folder.stat().st_mode & 0o077 and self._kb.access.is_on():
            words = f"others on this machine can look into {folder}: chmod 700 keeps them out"
            return [_check("folder", "warning", words)]
        return []

    def _check_plugins(self) -> list[dict[str, Any]]:
        found = []
        for info in self._kb.plugins.infos:
            if info.state == "failed":
                found.append(
                    _check(
                        "plugins",
                        "error",
                        f"{info.name} failed: {info.reason}; kb plugins disable {self._kb.plugins.handle(info)}",
                    )
                )
            found += [_check("plugins", "warning", sentence) for sentence in info.errors[-1:]]
        return found or [_check("plugins", "ok", f"{len(self._kb.plugins.infos)} found")]

    def _check_store(self) -> list[dict[str, Any]]:
        backend = self._kb.store.backend
        found = [_check("driver", "ok", ", ".join(backend.describe().values()))]
        try:
            with self._kb.store.read() as tx:
                problems = backend.check(tx.connection)
                found += [_check("database", "error", problem) for problem in problems]
                count = tx.scalar(sa.select(sa.func.count()).select_from(chunks))
                owners = list(tx.connection.scalars(sa.select(organizations.c.id)))
                indexed = sum(backend.count_text(tx.connection, owner) for owner in owners)
                if indexed != count:
                    found.append(
                        _check(
                            "full text",
                            "error",
                            f"{indexed} chunks are indexed, {count} exist: kb doctor --repair",
                        )
                    )
                wrong = sa.select(documents.c.id, documents.c.chunk_count, sa.func.count(chunks.c.seq).label("found"))
                wrong = wrong.outerjoin(chunks, chunks.c.document_id == documents.c.id).group_by(documents.c.id)
                for row in tx.execute(wrong.having(sa.func.count(chunks.c.seq) != documents.c.chunk_count).limit(5)):
                    found.append(
                        _check(
                            "chunks",
                            "error",
                            f"document {row.id} has {row.found} of {row.chunk_count} chunks",
                        )
                    )
                advice = advise(count_languages(tx), self._kb.embedding)
                space = active_space(tx)
                other = None if self._kb.embedding.problem else self._kb.embedding.mismatch(tx)
                if other:
                    found.append(_check("embedder", "warning", f"{other}: kb reindex"))
                broken = backend.check_vectors(tx.connection, space.index_name) if space else None
                if broken:
                    found.append(_check("vectors", "error", f"the vector index is damaged ({broken}): kb doctor --repair"))
                elif space:
                    fill = backend.vector_fill(tx.connection, space.index_name)
                    if fill.is_fragmented:
                        words = f"{fill.share:.0%} of the vector index is in use: kb reindex --compact makes it smaller"
                        found.append(_check("vectors", "warning", words))
                    vectors = backend.count_vectors(tx.connection, space.index_name)
                    if vectors > count:
                        found.append(
                            _check(
                                "vectors",
                                "error",
                                f"{vectors} vectors for {count} chunks: kb doctor --repair",
                            )
                        )
                    elif vectors < count:
                        found.append(
                            _check(
                                "vectors",
                                "warning",
                                f"{count - vectors} of {count} chunks have no vector: kb reindex",
                            )
                        )
        except (KBError, exc.DatabaseError) as error:
            return [*found, _check("database", "error", str(error))]
        if self._kb.embedding.problem:
            found.append(_check("embedder", "warning", self._kb.embedding.problem))
        elif advice:
            found.append(_check("embedder", "warning", advice))
        if len(found) == 1:
            found.append(_check("database", "ok", f"{count} chunks, full text and vectors agree"))
        return found

    def _check_side(self) -> list[dict[str, Any]]:
        """Nothing where no organization is large enough for a side index."""
        keeper = self._kb.upkeep.keeper()
        try:
            found = [_check("side index", "error", f"{words}: kb doctor --repair") for words in keeper.check().values()]
            if missing := keeper.missing():
                words = f"{missing} large organizations are searched without one, which is slow: kb doctor --repair"
                found.append(_check("side index", "warning", words))
            return found or [_check("side index", "ok", words) for words in keeper.state()]
        except (KBError, exc.DatabaseError) as error:
            return [_check("side index", "error", str(error))]

    def _check_files(self) -> list[dict[str, Any]]:
        try:
            stored = self._kb.files.keys()
        except StoreUnusable as error:
            return [_check("files", "error", f"{error.message}: {error.hint}")]
        with self._kb.store.read() as tx:
            wanted = set(tx.connection.scalars(sa.select(documents.c.file).where(documents.c.file.is_not(None))))
            waiting = set(tx.connection.scalars(sa.select(file_removals.c.key)))
        found = []
        if wanted - stored:
            found.append(
                _check(
                    "files",
                    "error",
                    f"{len(wanted - stored)} stored files are missing, e.g. {min(wanted - stored)}",
                )
            )
        if stored - wanted - waiting:
            found.append(_check("files", "warning", f"{len(stored - wanted - waiting)} stored files belong to no document"))
        if waiting & stored:
            found.append(
                _check(
                    "files",
                    "warning",
                    f"{len(waiting & stored)} files of deleted documents wait to be removed",
                )
            )
        return found or [_check("files", "ok", f"{len(wanted)} stored files")]


def _check(name: str, state: str, message: str) -> dict[str, Any]:
    return {"name": name, "state": state, "message": message}


# They tell of every route there is, or of plugins whose routes cannot be mounted.
_OF_THE_WHOLE = {"permission": "engine.view", "whole": True}


@get("/health", sync_to_thread=True, opt=_OF_THE_WHOLE)
def get_health(system: NamedDependency[SystemService], actor: NamedDependency[Actor]) -> dict[str, Any]:
    """Whether the engine is well: version, plugins that failed, counts."""
    return system.health(actor)


@get("/health/live", sync_to_thread=False, opt={"permission": PUBLIC})
def get_live(system: NamedDependency[SystemService]) -> dict[str, Any]:
    """That the engine answers, without asking the database."""
    return system.live()


@get("/schema", sync_to_thread=True, opt=_OF_THE_WHOLE)
def get_schema(
    request: Request[Any, Any, Any], system: NamedDependency[SystemService], actor: NamedDependency[Actor]
) -> dict[str, Any]:
    """Version, capabilities, error codes, models, filters, operations, counts, and the JSON schema of every wire object."""
    return {**system.schema(actor), "wire": {**_components(request), **system.wire}}


@get("/wire", sync_to_thread=True, opt=_OF_THE_WHOLE)
def list_wire(request: Request[Any, Any, Any], system: NamedDependency[SystemService]) -> dict[str, Any]:
    """The names of all wire objects, each with a JSON Schema at `/wire/{name}`."""
    return {"data": sorted({**_components(request), **system.wire})}


@get("/wire/{name:str}", sync_to_thread=True, opt=_OF_THE_WHOLE)
def get_wire(name: FromPath[str], request: Request[Any, Any, Any], system: NamedDependency[SystemService]) -> dict[str, Any]:
    """The JSON Schema of one wire object, complete in itself: `search_response.v1`, or a model of the API."""
    found = system.wire.get(name)
    if found is not None:
        return found
    components = _components(request)
    if name not in components:
        raise NotFound(f"there is no wire object {name!r}", hint="GET /api/v1/wire lists them")
    return standing_alone(name, components)


def _components(request: Request[Any, Any, Any]) -> dict[str, Any]:
    # Made once: it takes longer than everything else in an answer.
    if (found := request.app.state.get("components")) is None:
        found = request.app.state["components"] = request.app.openapi_schema.to_schema()["components"]["schemas"]
    return found


@get("/doctor", sync_to_thread=True, opt={"permission": "engine.operate", "whole": True})
def get_doctor(system: NamedDependency[SystemService]) -> dict[str, Any]:
    """Everything that can be checked, with what to do about what is wrong."""
    return system.doctor()


@post("/doctor/repair", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "engine.operate"})
def repair(system: NamedDependency[SystemService]) -> dict[str, Any]:
    """Make full text, vectors, counts and file records anew where they are wrong; what was done, and what the doctor says now.

    It answers after some seconds. While `finished` is false there is more to do: ask again.
    """
    return system.repair()


handlers = [get_health, get_live, get_schema, list_wire, get_wire, get_doctor, repair]
