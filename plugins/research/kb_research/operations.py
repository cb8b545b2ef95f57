"""The operations of research."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_framework.api import Command, Http, Operation, Tool

if TYPE_CHECKING:
    from kb_framework.api.paging import PageIn
    from kb_research.models import (
        AddIn,
        ResearchIn,
        ResearchOut,
        SavedIn,
        SavedItem,
        SavedPage,
        SnippetAdded,
    )

SEARCH: Operation[ResearchIn, ResearchOut] = Operation(
    "research_search",
    "research.search",
    "research.search",
    Http("POST", "/research/search"),
    input="kb_research.models:research_model",
    output="kb_research.models:ResearchOut",
    help="Search the knowledge base and every other source for snippets that can be added. The search is kept.",
    command=Command(
        "research search",
        help="Search the knowledge base and sources beyond it for snippets to add. Exit 1 if nothing was found.",
        group="Knowledge",
        about="Find snippets here and in other sources, and add them to the knowledge base.",
        words="query",
        render="kb_research.render:found",
        examples=("kb research search key rotation --limit 5",),
    ),
    tool=Tool(
        "kb_research_search",
        title="Search for snippets",
        open_world=True,
        help="Search the knowledge base and sources beyond it for whole snippets that could be added with kb_research_add.",
    ),
)

RECENT: Operation[PageIn, SavedPage] = Operation(
    "research_recent",
    "research.recent",
    "research.search",
    Http("GET", "/research/recent"),
    input="kb_framework.api.paging:PageIn",
    output="kb_research.models:SavedPage",
    help="List the caller's searches with their results, newest first.",
    command=Command(
        "research recent",
        help="List your searches, newest first.",
        group="Knowledge",
        render="kb_research.render:recent",
        examples=("kb research recent",),
    ),
)

SHOW: Operation[SavedIn, SavedItem] = Operation(
    "get_research",
    "research.saved",
    "research.search",
    Http("GET", "/research/recent/{saved_id:uuid}"),
    input="kb_research.models:SavedIn",
    output="kb_research.models:SavedItem",
    help="Show one of the caller's searches with its results, as they were then.",
    command=Command(
        "research show",
        group="Knowledge",
        positional=("saved_id",),
        render="kb_research.render:shown",
        examples=("kb research show 6ba7b810-9dad-11d1-80b4-00c04fd430c8",),
    ),
)

ADD: Operation[AddIn, SnippetAdded] = Operation(
    "research_add",
    "research.add",
    "research.add_to_knowledge",
    Http(
        "POST",
        "/research/add-to-knowledge",
        status=201,
        answers={200: ("kb_research.models:SnippetAdded", "The same text is already there")},
    ),
    input="kb_research.models:AddIn",
    output="kb_research.models:SnippetAdded",
    help="Add a snippet as a chunk of the kind that is said. Search finds it at once.",
    command=Command(
        "research add",
        help="Add a snippet as a chunk; without a text it is read from standard input.",
        group="Knowledge",
        words="snippet_text",
        stdin=True,
        flags={"chunk_kind": "--kind", "usage_policy": "--policy"},
        render="kb_research.render:added",
        examples=('kb research add "Keys are rotated every 90 days." --kind fact',),
    ),
    tool=Tool(
        "kb_research_add",
        title="Add a snippet",
        profile="write",
        idempotent=True,
        help="Add a snippet to the knowledge base as a chunk of this kind. What was pruned is refused, not brought back.",
    ),
)

OPERATIONS = [SEARCH, RECENT, SHOW, ADD]
