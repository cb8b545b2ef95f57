"""HTTP: contexts, answers and their snapshots."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from litestar import get, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK
from pydantic import create_model

from kb_framework.api import Actor
from kb_framework.http import PageNumber, PerPage
from kb_framework.paging import Page
from kb_framework.plugins import Plugins
from kb_framework.selection import Selector
from kb_framework.validation import Body
from kb_knowledge import models
from kb_knowledge.context import ContextService
from kb_knowledge.generation import GenerationService
from kb_knowledge.snapshots import SnapshotsService

Snapshots = NamedDependency[SnapshotsService]
Who = NamedDependency[Actor]
VIEW = {"permission": "knowledge.view"}


def handlers(plugins: Plugins) -> list[HTTPRouteHandler]:
    body = context_model(plugins)
    return [_context(body), _ask(body), list_snapshots, get_snapshot, answer_snapshot, chunk_impact]


def context_model(plugins: Plugins) -> type[Any]:
    """A question with the filters that plugins offer for selections: what is looked at is said in the same words."""
    filters: Any = create_model("KnowledgeFilters", __base__=Body, **Selector(plugins).fields("chunks"))
    field: Any = (filters | None, None)
    return create_model("KnowledgeContext", __base__=models.ContextIn, filters=field)


def _context(body: type[Any]) -> HTTPRouteHandler:
    def assemble_context(data: Any, knowledge_context: Any, actor: Any) -> models.Context:
        """The knowledge that a model is given for a question, as sections and as a prompt; kept as a snapshot."""
        return knowledge_context.assemble(data, actor)

    assemble_context.__annotations__ = {
        "data": JSONBody[body],
        "knowledge_context": NamedDependency[ContextService],
        "actor": Who,
        "return": models.Context,
    }
    return post("/knowledge/context", sync_to_thread=True, status_code=HTTP_200_OK, opt=VIEW)(assemble_context)


def _ask(body: type[Any]) -> HTTPRouteHandler:
    def ask(data: Any, knowledge_generation: Any, actor: Any) -> models.Asked:
        """Answer a question with citations; where no generator is configured, the context is the result."""
        return knowledge_generation.ask(data, actor)

    ask.__annotations__ = {
        "data": JSONBody[body],
        "knowledge_generation": NamedDependency[GenerationService],
        "actor": Who,
        "return": models.Asked,
    }
    return post("/knowledge/ask", sync_to_thread=True, status_code=HTTP_200_OK, opt=VIEW)(ask)


@get("/knowledge/snapshots", sync_to_thread=True, opt={"permission": "knowledge.view"})
def list_snapshots(
    knowledge_snapshots: Snapshots, actor: Who, page: PageNumber = 1, per_page: PerPage = 20
) -> models.SnapshotPage:
    """Snapshots of contexts, newest first."""
    data, meta = knowledge_snapshots.list(actor, Page(page, per_page))
    return models.SnapshotPage(data=data, meta=meta)


@get("/knowledge/snapshots/{snapshot_id:uuid}", sync_to_thread=True, opt={"permission": "knowledge.view"})
def get_snapshot(snapshot_id: FromPath[UUID], knowledge_snapshots: Snapshots, actor: Who) -> models.Snapshot:
    """One snapshot: question, prompt, chunks, how they were chosen, and the answer if there is one."""
    return knowledge_snapshots.get(str(snapshot_id), actor)


@put("/knowledge/snapshots/{snapshot_id:uuid}/answer", sync_to_thread=True, opt={"permission": "knowledge.view"})
def answer_snapshot(
    snapshot_id: FromPath[UUID], data: JSONBody[models.AnswerIn], knowledge_snapshots: Snapshots, actor: Who
) -> models.Answer:
    """Keep what a generator elsewhere made of a snapshot's prompt; its citations are checked."""
    return knowledge_snapshots.answer(str(snapshot_id), data.text, data.model, actor)


@get("/knowledge/chunks/{chunk_id:uuid}/impact", sync_to_thread=True, opt={"permission": "knowledge.view"})
def chunk_impact(
    chunk_id: FromPath[UUID], knowledge_snapshots: Snapshots, actor: Who, page: PageNumber = 1, per_page: PerPage = 20
) -> models.SnapshotPage:
    """The snapshots that a chunk was used for, newest first, also when it is gone."""
    data, meta = knowledge_snapshots.impact(str(chunk_id), actor, Page(page, per_page))
    return models.SnapshotPage(data=data, meta=meta)
