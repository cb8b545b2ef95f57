"""How fast a folder is ingested, and where the time goes.

    python benchmarks/ingest.py FOLDER [--json]

Without a folder it takes the Markdown tree of the shared collection, if that is there, else one that it writes itself.
Files go through the same service that HTTP uploads use, from as many threads as there are cores; then the whole folder is
added once more, by the command, to see what an unchanged tree costs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "docs" / "k8s-md"


class Stages:
    """Seconds that threads spent in each stage, and what is left for everything else."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                with self._lock:
                    self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

        return call


def own_tree(folder: Path) -> Path:
    for number in range(300):
        sections = (f"## Part {part}\n\n" + f"Sentence {number} of part {part} says something else. " * 40 for part in range(8))
        (folder / f"{number}.md").write_text(f"# Document {number}\n\n" + "\n\n".join(sections), encoding="utf-8")
    return folder


def measure(folder: Path, home: Path) -> dict[str, Any]:
    os.environ["KB_DATA_DIR"] = str(home)
    from kb_documents.models import FileFields

    from kb_framework.api import Actor
    from kb_framework.app import open_kb

    kb = open_kb()
    service = kb.services["documents"]
    ingest = service._ingest
    stages = Stages()
    ingest._extract = stages.timed("extraction", ingest._extract)
    ingest._chunk = stages.timed("chunking", ingest._chunk)
    kb.embedding.encode = stages.timed("embedding", kb.embedding.encode)
    # Waiting for the one writer counts as writing: more threads cannot make it shorter.
    ingest._insert = stages.timed("writing", ingest._insert)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    size = sum(path.stat().st_size for path in files)

    def add(path: Path) -> int:
        shown = path.relative_to(folder).as_posix()
        added = service.add_file(path.read_bytes(), path.name, FileFields(path=shown, source=path.as_posix()), Actor())
        return added.document.chunk_count

    kb.embedding.encode(["load the model"])
    stages.seconds.clear()
    started, processor = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        chunks = sum(pool.map(add, files))
    wall, busy = time.perf_counter() - started, time.process_time() - processor
    kb.close()
    inside = sum(stages.seconds.values())
    return {
        "files": len(files),
        "megabytes": round(size / 1e6, 2),
        "chunks": chunks,
        "seconds": round(wall, 2),
        "cores_used": round(busy / wall, 2),
        "documents_per_second": round(len(files) / wall, 1),
        "chunks_per_second": round(chunks / wall, 1),
        "stages": {name: round(seconds / inside, 3) for name, seconds in sorted(stages.seconds.items())},
        "peak_rss_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def command(folder: Path, home: Path) -> float:
    started = time.perf_counter()
    environment = {**os.environ, "KB_DATA_DIR": str(home)}
    subprocess.run(
        [sys.executable, "-m", "kb_framework", "add", str(folder), "--json"], check=True, env=environment, capture_output=True
    )
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        folder = options.folder or (SHARED if SHARED.is_dir() else None)
        if folder is None:
            (place / "tree").mkdir()
            folder = own_tree(place / "tree")
        found = measure(folder.resolve(), place / "home")
        first, again = command(folder, place / "other"), command(folder, place / "other")
        found |= {
            "command_seconds": round(first, 2),
            "again_seconds": round(again, 2),
            "again_times_faster": round(first / again, 1),
        }
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:<22} {value}")


if __name__ == "__main__":
    main()
