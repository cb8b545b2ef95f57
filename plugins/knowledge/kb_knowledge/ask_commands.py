"""The command ask: an answer in pieces, whole, or the context alone."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from kb_framework.api import Operation
from kb_framework.api.cli import Cli, harmless
from kb_framework.errors import ConfigInvalid, GeneratorUnavailable
from kb_knowledge.operations import CONTEXT, STREAM_ANSWER

_CONTEXT = "Only assemble the context, even where a generator is configured."


def ask(
    cli: Cli,
    operation: Operation[Any, Any],
    values: dict[str, Any],
    *,
    context: Annotated[bool, Parameter(help=_CONTEXT, negative=())] = False,
) -> None:
    if "query" not in values:
        raise ConfigInvalid("no question given: kb ask WORDS")
    if context:
        found = cli.engine.run(CONTEXT, values)
        cli.result(found, _context_text(found))
        return
    watched = sys.stdout.isatty() and not cli.json
    found = _streamed(cli, values) if watched else cli.engine.run(operation, values)
    if found["answer"] is None and not cli.json:
        cli.say("kb: no generator is configured (KB_KNOWLEDGE_GENERATOR), so this is the context")
    if found["answer"] is None:
        cli.result(found, _context_text(found["context"]))
    else:
        cli.result(found, _sources_text(found) if watched else _answer_text(found))


def _streamed(cli: Cli, values: dict[str, Any]) -> dict[str, Any]:
    """Print an answer as it comes, and return the whole result."""
    begun = False
    try:
        for line in cli.engine.stream(STREAM_ANSWER, values):
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
