"""The filters of documents by name, as every surface shows them."""

from __future__ import annotations

from kb_framework.api import Over, SelectionFilter

# MCP tools describe these one by one.
_FREQUENT = {"document_ids", "tags", "doc_type", "from_id", "to_id"}


def _named(
    name: str, help: str, flag: str = "", over: Over = "documents", target: str = ""
) -> SelectionFilter:
    function = target or f"kb_documents.filters:{name}"
    return SelectionFilter(
        name, function, help, flag, over, lifts=over == "chunks", seldom=name not in _FREQUENT
    )


FILTERS = [
    _named("document_ids", "Selects the documents with these ids.", "--ids"),
    _named("tags", "Selects documents that have ALL of these tags."),
    _named("any_tags", "Selects documents that have ANY of these tags."),
    _named("not_tags", "Selects documents that have NONE of these tags."),
    _named("untagged", "Selects documents without tags; false: those with tags."),
    _named("doc_type", "Selects documents of this type.", "--type"),
    _named("lang", "Selects documents in this language, like en or ko."),
    _named("media", "Selects documents of any of these kinds: markdown, pdf, text/html, …"),
    _named(
        "trust_min", "Selects documents trusted so far or further: primary > secondary > generated."
    ),
    _named("path_glob", "Selects documents whose path matches, like 'src/**' or '*.md'."),
    _named(
        "named",
        "Selects documents with this text in their title or path.",
        target="kb_documents.finding:named",
    ),
    _named("source_ref", "Selects what is from this source.", over="chunks"),
    _named(
        "query", "Selects what has all of these words in one passage or its title.", over="chunks"
    ),
    _named("from_id", "Selects documents with this id or a higher one."),
    _named("to_id", "Selects documents with this id or a lower one."),
    _named("created_after", "Selects documents created after this time, like 2026-01-31."),
    _named("created_before", "Selects documents created before this time."),
    _named("updated_after", "Selects documents changed after this time."),
    _named("updated_before", "Selects documents changed before this time."),
    _named("ingested_after", "Selects documents indexed after this time."),
    _named("ingested_before", "Selects documents indexed before this time."),
    _named("view", "Selects what this view selects.", target="kb_documents.views:view"),
    _named(
        "missing",
        "Selects documents whose files vanished.",
        target="kb_documents.missing:is_missing",
    ),
]
