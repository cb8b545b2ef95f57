"""What one call of 100 queries costs against 100 calls of one, over HTTP, with a real server.

    python benchmarks/search_bulk.py [--documents 1000] [--rounds 5] [--modes hybrid] [--hits 10]

Each round does both, one after the other; the medians and their ratio are printed, of time and of work (Linux).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kb_testing.fixtures import start_server, stop_server

WORDS = 20_000
QUERIES = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", nargs="*", default=["lexical", "vector", "hybrid"])
    parser.add_argument("--hits", type=int, nargs="*", default=[3, 10])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KB_DATA_DIR"] = folder
        server = start_server()
        try:
            measure(server.url, server.process.pid, options)
        finally:
            stop_server(server)


def measure(url: str, server: int, options: argparse.Namespace) -> None:
    documents, rounds = options.documents, options.rounds
    chance = random.Random(7)
    vocabulary = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10)))
        for _ in range(WORDS)
    ]
    weights = [1 / (rank + 1) for rank in range(WORDS)]

    def text(words: int) -> str:
        return " ".join(chance.choices(vocabulary, weights, k=words))

    keeping = Caller(url, keep=True)
    for number in range(documents):
        keeping.post("/notes", {"text": text(150), "title": f"note {number}"})
    wait_for_index(Path(os.environ["KB_DATA_DIR"]) / "side")
    print(f"{documents} documents, {QUERIES} queries, {rounds} rounds")
    print(f"{'':<13} {'wall ms':^37} {'CPU ms, server and client':^37}")
    head = f"{'singles':>9} {'kept alive':>11} {'bulk':>8} {'ratio':>6}"
    print(f"{'mode':<9} {'k':>3} {head} {head}")
    for mode in options.modes:
        for k in options.hits:
            queries = [{"query": text(6), "mode": mode, "k": k} for _ in range(QUERIES)]
            calls: dict[str, Callable[[], Any]] = {
                "single": lambda queries=queries: [
                    Caller(url).post("/search", query) for query in queries
                ],
                "kept": lambda queries=queries: Caller(url, keep=True).each("/search", queries),
                "bulk": lambda queries=queries: Caller(url).post(
                    "/search/bulk", {"queries": queries}
                ),
            }
            wall: dict[str, list[float]] = {name: [] for name in calls}
            work: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(rounds + 1):
                for name, call in calls.items():
                    started, busy = time.perf_counter(), cpu_seconds(server)
                    call()
                    wall[name].append((time.perf_counter() - started) * 1000)
                    work[name].append((cpu_seconds(server) - busy) * 1000)
            print(f"{mode:<9} {k:>3} {row(wall)} {row(work)}", flush=True)


def wait_for_index(folder: Path, seconds: float = 60) -> None:
    """Until words and vectors have their side index; where there are too few documents for one, until it is clear."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(list(folder.glob("*/sums"))) < len(("text", "vectors")):
        time.sleep(0.5)
    time.sleep(1)


def row(spent: dict[str, list[float]]) -> str:
    single, kept, bulk = (statistics.median(times[1:]) for times in spent.values())
    return f"{single:>9.0f} {kept:>11.0f} {bulk:>8.0f} {single / bulk:>6.1f}"


def cpu_seconds(server: int) -> float:
    """What this process and the server have worked so far: on a busy machine the fairer clock."""
    fields = Path(f"/proc/{server}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Caller:
    """Posts JSON, over one connection or over a new one each time."""

    def __init__(self, url: str, *, keep: bool = False) -> None:
        self._address = urlsplit(url)
        self._keep = keep
        self._connection: http.client.HTTPConnection | None = None

    def each(self, path: str, bodies: list[Any]) -> list[Any]:
        return [self.post(path, body) for body in bodies]

    def post(self, path: str, body: Any) -> Any:
        connection = self._connection or http.client.HTTPConnection(
            self._address.hostname or "", self._address.port
        )
        connection.request(
            "POST", f"/api/v1{path}", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = json.loads(connection.getresponse().read())
        if self._keep:
            self._connection = connection
        else:
            connection.close()
        return answer


if __name__ == "__main__":
    main()
