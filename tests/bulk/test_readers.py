"""How long readers wait while 50,000 chunks are deleted, in real processes. It measures time, so only `tox -e soak` runs it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kb_framework.client import Engine
from kb_framework.remote import HttpTransport
from kb_testing.fixtures import start_server, stop_server

pytestmark = pytest.mark.skipif(
    "KB_SOAK_KILLS" not in os.environ, reason="measures time: tox -e soak runs it"
)

# Prints how long each request took, until its input ends.
READER = """
import sys, threading, time
from kb_framework.api.client import Engine
from kb_framework.remote import HttpTransport

engine, ended = Engine(HttpTransport(sys.argv[1])), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
while not ended.is_set():
    started = time.perf_counter()
    engine.post("/search", {"query": "w3e8 w2f1", "mode": "lexical"})
    engine.get("/documents", per_page=20)
    print(time.perf_counter() - started, flush=True)
"""


def waited(url: str, work: Callable[[], Any]) -> float:
    """The 99th percentile of a reader's waits, in seconds, while something else is done."""
    command, pipe = [sys.executable, "-c", READER, url], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for _ in range(20):
            reader.stdout.readline()
        work()
        reader.stdin.close()
        walls = [float(line) for line in reader.stdout]
    assert len(walls) > 20, (
        f"only {len(walls)} requests: this machine is too busy, or too fast, to tell"
    )
    return statistics.quantiles(walls, n=100)[98]


def test_readers_wait_at_most_three_times_as_long_during_a_delete_of_fifty_thousand_chunks(
    filled, opened
) -> None:
    filled(10_000, 10)
    here = opened()
    # Else the server would begin with building it.
    here.kb.upkeep.builder().run(patience=60)
    here.close()
    server = start_server()
    try:
        engine = Engine(HttpTransport(server.url))

        def other_work() -> None:
            # A delete takes a core, as any work does: what it adds to that is compared.
            command = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
            subprocess.run([sys.executable, "-c", command], check=True)

        idle = waited(server.url, other_work)
        deleting = waited(server.url, lambda: engine.post("/bulk/delete", {"tags": ["old"]}))
    finally:
        stop_server(server)

    sys.stderr.write(
        f"\np99 of readers: {idle * 1000:.0f} ms beside other work, {deleting * 1000:.0f} ms beside the delete\n"
    )
    assert deleting <= 3 * idle
