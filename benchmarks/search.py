"""How fast a large knowledge base is searched, side by side with other embedded engines.

    python benchmarks/search.py [--chunks 100000] [--work FOLDER] [--queries 100] [--no-peers] [--json]

Every engine gets the same chunks and the same questions in the same run: compare rows, not machines. `--work` keeps what was
loaded, so that a second run only searches. Every other engine has a process of its own; one that is not filled and searched
within `--peer-seconds` is ended and left out, and said so.
With `--database-url`, a PostgreSQL server, the same is done on it as well, in a database that stays there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import search_kb
import sqlalchemy as sa
from kb_text.api import query_terms
from postgres import database, server_clock
from search_data import Data, Question
from search_peers import PEERS

# Beyond this an engine that compares every vector in Python takes seconds per question, so it is asked fewer.
_QDRANT_MOST = 100_000
_FEW_QUESTIONS = 10


def timed(
    search: Callable[[Question], Any],
    questions: list[Question],
    server: Callable[[], float] | None = None,
) -> tuple[dict[str, float], list[Any]]:
    """Milliseconds, after a few questions to warm up: at the median and the 99th percentile, and of processors at the median.

    On a machine that does other things too, the last is what can be compared. What a database server takes, on average, is added.
    """
    for question in questions[:5]:
        search(question)
    took, busy, found = [], [], []
    before = server() if server else 0.0
    for question in questions:
        began, processor = time.perf_counter(), time.process_time()
        found.append(search(question))
        took.append(1000 * (time.perf_counter() - began))
        busy.append(1000 * (time.process_time() - processor))
    elsewhere = 1000 * (server() - before) / len(questions) if server else 0.0
    p50, p99, cpu = (
        round(float(value), 2)
        for value in (*np.percentile(took, [50, 99]), np.median(busy) + elsewhere)
    )
    return {"p50": p50, "p99": p99, "cpu": cpu}, found


def recall(found: Iterable[list[Any]], wanted: list[list[int]]) -> float:
    shares = [
        len(set(list(hits)[:10]) & set(best)) / len(best)
        for hits, best in zip(found, wanted, strict=True)
        if best
    ]
    return round(float(np.mean(shares)), 4)


def size_of(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def memory() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def nearest(work: Path, data: Data, questions: list[Question]) -> dict[str, list[list[int]]]:
    """What an exact search finds, computed once for all engines and runs."""
    path = work / f"nearest-{data.size}-{len(questions)}.json"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(search_kb.exact(data, questions)), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def measure_kb(
    home: Path, data: Data, questions: list[Question], database_url: str | None = None
) -> dict[str, Any]:
    kb = search_kb.open_at(home, questions, database_url)
    server = server_clock(database_url) if database_url else None
    # What is due is done at a known time, not in the background.
    kb.store.engine.on_written = lambda _: None
    built = {
        "fill_seconds": round(search_kb.fill(kb, data), 1),
        "index_seconds": round(search_kb.keep(kb), 1),
    }
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        mode: (mode, {}) for mode in ("lexical", "vector", "hybrid")
    }
    for mode in ("lexical", "vector", "hybrid"):
        cases[f"{mode}, tag of 10 %"] = mode, {"tags": ["tenth"]}
        cases[f"{mode}, 1 %"] = mode, {"tags": ["hundredth"]}
        if "path_glob" in search_kb.SearchIn.model_fields:
            cases[f"{mode}, path of 5 %"] = mode, {"path_glob": "folder03/**"}
        cases[f"{mode}, other organization"] = mode, {"organization": search_kb.OTHER}
    rows: dict[str, Any] = {}
    for name, (mode, filters) in cases.items():
        rows[name], found = timed(search_kb.searcher(kb, mode, **filters), questions, server)
        if not all(found):
            sys.exit(f"kb {name}: some questions found nothing, so nothing was measured")
        if name == "vector":
            rows[name]["recall"] = recall(
                numbers(found), nearest(home.parent, data, questions)["own"]
            )
        if name == "vector, 1 %":
            rows[name]["recall"] = recall(
                numbers(found), nearest(home.parent, data, questions)["hundredth"]
            )
        print(f"  kb {name}: {rows[name]}", file=sys.stderr, flush=True)
    frequent = data.frequent_questions(len(questions))
    rows["lexical, frequent words"], _ = timed(search_kb.searcher(kb, "lexical"), frequent, server)
    http = search_kb.HttpServer(kb)
    try:
        rows["hybrid over HTTP"], _ = timed(http.search, questions, server)
    finally:
        http.close()
    if database_url:
        with kb.store.read() as tx:
            size = tx.scalar(sa.text("SELECT pg_database_size(current_database())"))
        built["database_megabytes"] = round(size / 1e6, 1)
    else:
        rows["FTS5 alone"], _ = timed(plain_full_text(kb), questions[:20])
        built |= {
            "database_megabytes": size_of(home),
            "side_index_megabytes": size_of(home / "side"),
        }
    built["rss_megabytes"] = memory()
    kb.close()
    return {"searches": rows, **built}


def numbers(found: list[list[str]]) -> list[list[int]]:
    return [[search_kb.number_of(chunk) for chunk in hits] for hits in found]


def plain_full_text(kb: Any) -> Callable[[Question], Any]:
    """What SQLite's own full text takes for the same question, without a filter."""
    query = sa.text(
        "SELECT rowid FROM chunks_fts_1 WHERE chunks_fts_1 MATCH :words ORDER BY rank LIMIT 100"
    )

    def search(question: Question) -> Any:
        words = " OR ".join(f'"{term}"' for term, _ in query_terms(question.text))
        with kb.store.read() as tx:
            return tx.connection.execute(query, {"words": words}).all()

    return search


