"""B6, B7: a process that is killed at any moment of a bulk operation has done all of it or nothing.

Ten kills here; `KB_SOAK_KILLS=200`, as in the tox environment `soak`, makes it two hundred.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kb_framework.testing_postgres import Databases

KILLS = int(os.environ.get("KB_SOAK_KILLS", "10"))
# Seconds until a process that says nothing is taken for a hanging one; a busy machine may leave it waiting for long.
PATIENCE = 300
DOCUMENTS, CHUNKS_EACH = 1_000, 5

# Imports once, then forks a child per line on its input: a folder and an operation. A child says how far it is.
VICTIMS = """
import json, os, signal, sys

from sqlalchemy import event

from kb_framework.app import open_kb
from kb_framework.client import AsgiTransport, Engine
from kb_framework.web import create_app


def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())


def work(home, call, fields, to_be_killed):
    os.environ["KB_DATA_DIR"] = home
    kb = open_kb()
    engine = Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins)
    engine.list_documents()
    event.listen(kb.store.backend.writer, "begin", lambda connection: say("writing"))
    event.listen(kb.store.backend.writer, "commit", lambda connection: say("committing"))
    say("begun", str(os.getpid()))
    getattr(engine, call)(**fields)
    say("finished")
    if to_be_killed:
        signal.pause()


for line in sys.stdin:
    if os.fork() == 0:
        work(*json.loads(line))
        os._exit(0)
    os.wait()
    say("gone")
