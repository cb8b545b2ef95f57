"""Commands: ask, impact, snapshots."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.console import Cli
from kb_framework.csv import CommaListOrNone


def ask(
    question: str,
    *,
    top_k: int = 20,
    max_tokens: int = 4000,
    tags: CommaListOrNone = None,
    type: str | None = None,
    pin: CommaListOrNone = None,
    exclude: CommaListOrNone = None,
    context: Annotated[bool, Parameter(negative=())] = False,
    cli: Cli,
) -> None:
    """Answer a question from the knowledge base, with citations; without a generator the assembled context is printed.

    Parameters
    ----------
    question
        What to answer, in words.
    top_k
        How many candidates are looked at, 1 to 100.
    max_tokens
        How long the prompt may be.
    tags
        Only from documents that have all of these tags, comma-separated.
    type
        Only from documents of this type.
    pin
        Chunks to use in any case, comma-separated.
    exclude
        Chunks not to use, comma-separated.
    context
        Only assemble the context, even where a generator is configured.

    Examples
    --------
    kb ask "how often are keys rotated"
    """
    filters = {name: value for name, value in (("tags", tags), ("doc_type", type)) if value is not None}
    options = {"top_k": top_k, "max_tokens": max_tokens, "pin": pin, "exclude": exclude, "filters": filters or None}
    if context:
        found = cli.engine.knowledge_context(question, **options)
        cli.result(found, _context_text(found))
        return
    found = cli.engine.ask(question, **options)
    if found["answer"] is None and not cli.json:
        cli.say("kb: no generator is configured (KB_KNOWLEDGE_GENERATOR), so this is the context")
    cli.result(found, _context_text(found["context"]) if found["answer"] is None else _answer_text(found))


def _context_text(found: dict[str, Any]) -> str:
    return f"{found['prompt']}\nsnapshot {found['snapshot_id']}"


def _answer_text(found: dict[str, Any]) -> str:
    lines = [found["answer"]["text"], ""]
    for item in found["answer"]["citations"]:
        where = f"{item['title']}  {item['citation']}  {item['chunk_id']}" if item["valid"] else "not in the context"
        lines.append(f"[{item['label']}] {where}")
    return "\n".join([*lines, f"snapshot {found['snapshot_id']}  {found['answer']['model']}"])


def impact(chunk_id: str, *, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List the snapshots that a chunk was used for, newest first.

    Parameters
    ----------
    chunk_id
        The chunk's id, also of one that is gone.
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb impact 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    _print_snapshots(cli, cli.engine.chunk_impact(chunk_id, page=page, per_page=per_page))


def snapshots(*, page: int = 1, per_page: int = 20, cli: Cli) -> None:
    """List snapshots of contexts, newest first.

    Parameters
    ----------
    page
        Pages count from 1.
    per_page
        At most 100.

    Examples
    --------
    kb snapshots
    """
    _print_snapshots(cli, cli.engine.list_snapshots(page=page, per_page=per_page))


def show_snapshot(snapshot_id: str, *, cli: Cli) -> None:
    """Show what a context was made of, and the answer if there is one.

    Parameters
    ----------
    snapshot_id
        The snapshot's id.

    Examples
    --------
    kb snapshots show 6ba7b810-9dad-11d1-80b4-00c04fd430c8
    """
    found = cli.engine.get_snapshot(snapshot_id)
    used = "\n".join(f"[{item['label']}] {item['chunk_id']}" for item in found["chunks"])
    answer = found["answer"]["text"] if found["answer"] else ""
    cli.result(found, "\n\n".join(part for part in (found["prompt"].strip(), used, answer) if part))


def _print_snapshots(cli: Cli, found: dict[str, Any]) -> None:
    columns = ("time", "snapshot", "used", "answered", "question")
    rows = [
        (
            item["created_at"],
            item["id"],
            " ".join(f"{name}={count}" for name, count in item["options"]["knowledge_context_breakdown"].items() if count),
            "yes" if item["answered"] else "no",
            " ".join(item["query"].split())[:80],
        )
        for item in found["data"]
    ]
    cli.table(found, rows, columns)
