"""Bulk operations through HTTP and at the service level, beside bare SQL and other stores, on the same items in one run.

    python benchmarks/bulk.py [--documents 10000] [--growth 10000 100000 1000000] [--peers chromadb lancedb …]
                              [--database-url URL|start] [--json]

Bare SQL is what a person would write by hand on the same tables of the same file: the same selection, one transaction, the same
pragmas, set-based statements, and the files of deleted documents unlinked after the commit. Seconds are wall time; the processor
time of whoever did the work stands beside them, because it does not depend on what else the machine is doing. With
`--database-url` the same is done on PostgreSQL, where it is the time of this program and of the database together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import synthetic
from bulk_bare import Bare
from bulk_peers import PEERS, Peer
from postgres import clock_of, copied, database, server, server_clock

from kb_framework.api import Actor
from kb_framework.app import KB, open_kb
from kb_framework.client import Engine
from kb_framework.errors import EngineError
from kb_framework.remote import HttpTransport
from kb_testing.fixtures import RunningServer, start_server, stop_server

ROUNDS = 30
# In its local form it writes point by point: a hundred thousand take a quarter of an hour and say nothing new.
SLOW = {"qdrant-client": 20_000}
NOBODY = 10**12
Cell = dict[str, float]


class Table:
    """Rows of measurements, printed as they come in."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Cell]] = {}

    def add(self, row: str, column: str, wall: float, processor: float) -> None:
        self.rows.setdefault(row, {})[column] = {
            "wall": round(wall, 5),
            "processor": round(processor, 5),
        }
        print(
            f"{row:<44} {column:<14} {wall * 1000:>12.1f} ms {processor * 1000:>12.1f} ms processor",
            file=sys.stderr,
        )


@contextmanager
def measured(
    table: Table, row: str, column: str, clock: Callable[[], float] = time.process_time
) -> Iterator[None]:
    started, processor = time.perf_counter(), clock()
    yield
    table.add(row, column, time.perf_counter() - started, clock() - processor)


def repeated(
    table: Table, row: str, column: str, call: Callable[[int], Any], clock: Callable[[], float]
) -> None:
    call(0)
    walls, processor = [], clock()
    for number in range(ROUNDS):
        started = time.perf_counter()
        call(number)
        walls.append(time.perf_counter() - started)
    table.add(row, column, statistics.median(walls), (clock() - processor) / ROUNDS)


# The operations, by name; a surface does them its own way.


class Service:
    """This program's services, in this process."""

    column = "kb service"

    def __init__(self, home: Path) -> None:
        os.environ["KB_DATA_DIR"] = str(home)
        self.kb: KB = open_kb()
        self.clock = time.process_time
        from kb_bulk.models import body_model

        # Built beforehand, as in an engine that runs.
        self._bulk = self.kb.services["bulk"]
        kinds = ("delete", "tags", "set_tags")
        self._bodies = {
            kind: body_model(self.kb.plugins, self.kb.mutation.kind(kind)) for kind in kinds
        }
        self._run("tags", document_ids=[NOBODY], add=["x"])

    def _run(self, kind: str, **fields: Any) -> int:
        return self._bulk.run(kind, self._bodies[kind](**fields), Actor()).succeeded

    def add_tag(self) -> int:
        return self._run("tags", tags=["all"], add=["x"], force=True)

    def remove_tag(self) -> int:
        return self._run("tags", tags=["all"], remove=["x"], force=True)

    def replace_tags(self) -> int:
        return self._run("set_tags", tags=["all"], new_tags=["y", "z"], force=True)

    def delete_old(self) -> int:
        return self._run("delete", tags=["old"])

    def fetch(self, ids: Sequence[str], vectors: bool) -> int:
        from kb_bulk.models import ChunksIn

        wanted = ChunksIn(chunk_ids=list(ids), include_embeddings=vectors)
        return self.kb.services["chunks"].get(wanted, Actor()).data.found_count

    def close(self) -> None:
        self.kb.close()


class Http:
    """This program's routes, in a `kb serve` of its own."""

    column = "kb HTTP"

    def __init__(self, home: Path) -> None:
        self.server: RunningServer = start_server(KB_DATA_DIR=str(home))
        self.engine = Engine(HttpTransport(self.server.url))
        self.clock = clock_of(self.server.process.pid)
        # What an engine does once is done beforehand.
        self._post("/bulk/tags", document_ids=[NOBODY], add=["x"])

    def _post(self, path: str, **fields: Any) -> int:
        return self.engine.post(path, fields)["succeeded"]

    def add_tag(self) -> int:
        return self._post("/bulk/tags", tags=["all"], add=["x"], force=True)

    def remove_tag(self) -> int:
        return self._post("/bulk/tags", tags=["all"], remove=["x"], force=True)

    def replace_tags(self) -> int:
        return self._post("/bulk/set-tags", tags=["all"], new_tags=["y", "z"], force=True)

    def delete_old(self) -> int:
        return self._post("/bulk/delete", tags=["old"])

    def fetch(self, ids: Sequence[str], vectors: bool) -> int:
        body = {"chunk_ids": list(ids), "include_embeddings": vectors}
        return self.engine.post("/chunks/bulk", body)["data"]["found_count"]

    def close(self) -> None:
        stop_server(self.server)


