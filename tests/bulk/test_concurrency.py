"""Bulk operations beside each other, beside ingest and beside readers, in real processes."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import Engine
from kb_framework.plugins import Plugins
from kb_framework.remote import HttpTransport
from kb_testing.fixtures import RunningServer, kb_line, start_server, stop_server


@pytest.fixture
def serve(kb_home: Path) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers on the test's data folder; they are stopped in the end."""
    started: list[RunningServer] = []

    def start(**environment: str) -> RunningServer:
        started.append(start_server(**environment))
        return started[-1]

    yield start
    for server in started:
        stop_server(server)


def client(server: RunningServer) -> Engine:
    return Engine(HttpTransport(server.url), _plugins())


@functools.cache
def _plugins() -> Plugins:
    """For the client's methods, which are the same for every server here."""
    return Plugins(read_bootstrap())


def complaints(engine: Engine) -> list[str]:
    return [check["message"] for check in engine.get("/doctor")["checks"] if check["state"] != "ok"]


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls answer, all begun at the same moment."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]


# Two bulk operations


def test_of_two_overlapping_deletes_each_document_is_deleted_once(filled, serve) -> None:
    filled(600, 3)
    server = serve()
    one, two = client(server), client(server)

    answers = at_once(
        lambda: one.bulk_delete(from_id=1, to_id=400, force=True),
        lambda: two.bulk_delete(from_id=200, to_id=600, force=True),
    )

    assert [answer["status"] for answer in answers] == ["done", "done"]
    assert sum(answer["succeeded"] for answer in answers) == 600
    assert sorted(answer["succeeded"] for answer in answers) in ([199, 401], [200, 400])
    assert one.list_documents()["meta"]["total"] == 0
    assert one.get("/health")["counts"] == {"documents": 0, "chunks": 0, "tags": 0}
    jobs = one.list_jobs()["data"]
    assert sorted(job["succeeded"] for job in jobs) == sorted(
        answer["succeeded"] for answer in answers
    )
    assert complaints(one) == []


def test_a_delete_and_a_change_of_tags_at_once_leave_what_one_order_of_them_leaves(
    filled, serve
) -> None:
    filled(600, 3)
    server = serve()
    one, two = client(server), client(server)

    deleted, tagged = at_once(
        lambda: one.bulk_delete(tags=["old"]),
        lambda: two.bulk_tags(tags=["all"], add=["new"], remove=["all"], force=True),
    )

    assert (deleted["succeeded"], deleted["status"], tagged["status"]) == (300, "done", "done")
    assert tagged["succeeded"] in (300, 600)
    assert {item["tag"]: item["count"] for item in one.list_tags()["data"]} == {"new": 300}
    assert complaints(one) == []


def test_two_processes_on_one_folder_take_turns(filled, kb_home) -> None:
    filled(600, 3)
    commands = [
        ["bulk-remove", "--from-id", "1", "--to-id", "400"],
        ["bulk-remove", "--from-id", "200", "--to-id", "600"],
    ]
    running = [
        subprocess.Popen(
            kb_line(*command, "--yes", "--force", "--json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    answers = [json.loads(process.communicate()[0]) for process in running]

    assert [process.returncode for process in running] == [0, 0]
    assert sum(answer["succeeded"] for answer in answers) == 600
    assert list((kb_home / "files").glob("??/*")) == []


# Ingest

ADDER = """
import sys

from kb_framework.api.opening import open_kb
from kb_testing.application import AsgiTransport
from kb_framework.api.client import Engine
from kb_framework.edges.http.app import create_app

kb = open_kb()
engine = Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[1])):
    engine.add_file(f"{number}.md", f"# File {number}\\n\\nSome words.".encode(), tags=["fresh"])
    print(number, flush=True)
engine.close()
"""


def test_bulk_operations_while_another_process_adds_lose_and_count_nothing_twice(
    filled, serve, kb_home
) -> None:
    filled(200, 3)
    engine = client(serve())
    added = 40
    deleted = 0
    with subprocess.Popen(
        [sys.executable, "-c", ADDER, str(added)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as adder:
        assert adder.stdin is not None
        assert adder.stdout is not None
        assert adder.stdout.readline() == "ready\n"
        adder.stdin.write("go\n")
        adder.stdin.flush()
        for line in adder.stdout:
            if int(line) % 4 == 3:
                tagged = engine.bulk_tags(tags=["fresh"], add=["seen"])
                gone = engine.bulk_delete(tags=["seen"])
                assert (tagged["status"], gone["status"]) == ("done", "done")
                # What was added between the two calls is not in the second.
                assert gone["succeeded"] == tagged["succeeded"]
                deleted += gone["succeeded"]
    assert adder.returncode == 0

    left = engine.list_documents(tags="fresh")["meta"]["total"]
    assert deleted > 0
    assert deleted + left == added
    assert engine.list_jobs(job_type="ingest", status="done")["meta"]["total"] == added
    assert (
        engine.list_documents()["meta"]["total"]
        == 200 + left
        == len(list((kb_home / "files").glob("??/*")))
    )
    assert complaints(engine) == []


# Readers


def test_readers_see_all_of_a_bulk_delete_or_nothing_of_it_and_never_an_error(
    filled, serve
) -> None:
    filled(2_000, 5)
    server = serve()
    stop = threading.Event()
    states = [
        {"documents": 2_000, "chunks": 10_000, "tags": 2},
        {"documents": 1_000, "chunks": 5_000, "tags": 1},
    ]

    def watch() -> list[int]:
        """Which of the two states was seen, as often as it was looked at."""
        engine, seen = client(server), []
        while not stop.is_set():
            seen.append(states.index(engine.get("/health")["counts"]))
        return seen

    def search() -> int:
        """How often; of what is found, all has its text and document."""
        engine, times = client(server), 0
        while not stop.is_set():
            hits = engine.search("w1 w2 w3", k=20)["hits"]
            assert len(hits) == 20
            assert all(hit["snippet"] and hit["title"].startswith("document ") for hit in hits)
            times += 1
        return times

    def turn() -> int:
        engine, times = client(server), 0
        while not stop.is_set():
            listed = engine.list_documents(tags="old", per_page=5)
            assert (listed["meta"]["total"], len(listed["data"])) in ((1_000, 5), (0, 0))
            times += 1
        return times

    with ThreadPoolExecutor(3) as pool:
        watching, searching, turning = pool.submit(watch), pool.submit(search), pool.submit(turn)
        try:
            result = client(server).bulk_delete(tags=["old"])
        finally:
            stop.set()
        seen = watching.result()

    assert (result["status"], result["succeeded"]) == ("done", 1_000)
    assert seen == sorted(seen), "a reader went back in time"
    assert searching.result() > 0
    assert turning.result() > 0
    assert states[1] == client(server).get("/health")["counts"]


def test_writers_who_wait_for_their_turn_do_not_keep_readers_waiting(filled, serve, opened) -> None:
    filled(10)
    server = serve(KB_BUSY_TIMEOUT="60")
    writers = 20
    with ThreadPoolExecutor(writers) as pool:
        other = opened()
        with other.kb.store.write():
            waiting: list[Future[Any]] = [
                pool.submit(client(server).bulk_tags, document_ids=[number % 10 + 1], add=["x"])
                for number in range(writers)
            ]
            # Each of these comes after a writer that has not been answered; those hold no thread that a reader needs.
            for _ in range(writers):
                assert client(server).list_documents()["meta"]["total"] == 10
            assert not any(future.done() for future in waiting)
        assert [future.result()["status"] for future in waiting] == ["done"] * writers