"""

OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "delete": ("bulk_delete", {"tags": ["old"]}),
    "tags": ("bulk_tags", {"tags": ["old"], "add": ["new", "newer"], "remove": ["all"]}),
    "set_tags": ("bulk_set_tags", {"tags": ["old"], "new_tags": ["old", "clean", "final"]}),
}
# What the last thing a killed process said tells of where it was.
STAGES = {
    ("begun",): "before the transaction",
    ("begun", "writing"): "inside the transaction",
    ("begun", "writing", "committing"): "at the commit or after it",
}


class Victims:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._rest = b""
        # How long the last child took, from its beginning.
        self.seconds = 0.0

    def run(self, home: Path, operation: str, kill_after: float | None) -> tuple[str, ...]:
        """What a child said until it finished or was killed so many seconds after it had begun."""
        assert self._process.stdin is not None
        call, fields = OPERATIONS[operation]
        self._process.stdin.write(json.dumps([str(home), call, fields, kill_after is not None]).encode() + b"\n")
        self._process.stdin.flush()
        word, number = self._line(PATIENCE).split()
        assert word == "begun"
        said = ["begun"]
        started = time.perf_counter()
        if kill_after is not None:
            # Not a wait for anything: the moment is the point.
            select.select([], [], [], kill_after)
            os.kill(int(number), signal.SIGKILL)
        while (line := self._line(PATIENCE)) != "gone":
            said.append(line)
        self.seconds = time.perf_counter() - started
        return tuple(said)

    def _line(self, seconds: float) -> str:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            assert select.select([self._process.stdout], [], [], seconds)[0], "the process says nothing any more"
            part = os.read(self._process.stdout.fileno(), 4096)
            assert part, "the process ended"
            self._rest += part
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()


@contextmanager
def victims() -> Iterator[Victims]:
    with subprocess.Popen([sys.executable, "-c", VICTIMS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Victims(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def changed(before: dict[str, Any], operation: str) -> dict[str, Any]:
    """What must be there when the operation is done, but for times."""
    old = {document for document, tag in before["tags"] if tag == "old"}
    kept = [(document, tag) for document, tag in before["tags"] if document not in old]
    if operation == "delete":
        return {"documents": sorted({document for document, _ in kept}), "tags": kept, "chunks": before["chunks"] // 2}
    new = ("old", "new", "newer") if operation == "tags" else ("old", "clean", "final")
    tags = sorted([*kept, *((document, tag) for document in old for tag in new)])
    return {"documents": before["documents"], "tags": tags, "chunks": before["chunks"]}


def rows(here: Any) -> dict[str, Any]:
    state = here.state()
    return {
        "documents": [row[0] for row in state["documents"]],
        "tags": [tuple(row) for row in state["tags"]],
        "chunks": state["chunks"][0][0],
    }


def test_a_killed_bulk_operation_is_all_done_or_not_at_all(
    kb_home: Path,
    kb_database: str | None,
    kb_databases: Databases | None,
    filled: Callable[..., None],
    opened: Callable[[], Any],
    tmp_path: Path,
    record_property: Callable[..., None],
) -> None:
    filled(DOCUMENTS, CHUNKS_EACH)
    template = tmp_path / "template"
    shutil.copytree(kb_home, template)
    kept = kb_databases.copy(kb_database) if kb_databases and kb_database else None
    chance = random.Random(KILLS)
    found: Counter[str] = Counter()
    done: Counter[str] = Counter()

    def restore() -> None:
        shutil.rmtree(kb_home)
        shutil.copytree(template, kb_home)
        if kb_databases and kb_database and kept:
            kb_databases.replace(kb_database, kept)

    with victims() as process:
        seconds = {operation: duration(process, kb_home, operation, restore) for operation in OPERATIONS}
        here = opened()
        before = rows(here)
        here.close()
        for number in range(KILLS):
            # Deletes have the most to lose.
            operation = ("delete", "tags", "delete", "set_tags")[number % 4]
            said = process.run(kb_home, operation, chance.uniform(0, 1.1 * seconds[operation]))
            stage = STAGES.get(said, "finished" if said[-1] == "finished" else "while files were removed")

            if kb_databases and kb_database:
                # The server goes on with what the dead one had sent it.
                kb_databases.wait_until_unused(kb_database)
            here = opened()
            here.engine.list_documents()
            after = rows(here)
            is_done = after == changed(before, operation)
            told = f"kill {number}: {operation} {stage}"
            assert is_done or after == before, told
            assert is_done or stage in ("before the transaction", "inside the transaction", "at the commit or after it"), told
            assert not is_done or stage not in ("before the transaction", "inside the transaction"), told
            assert_the_job_tells_the_truth(here, operation, is_done, told)
            state = here.state()
            assert state["waiting"] == [], told
            assert len(state["files"]) == len(after["documents"]), told
            assert here.complaints() == [], told
            here.close()
            found[stage] += 1
            done["all" if is_done else "nothing"] += 1
            if (number + 1) % 10 == 0:
                sys.stderr.write(f"\n{number + 1} of {KILLS} kills: {dict(found)}; outcome: {dict(done)}\n")
            if is_done:
                restore()

    summary = f"{KILLS} kills: {dict(found)}; outcome: {dict(done)}"
    record_property("kills", summary)
    assert found["inside the transaction"] > 0, summary


def duration(process: Victims, home: Path, operation: str, restore: Callable[[], None]) -> float:
    """How long the operation takes here and now, from its beginning, undisturbed."""
    assert process.run(home, operation, None)[-1] == "finished"
    restore()
    return process.seconds


def assert_the_job_tells_the_truth(here: Any, operation: str, is_done: bool, told: str) -> None:
    found = here.engine.list_jobs()["data"]
    assert len(found) == is_done, told
    if is_done:
        (job,) = found
        assert (job["job_type"], job["status"], job["error"]) == (f"bulk_{operation}", "done", None), told
        assert (job["matched"], job["succeeded"], job["failed"]) == (DOCUMENTS // 2, DOCUMENTS // 2, 0), told
        assert json.loads(job["filename"]) == {"tags": ["old"]}, told


def test_the_soak_runs_at_least_two_hundred_kills() -> None:
    """The environment that is meant for it asks for them."""
    settings = (Path(__file__).parents[2] / "tox.ini").read_text(encoding="utf-8")
    assert "KB_SOAK_KILLS = 200" in settings.split("[testenv:soak]")[1]
