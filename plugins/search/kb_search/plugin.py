"""The entry point of the search plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kb_framework import api, hookimpl

if TYPE_CHECKING:
    from kb_framework.api.parts import Tx
    from kb_framework.api.retrieval import Candidates, Hits


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("search", "kb_search.service:SearchService", ("search",)),
        api.Service("bulk_searching", "kb_search.bulk:BulkSearchService", ("bulk_search",)),
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
        "bulk_search_request.v1": "BulkSearchIn",
    }
    return [
        api.WireObject("search_request.v1", "kb_search.inputs:search_model"),
        *(api.WireObject(name, f"kb_search.models:{model}") for name, model in names.items()),
    ]


@hookimpl
def kb_operations() -> list[api.Operation[Any, Any]]:
    from kb_search.operations import OPERATIONS

    return OPERATIONS


@hookimpl
def kb_retrievers() -> list[api.Retriever]:
    return [
        api.Retriever("lexical", "kb_search.retrievers:LexicalRetriever"),
        api.Retriever("vector", "kb_search.retrievers:VectorRetriever"),
    ]


@hookimpl
def kb_fuse_hits(
    queries: Sequence[api.RetrievalQuery], lists: Sequence[Mapping[str, Candidates]], tx: Tx
) -> list[Hits]:
    from kb_search.contexts import contexts
    from kb_search.fusion import fuse
    from kb_search.nearby import lift

    # The store answers in numpy's arrays where it has computed with numpy.
    by_numpy = len(queries) > 1 or any(
        hasattr(column.chunks, "tolist") for column in lists[0].values()
    )
    pairs = list(zip(queries, lists, strict=True))
    fused = [
        fuse(found, query.limit, query.weights, lambda chunks: contexts(chunks, tx))
        for query, found in pairs
    ]
    weights = [
        query.weights.get("vector", 1.0) if found.get("vector") else 0.0 for query, found in pairs
    ]
    return lift(fused, weights, tx, with_numpy=by_numpy)


@hookimpl
def kb_commands() -> list[api.Command]:
    measuring = "Measure how well search finds known answers."
    return [
        api.Command(
            "open",
            "kb_search.open_commands:open_hit",
            help="Open a hit of the last search.",
            group="Search",
        ),
        api.Command("eval", "kb_search.eval_commands:evaluate", help=measuring, group="Search"),
    ]
