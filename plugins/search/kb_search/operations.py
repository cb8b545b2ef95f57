"""The operations of search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api import Http, Operation

if TYPE_CHECKING:
    from kb_search.models import BulkSearchIn, BulkSearchOut, PlaceIn, PlaceOut, SearchIn, SearchOut

READ = "documents.read"

SEARCH: Operation[SearchIn, SearchOut] = Operation(
    "search",
    "search.search",
    READ,
    Http("POST", "/search", errors="v1"),
    input="kb_search.inputs:search_model",
    output="kb_search.models:SearchOut",
    help="Search the knowledge base.",
)

BULK_SEARCH: Operation[BulkSearchIn, BulkSearchOut] = Operation(
    "bulk_search",
    "bulk_searching.bulk_search",
    READ,
    Http("POST", "/search/bulk", errors="v1"),
    input="kb_search.models:BulkSearchIn",
    output="kb_search.models:BulkSearchOut",
    help="Search for up to 100 queries at once; one that fails fails alone.",
)

FIND_CHUNK: Operation[PlaceIn, PlaceOut] = Operation(
    "find_chunk",
    "search.place",
    READ,
    Http("GET", "/search/chunks/{chunk_id:str}", errors="v1"),
    input="kb_search.models:PlaceIn",
    output="kb_search.models:PlaceOut",
    help="Return where a chunk stands: its document, and the place in it.",
)

OPERATIONS = [SEARCH, BULK_SEARCH, FIND_CHUNK]