SURFACES: list[type[Any]] = [Http, Service, Bare]


def ours(
    table: Table, place: Path, documents: int, ids: list[list[str]], url: str | None = None
) -> None:
    """This program, and bare SQL on the same file, each on a fresh copy; with the address of a server, on PostgreSQL."""
    few, many = place / "few", place / "many"
    for home, count, chunks_each, files in (
        (few, documents, 10, True),
        (many, 10 * documents, 1, False),
    ):
        os.environ["KB_DATA_DIR"] = str(home)
        if url:
            os.environ["KB_DATABASE_URL"], new = database(url, f"kb_bulk_{home.name}")
            assert new, "these databases are there already: kb_bulk_few, kb_bulk_many"
        kb = open_kb()
        synthetic.fill(kb, synthetic.items(count, chunks_each), files=files)
        # Else every copy would begin with building them, beside what is measured.
        kb.upkeep.builder().run(patience=60)
        if url:
            with kb.store.write() as tx:
                tx.connection.exec_driver_sql("ANALYZE")
        kb.close()
    for surface in SURFACES[:2] if url else SURFACES:
        for home, count in ((few, documents), (many, 10 * documents)):
            with opened(surface, home, url) as done:
                for verb in ("add_tag", "remove_tag", "replace_tags"):
                    with measured(table, tag_row(verb, count), done.column, done.clock):
                        changed = getattr(done, verb)()
                    assert changed == count, (done.column, verb, changed)
        with opened(surface, few, url) as done:
            for vectors in (False, True):
                try:
                    repeated(
                        table,
                        fetch_row(vectors),
                        done.column,
                        lambda n: done.fetch(ids[n], vectors),  # noqa: B023
                        done.clock,
                    )
                except (EngineError, ImportError) as error:
                    print(f"{done.column}: chunks by id are not there: {error}", file=sys.stderr)
            with measured(table, delete_row(documents), done.column, done.clock):
                changed = done.delete_old()
            assert changed == documents // 2, changed


@contextmanager
def opened(surface: type[Any], home: Path, url: str | None = None) -> Iterator[Any]:
    copy = home.with_name("copy")
    shutil.copytree(home, copy)
    if url:
        os.environ["KB_DATABASE_URL"] = copied(url, f"kb_bulk_{home.name}", "kb_bulk_copy")
    # What was just copied is on its way to the disk: no part of what is measured next.
    os.sync()
    done = surface(copy)
    if url:
        own, served = done.clock, server_clock(os.environ["KB_DATABASE_URL"])
        done.column += ", PG"
        done.clock = lambda: own() + served()
    try:
        yield done
    finally:
        done.close()
        shutil.rmtree(copy)


