"""What curation costs: changing many chunks at once, finding what is left, and logging what is deleted.

python benchmarks/curation.py [--chunks 100000]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

PER_DOCUMENT = 10
WORDS = [
    f"{first}{second}"
    for first in ("har", "lan", "mer", "sol", "tor", "vin")
    for second in ("bour", "tern", "chant", "stice", "rent")
]


def seconds(call: Callable[[], Any]) -> float:
    """Of this process, not of the clock: everything runs here, and the machine may be busy with other things."""
    began = time.process_time()
    call()
    return time.process_time() - began


def fill(kb: Any, chunks: int) -> None:
    """Documents of ten short chunks, with full text and without vectors."""
    from kb_documents.api import insert_document

    from kb_framework.api import ChunkText

    order = random.Random(1)
    values = {
        "doc_type": "note",
        "path": None,
        "media": "markdown",
        "lang": "en",
        "trust": "primary",
        "metadata": {},
    }
    with kb.store.write() as tx:
        for number in range(chunks // PER_DOCUMENT):
            pieces = [
                ChunkText(
                    f"chunk {number}.{index} " + " ".join(order.choices(WORDS, k=40)),
                    {"token_count": 50},
                )
                for index in range(PER_DOCUMENT)
            ]
            row = {
                **values,
                "title": f"document {number}",
                "content_hash": f"{number:064x}",
                "bytes": 1,
                "file": None,
            }
            insert_document(tx, row, ["half"] if number % 2 else [], pieces, "0" * 36, {}, None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=100_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(KB_DATA_DIR=folder, KB_EMBEDDER="none", KB_BULK_SAFETY_PERCENT="0")
        from kb_framework.app import open_kb
        from kb_framework.client import Engine
        from kb_framework.edges.http.app import create_app
        from kb_testing.application import AsgiTransport

        kb = open_kb()
        print(
            f"filled with {chosen.chunks} chunks in {seconds(lambda: fill(kb, chosen.chunks)):.1f} s"
        )
        with Engine(AsgiTransport(create_app(kb)), kb.plugins) as engine:

            def search(**options: Any) -> float:
                return 1000 * statistics.median(
                    seconds(lambda: engine.search("harbour solstice", mode="lexical", **options))
                    for _ in range(9)
                )

            print(f"search, nothing curated:             {search():8.1f} ms")
            half = {"tags": ["half"]}
            steps: list[tuple[str, Callable[[], Any]]] = [
                (
                    "preview of reclassifying all",
                    lambda: engine.bulk_preview("reclassify", status="all", chunk_kind="angle"),
                ),
                (
                    "reclassify all",
                    lambda: engine.bulk_reclassify(status="all", chunk_kind="angle"),
                ),
                (
                    "reclassify all again (no change)",
                    lambda: engine.bulk_reclassify(status="all", chunk_kind="angle"),
                ),
                (
                    "set the policy of half",
                    lambda: engine.bulk_set_policy(**half, usage_policy="never_generate"),
                ),
                (
                    "deactivate 1 in 100 by words",
                    lambda: engine.bulk_deactivate(query="chunk 1. 99"),
                ),
            ]
            for name, call in steps:
                print(f"{name + ':':36} {seconds(call):8.2f} s")
            print(f"search, half kept from models:       {search():8.1f} ms")
            model = engine.read_by("model")
            kept = 1000 * statistics.median(
                seconds(lambda: model.search("harbour solstice", mode="lexical")) for _ in range(9)
            )
            print(f"the same for a model:                {kept:8.1f} ms")
            print(f"events:                              {engine.list_events()['meta']['total']:8}")
            print(
                f"{'list of chunks by words:':36} {seconds(lambda: engine.list_chunks(q='harbour merchant')):8.2f} s"
            )
            print(
                f"{'delete half of the documents:':36} {seconds(lambda: engine.bulk_delete(tags=['half'])):8.2f} s"
            )
            print(f"{'events:':36} {engine.list_events()['meta']['total']:8}")
        kb.close()


if __name__ == "__main__":
    main()
