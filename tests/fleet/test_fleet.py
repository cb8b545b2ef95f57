"""Many engines on one database: what one began, another goes on with, and no request is lost while they are restarted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb_framework.errors import EngineError, EngineUnreachable
from kb_testing.fixtures import Install, kb_line, stop_server

pytestmark = pytest.mark.postgres_only


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "this never came true"
        time.sleep(0.05)


def test_what_one_engine_began_another_goes_on_with(fleet: Any, tmp_path: Path) -> None:
    limit = {"KB_RESEARCH_SEARCH_PER_MINUTE": "2"}
    here, there = (fleet.client(fleet.engine(name, **limit)) for name in ("a", "b"))
    for number in range(6):
        (here if number % 2 else there).add_note(f"zebras and stripes {number}", tags=["old"])

    # A cursor
    first = here.search("zebras", k=3)
    second = there.search("zebras", k=3, cursor=first["next_cursor"])
    found = [hit["chunk_id"] for page in (first, second) for hit in page["hits"]]
    assert len(set(found)) == 6

    # An upload
    started = here.start_upload("long.md")["upload_id"]
    there.append_upload(started, 0, b"# Long\n\n")
    here.append_upload(started, 8, b"words")
    document = there.finish_upload(started)["document"]
    assert here.get_file(document["id"]) == b"# Long\n\nwords"

    # A plan, executed once however often it is asked for
    plan = here.post("/bulk/preview", {"operation": "delete", "tags": ["old"]})["plan"]
    done = there.post("/bulk/delete", {"tags": ["old"], "plan": plan, "force": True})
    again = here.post("/bulk/delete", {"tags": ["old"], "plan": plan, "force": True})
    assert (done["succeeded"], again["job_id"]) == (6, done["job_id"])
    assert here.get_job(done["job_id"])["job_type"] == "bulk_delete"
    with pytest.raises(EngineError) as stale:
        there.search("zebras", k=3, cursor=first["next_cursor"])
    assert stale.value.code == "stale_cursor"

    # A limit
    here.post("/research/search", {"query": "zebras"})
    there.post("/research/search", {"query": "zebras"})
    with pytest.raises(EngineError) as limited:
        here.post("/research/search", {"query": "zebras"})
    assert limited.value.http_status == 429

    # The switch from nobody's to keys alone
    made = subprocess.run(
        kb_line("keys", "create", "--user", "ann", "--role", "admin", "--json"),
        env={**os.environ, **fleet.at("c")},
        capture_output=True,
        text=True,
        check=True,
    )
    for server in fleet.servers:
        with pytest.raises(EngineError) as refused:
            fleet.client(server).list_documents()
        assert refused.value.http_status == 401
        known = fleet.client(server, json.loads(made.stdout)["key"])
        assert known.list_documents()["meta"]["total"] == 1


HANGING = """
import os, pathlib, threading
from kb_framework import api, hookimpl

@hookimpl
def kb_documents_changed(changes, tx):
    if marker := os.environ.get("HANG"):
        pathlib.Path(marker).touch()
        threading.Event().wait()
"""


def test_two_workers_share_the_work_of_two_engines_and_one_takes_over_from_a_killed_one(
    fleet: Any, kb_plugin: Install, tmp_path: Path
) -> None:
    """The killed one dies inside the transaction that writes the document."""
    kb_plugin("hanging", HANGING, module="hanging_observer")
    fleet.environment["KB_WORKER_LEASE"] = "2"
    here, there = (fleet.client(fleet.engine(name)) for name in ("a", "b"))
    numbers = [
        (here if number % 2 else there).add_file(
            f"f{number}.md", f"# Zebras {number}".encode(), queue=True
        )["job"]["id"]
        for number in range(30)
    ]
    # Not before: while it hangs, it holds what every other writer waits for.
    doomed = fleet.worker("w0", HANG=str(tmp_path / "hanging"))
    until((tmp_path / "hanging").exists)
    doomed.send_signal(signal.SIGKILL)
    doomed.wait(timeout=600)
    fleet.worker("w1")
    fleet.worker("w2")

    until(lambda: here.list_jobs(status="done")["meta"]["total"] == len(numbers))

    made = [there.get_job(number)["document_id"] for number in numbers]
    assert len(set(made)) == 30
    assert sorted(made) == sorted(
        document["id"] for document in here.list_documents(per_page=100)["data"]
    )
    assert here.get_file(made[0]) == b"# Zebras 0"


def test_a_rolling_restart_under_load_loses_no_request(fleet: Any) -> None:
    """As a balancer does it: an engine that is not reached is passed over. Sending a file again is harmless."""
    servers = [fleet.engine(name) for name in ("a", "b")]
    ended = threading.Event()
    failures: list[Exception] = []
    counts = [0, 0]

    def ask(client: int) -> None:
        engines = [fleet.client(server) for server in servers]
        while not ended.is_set():
            number = counts[client]
            content = f"# Zebras {client} {number}".encode()
            for attempt in range(200):
                engine = engines[(client + attempt) % 2]
                try:
                    engine.add_file(f"f{client}-{number}.md", content)
                    engine.search("zebras", mode="lexical")
                    break
                except EngineUnreachable:
                    if attempt == 199:
                        failures.append(AssertionError("no engine could be reached"))
                except Exception as error:  # noqa: BLE001 - told by the test
                    failures.append(error)
                    return
            counts[client] += 1

    clients = [threading.Thread(target=ask, args=(client,)) for client in range(2)]
    for client in clients:
        client.start()
    try:
        for name, server in zip(("a", "b"), servers, strict=True):
            reached = sum(counts)
            until(lambda reached=reached: sum(counts) > reached + 5 or failures)
            assert stop_server(server) == 0
            fleet.engine(name, port=int(server.url.rsplit(":", 1)[1]))
        reached = sum(counts)
        until(lambda: sum(counts) > reached + 5 or failures)
    finally:
        ended.set()
        for client in clients:
            client.join()

    assert failures == []
    titles = fleet.client(fleet.servers[-1]).list_documents(per_page=1)["meta"]["total"]
    assert titles == sum(counts)
