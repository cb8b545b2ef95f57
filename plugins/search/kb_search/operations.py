"""The operations of search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api import Command, Http, Operation, Tool

if TYPE_CHECKING:
    from kb_search.models import BulkSearchIn, BulkSearchOut, PlaceIn, PlaceOut, SearchIn, SearchOut

READ = "documents.read"
# What one search, and what many together, may cost a model: enough for ten ordinary hits.
_SEARCH_TOKENS = 3000
_BULK_TOKENS = 8000

SEARCH: Operation[SearchIn, SearchOut] = Operation(
    "search",
    "search.search",
    READ,
    Http("POST", "/search", errors="v1"),
    input="kb_search.inputs:search_model",
    output="kb_search.models:SearchOut",
    help="Search the knowledge base.",
    command=Command(
        "search",
        "kb_search.commands:search",
        help=(
            "Search the knowledge base.\nExit 1 if nothing was found.\n\n"
            "With --bulk, searches are read from standard input, one JSON object on a line, with these fields: "
            '{"query": "…", "mode": "lexical", "k": 5}'
        ),
        group="Search",
        words="query",
        flags={"k": "-k", "doc_type": "--type"},
        examples=(
            "kb search how often are keys rotated",
            "kb search budget --tag finance --lang en -k 5",
            """kb search '"exact phrase" -draft' --syntax""",
            """echo '{"query": "keys", "k": 3}' | kb search --bulk --json""",
        ),
    ),
    tool=Tool(
        "kb_search",
        title="Search",
        read_only=True,
        idempotent=True,
        help=(
            "Search the knowledge base. Each hit has a snippet, a citation, and the chunk's and document's ids.\n\n"
            "`truncated` says that max_tokens shortened the answer; next_cursor leads to what is left."
        ),
        # A model pays for every parameter: `tag`, `filters` and `max_tokens` do what most of these are for.
        omit=("trace",),
        seldom=(
            "snippet_chars",
            "tags_match",
            "group",
            "chunk_ids",
            "document_ids",
            "from_id",
            "to_id",
            "kind",
            "policy",
            "source_type",
            "status",
        ),
        defaults={"max_tokens": _SEARCH_TOKENS},
    ),
)

BULK_SEARCH: Operation[BulkSearchIn, BulkSearchOut] = Operation(
    "bulk_search",
    "bulk_searching.bulk_search",
    READ,
    Http("POST", "/search/bulk", errors="v1"),
    input="kb_search.models:BulkSearchIn",
    output="kb_search.models:BulkSearchOut",
    help="Search for up to 100 queries at once; one that fails fails alone.",
    tool=Tool(
        "kb_bulk_search",
        title="Search many",
        read_only=True,
        idempotent=True,
        help=(
            "Search for many things in one call; one that fails fails alone.\n\n"
            "A chunk that several queries find has its snippet once: snippet_ref is the index of the result that has it."
        ),
        defaults={"max_tokens": _BULK_TOKENS},
    ),
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
