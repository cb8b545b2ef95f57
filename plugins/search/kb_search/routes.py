"""HTTP: search."""

from __future__ import annotations

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.status_codes import HTTP_200_OK

from kb_framework.api import Actor
from kb_search.models import SearchIn, SearchOut
from kb_search.service import SearchService


@post("/search", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "documents.read", "errors": "v1"})
def post_search(data: JSONBody[SearchIn], search: NamedDependency[SearchService], actor: NamedDependency[Actor]) -> SearchOut:
    """Search the knowledge base."""
    return search.search(data, actor)


handlers = [post_search]
