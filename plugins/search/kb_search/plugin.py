"""The entry point of the search plugin."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from kb_framework.columns import Candidates, Hits
    from kb_framework.store.store import Tx


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("search", "kb_search.service:SearchService"),
        api.Service("bulk_searching", "kb_search.bulk:BulkSearchService"),
    ]


@hookimpl
def kb_migrations() -> list[api.Migration]:
    return [api.Migration(1, "keys", "kb_search.migrations:create_keys")]


@hookimpl
def kb_wire_objects() -> list[api.WireObject]:
    names = {
        "search_response.v1": "SearchOut",
        "bulk_search_item.v1": "BulkSearchItem",
        "bulk_search_response.v1": "BulkSearchOut",
        "bulk_search_summary.v1": "BulkSearchSummary",
        "search_request.v1": "SearchIn",
        "bulk_search_request.v1": "BulkSearchIn",
    }
    return [api.WireObject(name, f"kb_search.models:{model}") for name, model in names.items()]


@hookimpl
def kb_routes() -> list[api.Routes]:
    direct = (
        api.Direct("/search", "search", "search", "kb_search.models:SearchIn"),
        api.Direct("/search/bulk", "bulk_searching", "bulk_search", "kb_search.models:BulkSearchIn"),
    )
    return [api.Routes("search", "kb_search.routes:handlers", under=("search",), direct=direct)]


@hookimpl
def kb_retrievers() -> list[api.Retriever]:
    return [
        api.Retriever("lexical", "kb_search.retrievers:LexicalRetriever"),
        api.Retriever("vector", "kb_search.retrievers:VectorRetriever"),
    ]


@hookimpl
def kb_fuse_hits(query: api.RetrievalQuery, lists: Mapping[str, list[api.Candidate]], tx: Tx) -> list[api.Hit]:
    from kb_search.contexts import contexts
    from kb_search.fusion import fuse
    from kb_search.nearby import lift

    hits = fuse(lists, query.limit, query.weights, lambda chunks: contexts(chunks, tx))
    return lift(hits, _vectors_count(query, lists), tx)


@hookimpl
def kb_fuse_many(queries: Sequence[api.RetrievalQuery], lists: Sequence[Mapping[str, Candidates]], tx: Tx) -> list[Hits] | None:
    if len(queries) == 1 and "numpy" not in sys.modules:
        # Importing it would take longer than a search.
        return None

    from kb_search.contexts import contexts
    from kb_search.fusion_many import Lists, fuse_many
    from kb_search.nearby import lift_many

    searches = [Lists(found, query.limit, query.weights) for query, found in zip(queries, lists, strict=True)]
    made = fuse_many(searches, lambda chunks: contexts(chunks, tx))
    lift_many(made, [_vectors_count(query, found) for query, found in zip(queries, lists, strict=True)], tx)
    return made


def _vectors_count(query: api.RetrievalQuery, lists: Mapping[str, Sequence[api.Candidate]]) -> float:
    return query.weights.get("vector", 1.0) if lists.get("vector") else 0.0


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"search": True, "bulk_search": True}


@hookimpl
def kb_commands() -> list[api.Command]:
    measuring = "Measure how well search finds known answers."
    return [
        api.Command("search", "kb_search.commands:search", help="Search the knowledge base.", group="Search"),
        api.Command("open", "kb_search.open_commands:open_hit", help="Open a hit of the last search.", group="Search"),
        api.Command("eval", "kb_search.eval_commands:evaluate", help=measuring, group="Search"),
    ]


@hookimpl
def kb_tools() -> list[api.Tool]:
    def tool(name: str, function: str, title: str) -> api.Tool:
        target = f"kb_search.tools:{function}"
        return api.Tool(name, target, title, "read", read_only=True, idempotent=True, permission="documents.read")

    return [tool("kb_search", "search", "Search"), tool("kb_bulk_search", "bulk_search", "Search many")]


@hookimpl
def kb_client_methods() -> list[api.ClientMethod]:
    names = ("search", "bulk_search", "find_chunk")
    return [api.ClientMethod(name, f"kb_search.client:{name}") for name in names]
