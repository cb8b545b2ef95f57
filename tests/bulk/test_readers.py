"""How long readers wait while 50,000 chunks are deleted, in real processes. It measures time, so only `tox -e soak` runs it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

import pytest

from kb_framework.client import Engine, HttpTransport
from kb_framework.testing import start_server, stop_server

pytestmark = pytest.mark.skipif("KB_SOAK_KILLS" not in os.environ, reason="measures time: tox -e soak runs it")

# Prints how long each request took, until its input ends.
READER = """
import sys, threading, time
from kb_framework.client import Engine, HttpTransport

engine, ended = Engine(HttpTransport(sys.argv[1])), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
while not ended.is_set():
    started = time.perf_counter()
    engine.post("/search", {"query": "w3e8 w2f1", "mode": "lexical"})
    engine.get("/documents", per_page=20)
    print(time.perf_counter() - started, flush=True)
"""


def waited(url: str, work: Any) -> float:
    """The 99th percentile of a reader's waits, in seconds, while something else is done."""
    with subprocess.Popen(
        [sys.executable, "-c", READER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        first = [float(reader.stdout.readline()) for _ in range(20)]
        assert first
        work()
        reader.stdin.close()
        walls = [float(line) for line in reader.stdout]
    assert len(walls) > 20, "too few requests to tell"
    return statistics.quantiles(walls, n=100)[98]


def test_readers_wait_at_most_three_times_as_long_during_a_delete_of_fifty_thousand_chunks(filled, kb_home) -> None:
    filled(10_000, 10)
    server = start_server()
    try:
        engine = Engine(HttpTransport(server.url))

        def beside_other_work() -> None:
            # A delete takes a core, as any work does: what it adds to that is compared.
            command = "import time; end = time.monotonic() + 10\nwhile time.monotonic() < end: pass"
            subprocess.run([sys.executable, "-c", command], check=True)

        idle = waited(server.url, beside_other_work)
        started = time.perf_counter()
        deleting = waited(server.url, lambda: engine.post("/bulk/delete", {"tags": ["old"]}))
        seconds = time.perf_counter() - started
    finally:
        stop_server(server)

    sys.stderr.write(f"\np99 of readers: {idle * 1000:.0f} ms, {deleting * 1000:.0f} ms during {seconds:.1f} s of deleting\n")
    assert deleting <= 3 * idle
