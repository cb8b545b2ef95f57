"""Pages of the console beside the bare HTTP operation that each is about, on a large knowledge base, in one run.

    python benchmarks/console.py [--documents 100000] [--rounds 10] [--home FOLDER] [--json]

Each page is fetched in turn with its operation, so that what else the machine does slows both. A ratio compares the medians: a
page calls further operations (counts beside a list, snapshots beside a question) and renders them. `--home` keeps the knowledge
base for the next run.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import synthetic

from kb_framework.api import DEFAULT_ORGANIZATION
from kb_framework.app import open_kb
from kb_testing.fixtures import start_server, stop_server

_CHUNKS = 3
_JOBS = 100_000
# Words of the synthetic vocabulary: a frequent one, and rarer ones.
_WORDS = "w3e w2a7"


class Compared(NamedTuple):
    """A page, and the operation that it is about."""

    page: str
    path: str
    operation: str
    body: Any = None


def compared(document: int, chunk: str) -> list[Compared]:
    words = _WORDS.replace(" ", "+")
    return [
        Compared("home", "", "/documents?per_page=5&sort=-created_at"),
        Compared("documents", "/documents", "/documents?per_page=50&sort=-updated_at"),
        Compared(
            "documents, page 1,900",
            "/documents?page=1900",
            "/documents?per_page=50&page=1900&sort=-updated_at",
        ),
        Compared(
            "documents, a tag",
            "/documents?tags=topic-7",
            "/documents?per_page=50&tags=topic-7&sort=-updated_at",
        ),
        Compared(
            "documents, title",
            "/documents?named=9999",
            "/documents?per_page=50&named=9999&sort=-updated_at",
        ),
        Compared("document", f"/documents/{document}", f"/documents/{document}"),
        Compared("knowledge", "/knowledge", "/knowledge/chunks?per_page=50"),
        Compared(
            "knowledge, inactive",
            "/knowledge?status=inactive",
            "/knowledge/chunks?per_page=50&status=inactive",
        ),
        Compared(
            "knowledge, page 3,000",
            "/knowledge?page=3000",
            "/knowledge/chunks?per_page=50&page=3000",
        ),
        Compared(
            "knowledge, words",
            f"/knowledge?query={words}",
            f"/knowledge/chunks?per_page=50&query={words}",
        ),
        Compared("chunk", f"/knowledge/{chunk}", f"/knowledge/chunks/{chunk}"),
        Compared(
            "search",
            f"/search?query={words}",
            "/search",
            {"query": _WORDS, "k": 20, "facets": True},
        ),
        Compared("counts beside the list", "/documents/facets", "/documents/facets?top=12"),
        Compared("ask", "/ask", "/knowledge/snapshots?per_page=12"),
        Compared("research", "/research", "/research/recent?per_page=10"),
        Compared("jobs", "/jobs", "/jobs?per_page=50"),
        Compared("jobs that failed", "/jobs?status=failed", "/jobs?per_page=50&status=failed"),
        Compared("job", "/jobs/1", "/jobs/1"),
        Compared(
            "bulk preview",
            "/bulk/tags?tags=topic-7&add=x&preview=1",
            "/bulk/preview",
            {"operation": "tags", "tags": ["topic-7"], "add": ["x"]},
        ),
        Compared(
            "bulk preview of half",
            "/bulk/tags?tags=old&add=x&preview=1",
            "/bulk/preview",
            {"operation": "tags", "tags": ["old"], "add": ["x"]},
        ),
        Compared("access", "/access", "/keys?per_page=50"),
        Compared("plugins", "/engine", "/plugins"),
    ]


def fill(documents: int) -> None:
    """Make documents of many tags, types, languages and days, chunks of all kinds, and jobs."""
    kb = open_kb()
    synthetic.fill(kb, synthetic.items(documents, _CHUNKS, words=40))
    kb.upkeep.builder().run(patience=600)
    with kb.store.write(DEFAULT_ORGANIZATION) as tx:
        run = tx.connection.exec_driver_sql
        run(
            "UPDATE documents SET doc_type = CASE id % 7 WHEN 0 THEN 'report' WHEN 1 THEN 'note' WHEN 2 THEN 'mail' "
            "ELSE 'file' END, lang = CASE id % 5 WHEN 0 THEN 'ko' WHEN 1 THEN 'de' ELSE 'en' END, "
            "created_at = strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', '-' || (id * 7919 % 36500000) || ' seconds'), "
            "updated_at = strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', '-' || (id * 104729 % 9000000) || ' seconds')"
        )
        for number in (1, 2, 3):
            run(
                "INSERT OR IGNORE INTO document_tags (organization_id, document_id, tag) SELECT organization_id, id, "
                f"'topic-' || (id * {number * 7919} % {40 * number * number}) FROM documents"
            )
        run(
            "UPDATE chunks SET is_active = (seq % 10 <> 0), chunk_kind = CASE seq % 9 WHEN 0 THEN 'angle' WHEN 1 THEN "
            "'example' WHEN 2 THEN 'quote' ELSE 'fact' END, usage_policy = CASE WHEN seq % 50 = 0 THEN 'never_generate' "
            "WHEN seq % 13 = 0 THEN 'inspiration_only' ELSE 'normal' END"
        )
        run(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO jobs (uuid, organization_id, job_type, status, filename, document_id, error, matched, succeeded, "
            "failed, user_id, created_at, finished_at) SELECT printf('%08x-0000-4000-8000-000000000000', i), o.id, 'ingest', "
            "CASE WHEN i % 997 = 0 THEN 'failed' ELSE 'done' END, 'notes/' || i || '.md', i, "
            "CASE WHEN i % 997 = 0 THEN 'the file is encrypted' END, 1, i % 997 <> 0, i % 997 = 0, o.id, "
            "'2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:01.000000Z' FROM n, organizations o",
            (min(documents, _JOBS),),
        )
    kb.close()


def measure(url: str, rounds: int) -> list[dict[str, Any]]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def once(method: str, path: str, body: Any = None) -> tuple[float, bytes]:
        started = time.perf_counter()
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {"Accept-Encoding": "gzip", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, f"{path}: {answer.status} {content[:300]!r}"
        return time.perf_counter() - started, content

    connection.request("GET", "/api/v1/knowledge/chunks?per_page=1&kind=angle")
    chunk = json.loads(connection.getresponse().read())["data"][0]
    rows = []
    for item in compared(chunk["document_id"], chunk["id"]):
        calls = {
            "page": ("GET", f"/console{item.path}", None),
            "operation": (
                "GET" if item.body is None else "POST",
                f"/api/v1{item.operation}",
                item.body,
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        size = 0
        for number in range(rounds + 1):
            for name, call in calls.items():
                spent, content = once(*call)
                # The first of each reads what the others find in memory.
                times[name] += [spent] if number else []
                size = len(content) if name == "page" else size
        page, operation = (statistics.median(times[name]) * 1000 for name in calls)
        rows.append(
            {
                "page": item.page,
                "page_ms": round(page, 1),
                "operation_ms": round(operation, 1),
                "ratio": round(page / operation, 2),
                "bytes": size,
            }
        )
        print(
            f"{item.page:<24} {page:>9.1f} ms {operation:>9.1f} ms {page / operation:>6.2f} x {size:>8,} B",
            file=sys.stderr,
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-bench-") as place:
        home = options.home or Path(place) / "kb"
        os.environ |= {"KB_DATA_DIR": str(home), "XDG_CONFIG_HOME": place}
        if not (home / "kb.sqlite").exists():
            fill(options.documents)
        server = start_server()
        try:
            rows = measure(server.url, options.rounds)
        finally:
            stop_server(server)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
