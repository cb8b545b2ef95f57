"""Commands: search, for one query or many."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from kb_documents.api import real_path

from kb_framework.api import Operation
from kb_framework.api.cli import Cli
from kb_framework.api.messages import plural
from kb_framework.errors import ConfigInvalid, KBError
from kb_search.last_search import remember
from kb_search.render import facet_lines, hit_block, style, trace_lines
from kb_search.snippet import Matcher

_MAX_QUERIES = 100
_BULK = "Read up to 100 searches from standard input."
_TOTAL_TOKENS = (
    "With --bulk: what the whole answer may cost a model; a chunk's text is then sent once."
)


def search(
    cli: Cli,
    operation: Operation[Any, Any],
    values: dict[str, Any],
    *,
    bulk: Annotated[bool, Parameter(help=_BULK, negative=())] = False,
    total_tokens: Annotated[int | None, Parameter(help=_TOTAL_TOKENS)] = None,
) -> int:
    if bulk:
        _search_many(cli, list(values), total_tokens)
        return 0
    if "query" not in values:
        raise ConfigInvalid(
            "no query given: kb search WORDS, or --bulk to read searches from standard input"
        )
    if total_tokens is not None:
        raise ConfigInvalid("--total-tokens goes with --bulk; for one search there is --max-tokens")
    found = cli.engine.run(operation, values)
    if cli.json:
        cli.result(found)
    else:
        _print_hits(cli, values["query"], found, links=True)
        remember(cli.bootstrap.data_dir, found["hits"])
    return 0 if found["hits"] else 1


def _print_hits(cli: Cli, query: str, found: dict[str, Any], *, links: bool = False) -> None:
    if found["hint"]:
        cli.say(f"kb: {found['hint']}")
    if not found["hits"]:
        cli.say("nothing found")
    look, words = style(), Matcher(query)
    best = max((hit["score"] for hit in found["hits"]), default=0.0)
    width = shutil.get_terminal_size().columns
    for hit in found["hits"]:
        link = _link(cli, hit) if links and look.colours else None
        cli.print(hit_block(hit, look, words, best, width, link) + "\n")
    for line in facet_lines(found["facets"]) if "facets" in found else ():
        cli.print(line)
    if found["trace"]:
        cli.print("\n".join(trace_lines(found["trace"], found["hits"])))
    if found["truncated"]:
        cli.say("kb: shortened to stay within the tokens that were given")
    if found["next_cursor"]:
        cli.say(f"more: --cursor {found['next_cursor']}")


def _link(cli: Cli, hit: dict[str, Any]) -> str | None:
    """Where a click on the hit's place leads: the file it was read from, if that is here."""
    if hit["doc_path"] is None:
        return None
    # Without the plugin that knows, or the file, there is just no link.
    with contextlib.suppress(AttributeError, KBError):
        for source in cli.engine.get_sources(hit["doc_id"])["data"]:
            path = Path(real_path(source["source"]))
            if path.is_absolute() and path.exists():
                return path.as_uri()
    return None


# Many searches


def _search_many(cli: Cli, ignored: list[str], total_tokens: int | None) -> None:
    for name in ignored:
        shown = (
            name
            if name == "query"
            else "--type"
            if name == "doc_type"
            else f"--{name.replace('_', '-')}"
        )
        cli.say(f"kb: warning: {shown} is ignored: with --bulk every search has its own fields")
    queries = _read_queries(cli)
    if len(queries) > _MAX_QUERIES:
        raise ConfigInvalid(f"queries: max {_MAX_QUERIES} items", field="queries")
    found = cli.engine.bulk_search(queries, max_tokens=total_tokens)
    for number, item in enumerate(found["results"], 1):
        if cli.json:
            cli.print(json.dumps(item, ensure_ascii=False))
        else:
            _print_item(cli, number, item)
    sys.stdout.flush()
    summary = found["summary"]
    if cli.json:
        cli.say(json.dumps({"schema_version": "bulk_search_summary.v1", **summary}))
    else:
        total = plural(summary["total"], "search", "searches")
        cli.say(f"{total}: {summary['succeeded']} succeeded, {summary['failed']} failed")


def _read_queries(cli: Cli) -> list[Any]:
    if sys.stdin.isatty():
        cli.say('kb: reading searches, one on a line like {"query": "…"}; Ctrl-D ends them')
    queries = []
    lines = sys.stdin.buffer.read().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            queries.append(
                json.loads(
                    line.decode("utf-8-sig" if number == 1 else "utf-8"), parse_constant=_no_number
                )
            )
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise ConfigInvalid(
                f"standard input, line {number}, is not JSON: {reason}", line=number
            ) from None
    return queries


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _print_item(cli: Cli, number: int, item: dict[str, Any]) -> None:
    query = item["query"].get("query") if isinstance(item["query"], dict) else item["query"]
    # What goes to the screen by two ways shall arrive in order.
    sys.stdout.flush()
    cli.say(f"# Query {number}: {query}")
    if item["error"]:
        cli.say(f"kb: {item['error']['message']}")
    else:
        _print_hits(cli, str(query), item["response"])
    cli.print("")
