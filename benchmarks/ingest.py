"""How fast `kb add` takes in a folder, where the time goes, and how much memory it needs.

    python benchmarks/ingest.py [FOLDER] [--json]
    python benchmarks/ingest.py [FOLDER] --memory GIGABYTES [--json]

Without a folder it takes the Markdown tree of the shared collection, if that is there, else one that it writes itself.
The command runs in this process, as it does for a person who serves nothing, so that the processor time of each stage can be
told; then the whole folder is added twice by the command as such, to see what an unchanged tree costs.

With `--memory` it writes a folder of that size (altered copies of the documents, so that none is there twice, and some files
as large as is allowed) and adds that, while the memory of the command and of its workers is watched. It ends with an error where
all of them together ever had more than a gigabyte. What processes share is counted in each of them (RSS), and also once (PSS).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "docs"
# Seconds between two looks at the memory.
_LOOK = 0.1
_SELDOM = 50
_GIGABYTE = 1_000_000_000


class Stages:
    """Processor seconds that threads spent in each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.add(name, time.thread_time() - started)

        return call

    def add(self, name: str, seconds: float) -> None:
        with self._lock:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def own_tree(folder: Path) -> Path:
    for number in range(300):
        sections = (
            f"## Part {part}\n\n" + f"Sentence {number} of part {part} says something else. " * 40
            for part in range(8)
        )
        (folder / f"{number}.md").write_text(
            f"# Document {number}\n\n" + "\n\n".join(sections), encoding="utf-8"
        )
    return folder


