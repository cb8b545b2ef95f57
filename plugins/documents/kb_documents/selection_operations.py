"""The operations on views, and the lists and counts of documents and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb_framework.api import Command, Http, Operation, Tool

if TYPE_CHECKING:
    from kb_documents import count_models, list_models, models, view_models
    from kb_framework.api.paging import PageIn

READ, WRITE = "documents.read", "documents.write"
_VIEWS = "kb_documents.view_models"
_COUNTS = "kb_documents.count_models"
_RENDER = "kb_documents.selection_render"
_GROUP = "Documents"

LIST_DOCUMENTS: Operation[list_models.ListIn, models.DocumentPage] = Operation(
    "list_documents",
    "document_lists.list",
    READ,
    Http("GET", "/documents"),
    input="kb_documents.list_models:list_model",
    output="kb_documents.models:DocumentPage",
    help="List documents; filters select which.",
    command=Command(
        "list",
        group=_GROUP,
        render=f"{_RENDER}:documents",
        examples=(
            "kb list --tags draft,old",
            "kb list --type note --sort -updated_at --json",
            "kb list --path-glob 'src/**' --created-after 2026-01-01",
        ),
    ),
    tool=Tool(
        "kb_list_documents",
        title="List documents",
        read_only=True,
        idempotent=True,
        help="List documents, a page at a time. To find text, search instead.",
        seldom=("document_ids", "from_id", "to_id"),
    ),
)

LIST_VIEWS: Operation[PageIn, view_models.ViewPage] = Operation(
    "list_views",
    "views.list",
    READ,
    Http("GET", "/views"),
    input="kb_framework.api.paging:PageIn",
    output=f"{_VIEWS}:ViewPage",
    help="List views: named selections, each usable as the filter `view`.",
    command=Command(
        "views list",
        help="List views.",
        group=_GROUP,
        about="Name a selection of documents, and use it as --view NAME wherever documents are selected.",
        render=f"{_RENDER}:views",
        examples=("kb views list",),
    ),
    tool=Tool("kb_views", title="List views", read_only=True, idempotent=True, omit=("per_page",)),
)

SHOW_VIEW: Operation[view_models.ViewIn, view_models.View] = Operation(
    "get_view",
    "views.get",
    READ,
    Http("GET", "/views/{name:str}"),
    input=f"{_VIEWS}:ViewIn",
    output=f"{_VIEWS}:View",
    help="Show the filters of a view.",
    command=Command(
        "views show",
        group=_GROUP,
        positional=("name",),
        render=f"{_RENDER}:view",
        examples=("kb views show stale-drafts",),
    ),
)

SAVE_VIEW: Operation[view_models.SaveViewIn, view_models.View] = Operation(
    "save_view",
    "views.save",
    WRITE,
    Http("PUT", "/views/{name:str}"),
    input=f"{_VIEWS}:save_model",
    output=f"{_VIEWS}:View",
    help="Save a selection under a name. A view that exists is replaced.",
    command=Command(
        "views save",
        group=_GROUP,
        positional=("name",),
        render=f"{_RENDER}:saved",
        examples=("kb views save stale-drafts --tags draft --updated-before 2026-01-31",),
    ),
)

REMOVE_VIEW: Operation[view_models.ViewIn, None] = Operation(
    "remove_view",
    "views.remove",
    WRITE,
    Http("DELETE", "/views/{name:str}", status=204),
    input=f"{_VIEWS}:ViewIn",
    help="Remove a view. The documents that it selects stay.",
    command=Command(
        "views remove",
        group=_GROUP,
        positional=("name",),
        render=f"{_RENDER}:removed",
        examples=("kb views remove stale-drafts",),
    ),
)

FACETS: Operation[count_models.FacetsIn, count_models.FacetsOut] = Operation(
    "document_facets",
    "document_counts.facets",
    READ,
    Http("GET", "/documents/facets"),
    input=f"{_COUNTS}:facets_model",
    output=f"{_COUNTS}:FacetsOut",
    help="Count documents by tag, type, language, media, trust and month; filters select which.",
    command=Command(
        "facets",
        group=_GROUP,
        render=f"{_RENDER}:facets",
        examples=("kb facets", "kb facets --by tag,lang --type note --created-after 2026-01-01"),
    ),
)

GROWTH: Operation[count_models.GrowthIn, count_models.Growth] = Operation(
    "document_growth",
    "document_counts.growth",
    READ,
    Http("GET", "/documents/growth"),
    input=f"{_COUNTS}:growth_model",
    output=f"{_COUNTS}:Growth",
    help="Count the documents that were added on each day of a period; filters select which.",
)

COMPLETE_TAG: Operation[count_models.TagPrefixIn, count_models.TagCompletions] = Operation(
    "complete_tag",
    "document_counts.complete_tag",
    READ,
    Http("GET", "/tags/complete"),
    input=f"{_COUNTS}:TagPrefixIn",
    output=f"{_COUNTS}:TagCompletions",
    help="List the tags that begin with a text, most used first.",
)

OPERATIONS: list[Operation[Any, Any]] = [
    LIST_DOCUMENTS,
    LIST_VIEWS,
    SHOW_VIEW,
    SAVE_VIEW,
    REMOVE_VIEW,
    FACETS,
    GROWTH,
    COMPLETE_TAG,
]