def in_time(name: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own says of an engine."""
    sizes = ["--chunks", str(options.chunks), "--queries", str(options.queries)]
    command = [sys.executable, __file__, "--peer", name, "--work", str(work), *sizes]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=options.peer_seconds, check=True
        )
    except subprocess.TimeoutExpired:
        return {"left_out": f"not filled and searched in {options.peer_seconds:.0f} s"}
    return json.loads(done.stdout)


def measure_peer(name: str, work: Path, data: Data, questions: list[Question]) -> dict[str, Any]:
    peer = PEERS[name](work / f"peers-{data.size}" / name.replace(" ", "-"), data)
    began = time.perf_counter()
    peer.fill()
    rows = {
        "fill_seconds": round(time.perf_counter() - began, 1),
        "megabytes": size_of(peer.folder),
        "searches": {},
    }
    wanted = nearest(work, data, questions)["every"]
    if name == "qdrant-client local" and data.size > _QDRANT_MOST:
        questions, wanted = questions[:_FEW_QUESTIONS], wanted[:_FEW_QUESTIONS]
    for kind, search in peer.searches().items():
        rows["searches"][kind], found = timed(search, questions)
        if kind == "vector":
            rows["searches"][kind]["recall"] = recall(found, wanted)
        print(f"  {name} {kind}: {rows['searches'][kind]}", file=sys.stderr, flush=True)
    peer.close()
    return {**rows, "rss_megabytes": memory()}


def table(result: dict[str, Any]) -> str:
    """Every search as a line; multiples are of the same kind of search in kb."""
    own = result["kb"]["searches"]
    lines = [
        "| engine | search | p50 ms | p99 ms | CPU ms | CPU, times kb | recall@10 |",
        "|---|---|---|---|---|---|---|",
    ]
    for engine, found in [("kb", result["kb"]), *result["peers"].items()]:
        if "left_out" in found:
            lines.append(f"| {engine} | left out: {found['left_out']} | | | | | |")
            continue
        for kind, row in found["searches"].items():
            base = own.get("lexical" if kind == "FTS5 alone" else kind)
            times = (
                f"{row['cpu'] / base['cpu']:.2f}"
                if base and (engine != "kb" or kind == "FTS5 alone")
                else ""
            )
            figures = (
                f"{row['p50']} | {row['p99']} | {row['cpu']} | {times} | {row.get('recall', '')}"
            )
            lines.append(f"| {engine} | {kind} | {figures} |")
    facts = {name: value for name, value in result["kb"].items() if name != "searches"}
    return "\n".join([f"{result['chunks']} chunks; kb: {facts}", "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=100_000, help="a multiple of 100000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--peer-seconds", type=float, default=1800)
    parser.add_argument("--peer", help="one engine, in this process")
    parser.add_argument("--database-url", help="a PostgreSQL server, on which the same is measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = Data(options.chunks)
    questions = data.questions(options.queries)
    if options.peer:
        print(json.dumps(measure_peer(options.peer, options.work, data, questions)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        home = work / f"kb-{data.size}"
        result: dict[str, Any] = {
            "chunks": data.size,
            "kb": measure_kb(home, data, questions),
            "peers": {},
        }
        if options.database_url:
            url, _ = database(options.database_url, f"kb_search_{data.size}")
            result["peers"]["kb on PostgreSQL"] = measure_kb(
                work / f"postgres-{data.size}", data, questions, url
            )
        for name in options.peers:
            result["peers"][name] = in_time(name, work, options)
    print(json.dumps(result) if options.json else table(result))


if __name__ == "__main__":
    main()
