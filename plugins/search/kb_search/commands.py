"""Commands: search, for one query or many."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from kb_framework.edges.cli.console import Cli
from kb_framework.edges.cli.lists import CommaListOrNone
from kb_framework.errors import ConfigInvalid, KBError
from kb_framework.filenames import real_path
from kb_search.last_search import remember
from kb_search.render import facet_lines, hit_block, style, trace_lines
from kb_search.snippet import Matcher

_MAX_QUERIES = 100

Flag = Annotated[bool, Parameter(negative=())]


def search(
    *query: str,
    mode: Literal["lexical", "vector", "hybrid"] | None = None,
    k: Annotated[int | None, Parameter(name=["--k", "-k"])] = None,
    max_tokens: int | None = None,
    snippet_chars: int | None = None,
    cursor: str | None = None,
    trace: Flag = False,
    syntax: Flag = False,
    facets: Flag = False,
    tag: CommaListOrNone = None,
    tags: CommaListOrNone = None,
    tags_match: Literal["any", "all"] | None = None,
    lang: str | None = None,
    path_glob: str | None = None,
    trust_min: Literal["primary", "secondary", "generated"] | None = None,
    media: CommaListOrNone = None,
    ingested_after: str | None = None,
    doc_id: int | None = None,
    doc_type: Annotated[str | None, Parameter(name=["--type", "--doc-type"])] = None,
    bulk: Flag = False,
    total_tokens: int | None = None,
    cli: Cli,
) -> int:
    """Search the knowledge base. Exit 1 if nothing was found.

    With --bulk, searches are read from standard input, one JSON object on a line, with these fields:
    {"query": "…", "mode": "lexical", "k": 5}

    Parameters
    ----------
    query
        What to look for; several words need no quotes.
    mode
        By words, by meaning, or both (hybrid, the default).
    k
        How many hits, 1 to 100; 10 by default.
    max_tokens
        What the answer may cost a model: snippets are shortened, then hits dropped from the end.
    snippet_chars
        How long a snippet may be; 300 by default.
    cursor
        Show the next page: next_cursor of the page before, with all else the same.
    trace
        Show how the hits were found.
    syntax
        Read the query as: word, "a phrase", -word, title:word, word*. All of it must match.
    facets
        Count the matching documents by type, language, media and tag.
    tag
        Only documents with any of these tags, comma-separated.
    tags
        Only documents with all of these tags, comma-separated.
    tags_match
        With any, one of --tags is enough.
    lang
        Only documents in this language, like en or ko.
    path_glob
        Only documents whose path matches, like 'src/**' or '*.md'.
    trust_min
        Only documents trusted so far or further: primary, secondary, generated.
    media
        Only documents of these kinds, comma-separated, like markdown,pdf.
    ingested_after
        Only documents indexed after this time, like 2026-01-31 or 2026-01-31T12:00:00Z.
    doc_id
        Only this document.
    doc_type
        Only documents of this type.
    bulk
        Read up to 100 searches from standard input.
    total_tokens
        With --bulk: what the whole answer may cost a model; a chunk's text is then sent once.

    Examples
    --------
    kb search how often are keys rotated
    kb search budget --tag finance --lang en -k 5
    kb search '"exact phrase" -draft' --syntax
    echo '{"query": "keys", "k": 3}' | kb search --bulk --json
    """
    text = " ".join(query)
    options: dict[str, Any] = {
        "mode": mode,
        "k": k,
        "max_tokens": max_tokens,
        "snippet_chars": snippet_chars,
        "cursor": cursor,
        "trace": trace or None,
        "syntax": syntax or None,
        "facets": facets or None,
        "tag": tag,
        "tags": tags,
        "tags_match": tags_match,
        "lang": lang,
        "path_glob": path_glob,
        "trust_min": trust_min,
        "media": media,
        "ingested_after": ingested_after,
        "doc_id": doc_id,
        "doc_type": doc_type,
    }
    if bulk:
        given = [
            name for name, value in {"query": text or None, **options}.items() if value is not None
        ]
        _search_many(cli, given, total_tokens)
        return 0
    if not query:
        raise ConfigInvalid(
            "no query given: kb search WORDS, or --bulk to read searches from standard input"
        )
    if total_tokens is not None:
        raise ConfigInvalid("--total-tokens goes with --bulk; for one search there is --max-tokens")
    found = cli.engine.search(text, **options)
    if cli.json:
        cli.result(found)
    else:
        _print_hits(cli, text, found, links=True)
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
        for source in cli.engine.get_sources(hit["doc_id"]):
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
        cli.say("{total} searches: {succeeded} succeeded, {failed} failed".format(**summary))


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