def measure(folder: Path, home: Path) -> dict[str, Any]:
    """One `kb add` in this process."""
    os.environ["KB_DATA_DIR"] = str(home)
    from kb_documents import prepare
    from kb_documents.add_command import add
    from kb_text import language

    from kb_framework.app import open_kb
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.client import Engine
    from kb_framework.edges.cli.console import Cli
    from kb_framework.edges.http.app import create_app
    from kb_testing.application import AsgiTransport

    kb = open_kb()
    stages = Stages()
    ingest = kb.services["ingest"]
    preparation = ingest._preparation
    preparation._take_apart = stages.timed("extraction", preparation._take_apart)
    prepare.detect_by = stages.timed("language", prepare.detect_by)
    embedding = kb.services["embedding"]
    embedding.encode = stages.timed("embedding", embedding.encode)
    ingest._writer.write = stages.timed("writing", ingest._writer.write)
    cli = Cli(read_bootstrap(), kb.plugins, json=True)
    cli.engine = Engine(AsgiTransport(create_app(kb), kb.close), kb.plugins)

    embedding.encode(["load the model"])
    language._model()
    stages.seconds.clear()
    before = _library_seconds()
    started, processor = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        add(str(folder), cli=cli)
    wall, busy = time.perf_counter() - started, time.process_time() - processor
    library = _library_seconds() - before
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        add(str(folder), cli=cli)
    again = time.perf_counter() - started
    # The tokenizer works in threads of its own; so do the processes that read files.
    stages.add("embedding", library)
    chunks = cli.engine.get("/health")["counts"]["chunks"]
    cli.engine.close()
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy += workers.ru_utime + workers.ru_stime
    chunking, words = _taking_apart(folder)
    stages.add("chunking", chunking)
    stages.add("words", words)
    stages.add("extraction", workers.ru_utime + workers.ru_stime - chunking - words)
    stages.add("everything else", busy - sum(stages.seconds.values()))
    outcome = json.loads(said.getvalue())
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    share = {name: round(seconds / busy, 3) for name, seconds in sorted(stages.seconds.items())}
    return {
        "files": len(outcome["files"]),
        "failed": outcome["failed"],
        "megabytes": round(size / 1e6, 2),
        "chunks": chunks,
        "seconds": round(wall, 2),
        "processor_seconds": round(busy, 2),
        "cores_used": round(busy / wall, 2),
        "documents_per_second": round(len(outcome["files"]) / wall, 1),
        "chunks_per_second": round(chunks / wall, 1),
        "stages": share,
        "unchanged_times_faster": round(wall / again, 1),
        "embedding_and_extraction": round(share["embedding"] + share["extraction"], 3),
        "peak_rss_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _taking_apart(folder: Path) -> tuple[float, float]:
    """What chunking takes, and making the words that are indexed: in the processes that read files nobody can tell them apart.

    Markdown alone is looked at; of other formats it is a small part of what they take.
    """
    from kb_documents.chunk import by_structure
    from kb_documents.extract import markdown
    from kb_text.api import indexed_words

    files = [(path.read_bytes(), path.name) for path in sorted(folder.rglob("*.md"))]
    extracted = [markdown(*file) for file in files]
    started = time.process_time()
    cut = [by_structure(text) for text in extracted]
    chunked = time.process_time()
    for (_, name), pieces in zip(files, cut, strict=True):
        for piece in pieces:
            indexed_words(name, piece)
    return chunked - started, time.process_time() - chunked


def _library_seconds() -> float:
    """Processor time of the threads that libraries made, which outlive their work; 0 where the system does not tell."""
    ours = {thread.native_id for thread in threading.enumerate()}
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for task in Path("/proc/self/task").glob("*"):
        if int(task.name) not in ours:
            fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / ticks


def command(folder: Path, home: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "KB_DATA_DIR": str(home)}
    # Modules are compiled, as `pip install` leaves them.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(
        [sys.executable, "-m", "kb_framework", "add", str(folder), "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def timed_command(folder: Path, home: Path) -> tuple[float, float]:
    """Seconds, and processor seconds, which others on the machine change less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command(folder, home).communicate()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# Memory


def large_tree(folder: Path, documents: Path, gigabytes: float) -> None:
    """A folder of that size: a sixth of it in large files, the rest altered copies of documents."""
    rest = int(gigabytes * 1e9)
    originals = [
        path
        for path in sorted(documents.rglob("*"))
        if path.is_file() and 0 < path.stat().st_size < 3_000_000
    ]
    texts = [
        path for path in originals if path.suffix == ".md" and b"\x00" not in path.read_bytes()
    ]
    prose = "\n\n".join(path.read_text(encoding="utf-8", errors="replace") for path in texts)
    chance = random.Random(1)
    for number, size in enumerate((1_000_000, 5_000_000, 10_000_000, 18_000_000, 19_500_000)):
        rest -= _large_text(folder / f"large-{number}.txt", prose, size, chance)
    rest -= _large_text(folder / "too-long.txt", prose, 30_000_000, chance)
    rest -= _scattered(folder / "large.bin", 60_000_000, chance)
    for path in [path for path in originals if path.suffix == ".pdf"][:3]:
        # What comes after the end of a PDF is not read, but carried.
        rest -= _padded(folder / f"large-{path.stem}.pdf", path.read_bytes(), 25_000_000, chance)
    number = 0
    while rest > 0:
        for path in originals:
            number += 1
            place = folder / f"{number // 500:03}" / f"{number}-{path.name}"
            place.parent.mkdir(exist_ok=True)
            rest -= _altered(place, path, number)
            if rest <= 0:
                return


def _large_text(place: Path, prose: str, size: int, chance: random.Random) -> int:
    paragraphs = prose.split("\n\n")
    with place.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.write(f"{chance.random()} {chance.choice(paragraphs)}\n\n")
    return place.stat().st_size


def _scattered(place: Path, size: int, chance: random.Random) -> int:
    place.write_bytes(chance.randbytes(size))
    return size


def _padded(place: Path, data: bytes, size: int, chance: random.Random) -> int:
    place.write_bytes(
        data
        + b"\n%"
        + chance.randbytes(max(0, size - len(data))).hex().encode()[: size - len(data)]
    )
    return place.stat().st_size


def _altered(place: Path, original: Path, number: int) -> int:
    """Text is altered in every paragraph, so that no chunk is known; of other files only the bytes differ."""
    data = original.read_bytes()
    if original.suffix in (".md", ".txt"):
        data = data.replace(b"\n\n", f"\n\nVariant {number}. ".encode())
    place.write_bytes(data + f"\n\n{number}\n".encode())
    return place.stat().st_size


def measure_memory(folder: Path, home: Path) -> dict[str, Any]:
    """One `kb add` as a process of its own, looked at all the time."""
    started = time.perf_counter()
    process = command(folder, home)
    peaks = {"command": 0, "workers": 0, "together": 0, "together_shared_once": 0}
    course: list[int] = []
    finished = threading.Event()

    def look() -> None:
        looks = 0
        while not finished.wait(_LOOK):
            workers = list(_children(process.pid))
            own, theirs = _resident(process.pid), sum(map(_resident, workers))
            now = {"command": own, "workers": theirs, "together": own + theirs}
            if looks % _SELDOM == 0:
                # This is slow to find out.
                now["together_shared_once"] = sum(map(_proportional, [process.pid, *workers]))
                course.append(own + theirs)
            looks += 1
            peaks.update({name: max(peaks[name], value) for name, value in now.items()})

    watching = threading.Thread(target=look)
    watching.start()
    said, _ = process.communicate()
    finished.set()
    watching.join()
    wall = time.perf_counter() - started
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    outcome = json.loads(said)
    return {
        "files": len(files),
        "megabytes": round(size / 1e6),
        **{state: outcome[state] for state in ("added", "unchanged", "failed")},
        "seconds": round(wall, 1),
        "documents_per_second": round(len(files) / wall, 1),
        "peak_megabytes": {name: round(value / 1e6) for name, value in peaks.items()},
        "megabytes_by_tenths_of_the_run": [
            round(course[len(course) * part // 10] / 1e6) for part in range(10)
        ]
        if course
        else [],
        "within_a_gigabyte": peaks["together"] <= _GIGABYTE,
    }


def _proportional(process: int) -> int:
    """What it has in memory, shares of what it shares."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _resident(process: int) -> int:
    try:
        return int(
            Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
        ) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _children(process: int) -> Iterator[int]:
    """Processes that it started. One that is just being started still is its parent, and has no memory of its own."""
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text(encoding="ascii").split()):
                if _arguments(child) != _arguments(process):
                    yield child
                    yield from _children(child)


def _arguments(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument(
        "--memory",
        type=float,
        metavar="GIGABYTES",
        help="watch the memory while a folder of this size is added",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "tree").mkdir()
        if options.memory:
            documents = options.folder or (
                SHARED if SHARED.is_dir() else own_tree(_made(place / "own"))
            )
            large_tree(place / "tree", documents.resolve(), options.memory)
            found = measure_memory(place / "tree", place / "home")
        else:
            folder = options.folder or (
                SHARED / "k8s-md" if SHARED.is_dir() else own_tree(place / "tree")
            )
            found = measure(folder.resolve(), place / "home")
            command(_made(place / "empty"), place / "first").communicate()
            (first, first_busy), (again, again_busy) = (
                timed_command(folder, place / "other") for _ in range(2)
            )
            found |= {
                "command_seconds": round(first, 2),
                "again_seconds": round(again, 2),
                "again_times_faster": round(first / again, 1),
                "again_times_less_processor_time": round(first_busy / again_busy, 1),
            }
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:<32} {value}")
    if not found.get("within_a_gigabyte", True):
        sys.exit("more than a gigabyte of memory was used")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
