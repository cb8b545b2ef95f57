"""HTTP: research."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_201_CREATED

from kb_framework.api import Actor
from kb_framework.http import Answer, PageNumber, PerPage
from kb_framework.paging import Page
from kb_research import models
from kb_research.service import ResearchService

ALREADY_THERE = {200: Answer(models.SnippetAdded, "The same text is already there")}


@post("/research/search", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "research.search"})
def research_search(
    data: JSONBody[models.ResearchIn], research: NamedDependency[ResearchService], actor: NamedDependency[Actor]
) -> models.ResearchOut:
    """Search the knowledge base and every other source for snippets that can be added; the search is kept."""
    return research.search(data, actor)


@get("/research/recent", sync_to_thread=True, opt={"permission": "research.search"})
def research_recent(
    research: NamedDependency[ResearchService], actor: NamedDependency[Actor], page: PageNumber = 1, per_page: PerPage = 20
) -> models.SavedPage:
    """The caller's searches with their results, newest first."""
    data, meta = research.recent(actor, Page(page, per_page))
    return models.SavedPage(data=data, meta=meta)


@post("/research/add-to-knowledge", sync_to_thread=True, responses=ALREADY_THERE, opt={"permission": "research.add_to_knowledge"})
def research_add(
    data: JSONBody[models.AddIn], research: NamedDependency[ResearchService], actor: NamedDependency[Actor]
) -> Response[models.SnippetAdded]:
    """Add a snippet as a chunk of the kind that is said; found by search at once."""
    added = research.add(data, actor)
    return Response(added, status_code=HTTP_201_CREATED if added.status == "created" else HTTP_200_OK)


handlers = [research_search, research_recent, research_add]
