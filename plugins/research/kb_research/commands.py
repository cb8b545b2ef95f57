"""Commands: research."""

from __future__ import annotations

import sys
from typing import Any

from kb_framework.console import STDIN, Cli
from kb_framework.csv import CommaListOrNone
from kb_framework.errors import ConfigInvalid
from kb_research.models import Kind, Policy


def search(
    query: str,
    *,
    tags: CommaListOrNone = None,
    source_types: CommaListOrNone = None,
    created_after: str | None = None,
    created_before: str | None = None,
    path_prefix: str | None = None,
    limit: int = 20,
    cli: Cli,
) -> None:
    """Search the knowledge base and sources beyond it for snippets to add.

    Parameters
    ----------
    query
        What to look for, in words.
    tags
        Only what has all of these tags, comma-separated.
    source_types
        Only from these types of source, comma-separated.
    created_after
        Not before this time, such as 2026-01-31.
    created_before
        Before this time.
    path_prefix
        Only files whose path begins so.
    limit
        How many snippets, 1 to 100.

    Examples
    --------
    kb research search "key rotation" --limit 5
    """
    given = {
        "tags": tags,
        "source_types": source_types,
        "created_after": created_after,
        "created_before": created_before,
        "path_prefix": path_prefix,
    }
    filters = {name: value for name, value in given.items() if value is not None}
    found = cli.engine.research_search(query, filters=filters or None, limit=limit)
    if found["hint"]:
        cli.say(f"kb: {found['hint']}")
    if cli.json:
        cli.result(found)
        return
    if not found["results"]:
        cli.say("nothing found")
    for number, item in enumerate(found["results"], 1):
        cli.print(_shown(number, item))


def _shown(number: int, item: dict[str, Any]) -> str:
    state = f"here as {item['chunk_id']}" if item["chunk_id"] else f"{item['suggested_kind']}, {item['suggested_policy']}?"
    head = f"{number}. {item['source_title'] or ''}  {item['source_ref'] or ''}  ({item['source_type']}; {state})"
    return f"{head}\n   {' '.join(item['snippet_text'].split())[:300]}\n"


def add(
    snippet: str | None = None,
    *,
    kind: Kind,
    policy: Policy = "normal",
    source_type: str | None = None,
    source_ref: str | None = None,
    source_title: str | None = None,
    reason: str | None = None,
    cli: Cli,
) -> None:
    """Add a snippet as a chunk; without a text it is read from standard input.

    Parameters
    ----------
    snippet
        The text, as it is to be kept.
    kind
        What it is; nothing decides that for you.
    policy
        What it may be used for.
    source_type
        What kind of source it is from, such as web.
    source_ref
        Where it is from: an address or an id.
    source_title
        What the source is called.
    reason
        Why, for the log.

    Examples
    --------
    kb research add "Keys are rotated every 90 days." --kind fact
    """
    if snippet is None or snippet == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigInvalid("give the snippet's text, or pipe it in")
        snippet = sys.stdin.read()
    added = cli.engine.research_add(
        snippet,
        kind,
        usage_policy=policy,
        source_type=source_type,
        source_ref=source_ref,
        source_title=source_title,
        reason=reason,
    )
    words = "added" if added["status"] == "created" else "already here:"
    cli.result(added, f"{words} chunk {added['chunk_id']} of document {added['document_id']}")


def recent(*, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List your searches, newest first.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb research recent
    """
    found = cli.engine.research_recent(page=page, per_page=per_page)
    rows = [(item["created_at"], len(item["results"]), " ".join(item["query"].split())[:80]) for item in found["data"]]
    cli.table(found, rows, ("time", "results", "query"))