def peers(
    table: Table, place: Path, documents: int, names: Sequence[str], ids: list[list[str]]
) -> dict[str, Any]:
    """Other stores with the same chunks; what a delete leaves in their files."""
    left = {}
    sample = [item for batch in synthetic.items(documents, 10) for item in batch if item.old][
        :: max(1, documents // 20)
    ]
    for name in names:
        folder = place / name
        peer: Peer = PEERS[name](folder)
        peer.load(synthetic.items(documents, 10))
        for first_only, count in ((True, documents), (False, 10 * documents)):
            if count > SLOW.get(name, count):
                continue
            for verb in ("add_tag", "remove_tag", "replace_tags"):
                with measured(table, tag_row(verb, count), name):
                    getattr(peer, verb)(first_only)
        for vectors in (False, True):
            repeated(
                table,
                fetch_row(vectors),
                name,
                lambda n: peer.fetch(ids[n], vectors),  # noqa: B023
                time.process_time,
            )
        before = size(folder)
        with measured(table, delete_row(documents), name):
            peer.delete_old()
        left[name] = {"before": before, **remains(folder, sample)}
        shutil.rmtree(folder, ignore_errors=True)
    home = place / "few"
    copy = place / "copy"
    shutil.copytree(home, copy)
    done = Service(copy)
    before = size(copy)
    done.delete_old()
    done.close()
    left["kb"] = {"before": before, **remains(copy, sample)}
    return left


def remains(folder: Path, sample: list[synthetic.Item]) -> dict[str, Any]:
    data = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return {
        "after": size(folder),
        "texts_left": sum(item.text[:80].encode() in data for item in sample),
        "vectors_left": sum(item.vector[:64] in data for item in sample),
        "of": len(sample),
    }


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def readers(place: Path) -> dict[str, float]:
    """How long readers of an engine wait: idle, beside somebody else's work on one core, and while it deletes half of everything.

    Where there are few cores the delete takes one of them, as any other work would: what it adds to that is its own.
    """
    with opened(Http, place / "few") as done:
        idle = ask(done.server.url, threading.Event(), 400)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as work:
            busy = ask(done.server.url, threading.Event(), 400)
            work.kill()
        stop = threading.Event()
        during: list[float] = []
        asking = threading.Thread(target=lambda: during.extend(ask(done.server.url, stop)))
        asking.start()
        done.delete_old()
        stop.set()
        asking.join()
    names = {"idle": idle, "busy": busy, "delete": during}
    found = {
        f"{name}_p{percent}": p(walls, percent)
        for name, walls in names.items()
        for percent in (50, 99)
    }
    ratios = {
        f"p99_to_{name}": round(found["delete_p99"] / found[f"{name}_p99"], 2)
        for name in ("idle", "busy")
    }
    return {**found, **ratios, "requests_during": len(during)}


def ask(url: str, stop: threading.Event, times: int = 10**9) -> list[float]:
    engine, walls = Engine(HttpTransport(url)), []
    while not stop.is_set() and len(walls) < times:
        started = time.perf_counter()
        if len(walls) % 2:
            engine.post("/search", {"query": "w3e8 w2f1", "mode": "lexical"})
        else:
            engine.get("/documents", per_page=20, page=len(walls) % 50 + 1)
        walls.append(time.perf_counter() - started)
    return walls


def p(values: list[float], percent: int) -> float:
    return (
        round(statistics.quantiles(values, n=100)[percent - 1] * 1000, 2)
        if len(values) > 1
        else 0.0
    )


def growth(table: Table, place: Path, sizes: Sequence[int]) -> None:
    """The same operations on half of ever more documents of one chunk."""
    for count in sizes:
        home = place / "growing"
        os.environ["KB_DATA_DIR"] = str(home)
        kb = open_kb()
        synthetic.fill(kb, synthetic.items(count, 1, words=12))
        kb.upkeep.builder().run(patience=60)
        kb.close()
        done = Service(home)
        for name, call in (
            ("add a tag to", lambda: done._run("tags", tags=["old"], add=["x"])),  # noqa: B023
            (
                "replace the tags of",
                lambda: done._run("set_tags", tags=["old"], new_tags=["old", "y"]),  # noqa: B023
            ),
            ("delete", done.delete_old),
        ):
            with measured(table, f"growth: {name} half of the documents", f"{count}"):
                changed = call()
            assert changed == count // 2
        done.close()
        shutil.rmtree(home)


def tag_row(verb: str, count: int) -> str:
    return f"{verb.replace('_', ' ')}, {count:,} documents"


def fetch_row(vectors: bool) -> str:
    return "100 chunks by id" + (", with embeddings" if vectors else "")


def delete_row(documents: int) -> str:
    return f"delete {documents // 2:,} of {documents:,} documents"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--growth", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument(
        "--database-url",
        help="a PostgreSQL server, on which the same is measured; `start` starts one",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = Table()
    every = [
        item.id for batch in synthetic.items(min(options.documents, 4_000), 10) for item in batch
    ]
    ids = [every[number :: len(every) // 100][:100] for number in range(ROUNDS)]
    with tempfile.TemporaryDirectory(prefix="kb-bulk-") as temporary:
        place = Path(temporary)
        ours(table, place, options.documents, ids)
        waits = readers(place)
        left = peers(table, place, options.documents, options.peers, ids)
        growth(table, place, options.growth)
        if options.database_url:
            with server(options.database_url) as url:
                ours(table, place / "postgres", options.documents, ids, url)
    if options.json:
        print(json.dumps({"rows": table.rows, "readers": waits, "left_in_files": left}))
        return
    show(table)
    print(
        f"\nreaders, ms: {json.dumps(waits)}\nleft in the files after the delete: {json.dumps(left)}"
    )


def show(table: Table) -> None:
    for row, cells in table.rows.items():
        words = [
            f"{column} {cell['wall'] * 1000:,.1f}/{cell['processor'] * 1000:,.1f}"
            for column, cell in cells.items()
        ]
        if {"kb service", "bare SQL"} <= cells.keys():
            walls, used = (
                [cells[c][kind] for c in ("kb service", "bare SQL")]
                for kind in ("wall", "processor")
            )
            words.append(
                f"service to bare SQL {walls[0] / walls[1]:.2f} ({used[0] / max(used[1], 1e-6):.2f})"
            )
        print(f"{row}: " + " · ".join(words))


if __name__ == "__main__":
    main()
