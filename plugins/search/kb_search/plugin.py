"""The entry point of the search plugin."""

from __future__ import annotations

from collections.abc import Mapping

from kb_framework import api, hookimpl


@hookimpl
def kb_services() -> list[api.Service]:
    return [api.Service("search", "kb_search.service:SearchService")]


@hookimpl
def kb_routes() -> list[api.Routes]:
    return [api.Routes("search", "kb_search.routes:handlers")]


@hookimpl
def kb_retrievers() -> list[api.Retriever]:
    return [
        api.Retriever("lexical", "kb_search.retrievers:LexicalRetriever"),
        api.Retriever("vector", "kb_search.retrievers:VectorRetriever"),
    ]


@hookimpl
def kb_fuse_hits(query: api.RetrievalQuery, lists: Mapping[str, list[api.Candidate]]) -> list[api.Hit]:
    from kb_search.fusion import fuse

    return fuse(lists)


@hookimpl
def kb_capabilities() -> Mapping[str, bool]:
    return {"search": True}


@hookimpl
def kb_commands() -> list[api.Command]:
    return [api.Command("search", "kb_search.commands:search", help="Search the knowledge base.", group="Search")]


@hookimpl
def kb_tools() -> list[api.Tool]:
    return [
        api.Tool(
            "kb_search",
            "kb_search.tools:search",
            "Search",
            "read",
            read_only=True,
            idempotent=True,
            permission="documents.read",
        )
    ]


@hookimpl
def kb_client_methods() -> list[api.ClientMethod]:
    return [api.ClientMethod("search", "kb_search.client:search")]
