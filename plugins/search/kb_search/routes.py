"""HTTP: search."""

from __future__ import annotations

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK

from kb_framework.api import Actor
from kb_search.bulk import BulkSearchService
from kb_search.models import BulkSearchIn, BulkSearchOut, PlaceOut, SearchIn, SearchOut
from kb_search.service import SearchService


@post("/search", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "documents.read", "errors": "v1"})
def post_search(data: JSONBody[SearchIn], search: NamedDependency[SearchService], actor: NamedDependency[Actor]) -> SearchOut:
    """Search the knowledge base."""
    return search.search(data, actor)


@post("/search/bulk", sync_to_thread=True, status_code=HTTP_200_OK, opt={"permission": "documents.read", "errors": "v1"})
def post_bulk_search(
    data: JSONBody[BulkSearchIn], bulk_searching: NamedDependency[BulkSearchService], actor: NamedDependency[Actor]
) -> BulkSearchOut:
    """Search for up to 100 queries at once; one that fails fails alone."""
    return bulk_searching.bulk_search(data, actor)


@get("/search/chunks/{chunk_id:str}", sync_to_thread=True, opt={"permission": "documents.read", "errors": "v1"})
def get_place(chunk_id: FromPath[str], search: NamedDependency[SearchService], actor: NamedDependency[Actor]) -> PlaceOut:
    """Where a chunk stands: its document, and the place in it."""
    return search.place(chunk_id, actor)


handlers = [post_search, post_bulk_search, get_place]
