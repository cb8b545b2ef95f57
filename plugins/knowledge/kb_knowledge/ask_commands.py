"""The command ask: an answer in pieces, whole, or the context alone."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.edges.cli.console import Cli, harmless
from kb_framework.edges.cli.lists import CommaListOrNone
from kb_framework.errors import ConfigInvalid, GeneratorUnavailable
from kb_knowledge.operations import STREAM_ANSWER


def ask(
    *question: str,
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
        What to answer; several words need no quotes.
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
    kb ask how often are keys rotated
    """
    if not question:
        raise ConfigInvalid("no question given: kb ask WORDS")
    text = " ".join(question)
    filters = {
        name: value for name, value in (("tags", tags), ("doc_type", type)) if value is not None
    }
    options = {
        "top_k": top_k,
        "max_tokens": max_tokens,
        "pin": pin,
        "exclude": exclude,
        "filters": filters or None,
    }
    if context:
        found = cli.engine.knowledge_context(text, **options)
        cli.result(found, _context_text(found))
        return
    watched = sys.stdout.isatty() and not cli.json
    found = _streamed(cli, text, options) if watched else cli.engine.ask(text, **options)
    if found["answer"] is None and not cli.json:
        cli.say("kb: no generator is configured (KB_KNOWLEDGE_GENERATOR), so this is the context")
    if found["answer"] is None:
        cli.result(found, _context_text(found["context"]))
    else:
        cli.result(found, _sources_text(found) if watched else _answer_text(found))


def _streamed(cli: Cli, text: str, options: dict[str, Any]) -> dict[str, Any]:
    """Print an answer as it comes, and return the whole result."""
    begun = False
    try:
        for line in cli.engine.stream(STREAM_ANSWER, {"query": text, **options}):
            if "asked" in line:
                return line["asked"]
            begun = True
            sys.stdout.write(harmless(line["text"]))
            sys.stdout.flush()
    finally:
        if begun:
            sys.stdout.write("\n")
            sys.stdout.flush()
    raise GeneratorUnavailable("the answer broke off: the engine closed the connection")


def _context_text(found: dict[str, Any]) -> str:
    return f"{found['prompt']}\nsnapshot {found['snapshot_id']}"


def _answer_text(found: dict[str, Any]) -> str:
    return f"{found['answer']['text']}\n{_sources_text(found)}"


def _sources_text(found: dict[str, Any]) -> str:
    lines = [""]
    for item in found["answer"]["citations"]:
        where = (
            f"{item['title']}  {item['citation']}  {item['chunk_id']}"
            if item["valid"]
            else "not in the context"
        )
        lines.append(f"[{item['label']}] {where}")
    return "\n".join([*lines, f"snapshot {found['snapshot_id']}  {found['answer']['model']}"])
