"""Whether a small organization is slower beside a large one.

    python benchmarks/neighbours.py [--chunks 200000] [--own 2000] [--json]

A small organization is searched alone; then another, so many times larger, is added to the same database, and the same
questions are asked again, in every mode. The figures are medians in milliseconds of processor time, since a clock says little on
a busy machine, and how many times more it takes beside the neighbour. The engine's in-process client is used, so that HTTP is the
same for both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from typing import Any

from synthetic import fill, items

# Words of the synthetic vocabulary, from the most frequent to rare ones.
QUESTIONS = ("w0 w1 w2", "w3 w10 w40", "w5 w100 w1000", "w700 w1500", "w2 w3000 w4000 w9")
MODES = ("lexical", "vector", "hybrid")


def measure(engine: Any, rounds: int) -> dict[str, float]:
    """The median time of a search, by mode."""
    found: dict[str, float] = {}
    for mode in MODES:
        times = []
        for question in QUESTIONS * rounds:
            started = time.process_time()
            engine.search(question, mode=mode, k=10)
            times.append(time.process_time() - started)
        found[mode] = statistics.median(times[len(QUESTIONS) :]) * 1000
    return found


def run(own: int, neighbour: int, rounds: int) -> dict[str, Any]:
    from kb_framework.app import open_kb
    from kb_framework.client import Engine
    from kb_framework.edges.http.app import create_app
    from kb_testing.application import AsgiTransport

    with tempfile.TemporaryDirectory() as home:
        os.environ["KB_DATA_DIR"] = home
        kb = open_kb()
        app = create_app(kb)
        owner = Engine(AsgiTransport(app), kb.plugins)
        small, large = (
            owner.create_key("bench", "viewer", organization=name) for name in ("small", "large")
        )
        engine = Engine(AsgiTransport(app, api_key=small["key"]), kb.plugins)
        fill(kb, items(own // 10, 10), organization_id=small["organization_id"])
        alone = measure(engine, rounds)
        fill(kb, items(neighbour // 10, 10, seed=2), organization_id=large["organization_id"])
        beside = measure(engine, rounds)
        engine.close()
        owner.close()
        kb.close()
    ratios = {mode: beside[mode] / alone[mode] for mode in MODES}
    return {
        "own_chunks": own,
        "neighbour_chunks": neighbour,
        "alone_ms": alone,
        "beside_ms": beside,
        "times": ratios,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=200_000, help="chunks of the neighbour")
    parser.add_argument(
        "--own", type=int, default=2_000, help="chunks of the organization that searches"
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.own, options.chunks, options.rounds)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'mode':10}{'alone':>10}{'beside':>10}{'times':>8}")
    for mode in MODES:
        print(
            f"{mode:10}{found['alone_ms'][mode]:>10.1f}{found['beside_ms'][mode]:>10.1f}{found['times'][mode]:>8.2f}"
        )


if __name__ == "__main__":
    main()
