"""Commands: search."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.console import Cli
from kb_framework.csv import CommaListOrNone


def search(
    query: str,
    *,
    mode: Literal["lexical", "vector", "hybrid"] = "hybrid",
    k: Annotated[int, Parameter(name=["--k", "-k"])] = 10,
    tags: CommaListOrNone = None,
    type: str | None = None,
    doc_id: int | None = None,
    cli: Cli,
) -> None:
    """Search the knowledge base.

    Parameters
    ----------
    query
        What to look for, in words.
    mode
        By words, by meaning, or both.
    k
        How many hits, 1 to 100.
    tags
        Only documents with any of these tags, comma-separated.
    type
        Only documents of this type.
    doc_id
        Only this document.
    """
    found = cli.engine.search(query, mode=mode, k=k, tags=tags, doc_type=type, doc_id=doc_id)
    if cli.json:
        cli.result(found)
        return
    if found["hint"]:
        cli.say(f"kb: {found['hint']}")
    if not found["hits"]:
        cli.say("nothing found")
    for hit in found["hits"]:
        print_hit(cli, hit)


def print_hit(cli: Cli, hit: dict[str, Any]) -> None:
    """Title, place and snippet; in colour where someone looks."""
    bold, dim, plain = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")
    heading = " › ".join(hit["heading_path"])
    cli.print(f"{bold}{hit['rank']}. {hit['title']}{plain}{dim}  {hit['citation']}{plain}")
    if heading:
        cli.print(f"   {dim}{heading}{plain}")
    for line in " ".join(hit["snippet"].split()).splitlines():
        cli.print(f"   {line}")
    cli.print("")
