"""What a command costs from nothing, as multiples of a bare Python: `python benchmarks/cold_start.py [--runs N] [--json]`.

The cases take turns, so that a slow moment of the machine falls on all of them. The minimum is the cost; the median says how
quiet the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KB = [
    shutil.which("kb", path=str(Path(sys.executable).parent))
    or sys.exit("kb is not installed beside this Python")
]
QUESTION = "how often are access keys rotated"
BARE = "python -c pass"


@dataclass(frozen=True)
class Case:
    name: str
    command: list[str]
    environment: dict[str, str]
    aim: float | None = None


@dataclass(frozen=True)
class Row:
    name: str
    aim: float | None
    least: float
    median: float
    multiple: float


def clean_environment(bytecode: Path) -> dict[str, str]:
    """This environment without settings of kb and Python, and with compiled modules, as `pip install` leaves them.

    Where bytecode is not written, every start would compile everything anew.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("KB_", "PYTHON"))
    }
    return {**kept, "PYTHONPYCACHEPREFIX": str(bytecode)}


def prepare(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """A data folder with the sample documents of `kb quickstart`."""
    environment = {**environment, "KB_DATA_DIR": str(folder)}
    subprocess.run([*KB, "quickstart"], env=environment, check=True, stdout=subprocess.DEVNULL)
    return environment


@contextmanager
def running_engine(environment: dict[str, str]) -> Iterator[str]:
    """`kb serve` on a free port; its address."""
    log = Path(environment["KB_DATA_DIR"]) / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*KB, "serve", "--port", "0"], env=environment, stdout=output, stderr=output
        )
    try:
        until = time.monotonic() + 60
        while not (
            found := re.search(r"serving .* on (http://\S+)", log.read_text(encoding="utf-8"))
        ):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("kb serve did not start:\n" + log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        yield found.group(1)
    finally:
        process.terminate()
        process.wait(60)


def run(case: Case) -> float:
    """Seconds from start to end of one process."""
    started = time.perf_counter()
    done = subprocess.run(
        case.command, env=case.environment, stdin=subprocess.DEVNULL, capture_output=True
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{case.name} failed:\n{done.stderr.decode()}")
    return seconds


def measure(cases: list[Case], runs: int) -> list[Row]:
    for case in cases:
        run(case)
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    for _ in range(runs):
        for case in cases:
            seconds[case.name].append(run(case))
    base = min(seconds[BARE])
    return [
        Row(case.name, case.aim, min(taken), statistics.median(taken), min(taken) / base)
        for case in cases
        for taken in [seconds[case.name]]
    ]


def show(rows: list[Row]) -> None:
    print(f"{'':32}{'min ms':>9}{'median ms':>11}{'multiple':>10}{'aim':>7}")
    for row in rows:
        aim = "" if row.aim is None else f"{row.aim:.0f}×"
        mark = "" if row.aim is None or row.multiple <= row.aim else "  missed"
        print(
            f"{row.name:32}{row.least * 1000:9.1f}{row.median * 1000:11.1f}{row.multiple:9.1f}×{aim:>7}{mark}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Cold start of kb as multiples of a bare Python.")
    parser.add_argument("--runs", type=int, default=15, help="how often each case is run (15)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = clean_environment(folder / "bytecode")
        alone, beside = prepare(folder / "embedded", bare), prepare(folder / "served", bare)
        with running_engine(beside):
            rows = measure(
                [
                    Case(BARE, [sys.executable, "-c", "pass"], bare),
                    Case("kb --help", [*KB, "--help"], alone, 15),
                    Case("kb search, embedded", [*KB, "search", QUESTION], alone, 50),
                    Case("kb search, running engine", [*KB, "search", QUESTION], beside, 12),
                ],
                max(options.runs, 1),
            )
    if options.json:
        machine = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "processors": os.cpu_count(),
        }
        print(
            json.dumps(
                {"runs": options.runs, **machine, "rows": [vars(row) for row in rows]}, indent=2
            )
        )
    else:
        print(
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {options.runs} runs each\n"
        )
        show(rows)


if __name__ == "__main__":
    main()
