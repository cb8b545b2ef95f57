"""How good search is: nDCG@10 and Recall@100 on collections with known answers, beside BM25 as bm25s does it.

    pip install bm25s PyStemmer
    python benchmarks/retrieval.py [DATA] [--models FOLDER] [--collections adi,scifact] [--part all|report|tune]

Documents go in as notes through the engine's own API, questions through its search, all of them by default. What was tuned was
tuned with `--part tune`: scifact's training claims, and of every other collection the half of the questions whose id's hash is
even; `--part report` asks the others. The multilingual embedder is measured where `--models` has its model. Data folders are
kept in `--cache`, one per collection and embedder, and used again as long as they are there: delete them when
chunking, embedding or the analysis of text has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from kb_search.evaluation import (
    MODES,
    Collection,
    Quality,
    fill,
    load_collection,
    measure,
    ndcg,
    recall,
)
from postgres import database, server

from kb_framework.client import Engine, connect

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NAMES = ("scifact", "cranfield", "adi", "ko-strategyqa-facts", "jsquad")
UNSPACED = "\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff"


def is_for_tuning(query_id: str) -> bool:
    return int(hashlib.sha256(query_id.encode()).hexdigest(), 16) % 2 == 0


def load(folder: Path, part: str, most: int) -> Collection:
    if part == "tune" and (folder / "train").is_dir():
        collection = load_collection(folder, folder / "train")
        queries = collection.queries
    else:
        collection = load_collection(folder)
        halved = part != "all" and not (folder / "train").is_dir()
        queries = [
            q for q in collection.queries if not halved or is_for_tuning(q.id) == (part == "tune")
        ]
    return replace(collection, queries=queries[:most])


def progress(items: Sequence[Any], label: str) -> Iterable[Any]:
    for number, item in enumerate(items, 1):
        if number % 500 == 0:
            print(f"  {label}: {number} of {len(items)}", file=sys.stderr, flush=True)
        yield item


def filled(
    cache: Path, collection: Collection, embedder: str, models: Path | None, url: str | None
) -> tuple[Engine, dict[int, str]]:
    """An engine over a data folder that holds the collection, from an earlier run if there was one."""
    home = cache / f"{collection.name}-{embedder}{'-postgres' if url else ''}"
    home.mkdir(parents=True, exist_ok=True)
    if models and not (home / "models").exists():
        (home / "models").symlink_to(models.resolve(), target_is_directory=True)
    os.environ |= {"KB_DATA_DIR": str(home), "KB_EMBEDDER": embedder}
    known = home / "ids.json"
    if url:
        os.environ["KB_DATABASE_URL"], new = database(
            url, f"kb_retrieval_{collection.name}_{embedder}"
        )
        if new:
            known.unlink(missing_ok=True)
    engine = connect()
    if not known.is_file():
        known.write_text(json.dumps(fill(engine, collection, progress)))
    return engine, {int(number): name for number, name in json.loads(known.read_text()).items()}


def baseline(collection: Collection) -> Quality:
    """bm25s as it comes: English stop words and stems, or pairs of characters where there are no spaces."""
    import bm25s
    import Stemmer

    texts = [
        f"{document.get('title') or ''} {document['text']}" for document in collection.documents
    ]
    asked = [query.text for query in collection.queries]
    unspaced = sum(len(re.findall(f"[{UNSPACED}]", text)) for text in texts[:100]) > 500
    if unspaced:
        corpus, queries = [_pairs(text) for text in texts], [_pairs(text) for text in asked]
    else:
        stemmer = Stemmer.Stemmer("english")
        corpus = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
        queries = bm25s.tokenize(asked, stopwords="en", stemmer=stemmer, show_progress=False)
    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(corpus, show_progress=False)
    depth = min(100, len(texts))
    found, _ = index.retrieve(queries, k=depth, show_progress=False)
    ranked = [[str(collection.documents[number]["_id"]) for number in row] for row in found]
    pairs = list(zip(ranked, collection.queries, strict=True))
    count = len(pairs)
    return Quality(
        sum(ndcg(row, q.relevant) for row, q in pairs) / count,
        sum(recall(row, q.relevant) for row, q in pairs) / count,
        0.0,
    )


def _pairs(text: str) -> list[str]:
    found = []
    for word in re.findall(
        f"[{UNSPACED}]+|[^\\W{UNSPACED}]+", unicodedata.normalize("NFKC", text).lower()
    ):
        runs = re.match(f"[{UNSPACED}]", word) and len(word) > 1
        found += [word[i : i + 2] for i in range(len(word) - 1)] if runs else [word]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, default=SHARED)
    parser.add_argument("--collections", default=",".join(NAMES))
    parser.add_argument(
        "--embedders", help="wordllama, and multilingual with --models, if not given"
    )
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--part", choices=("all", "report", "tune"), default="all")
    parser.add_argument(
        "--queries", type=int, default=100_000, help="at most so many of each collection"
    )
    parser.add_argument(
        "--models", type=Path, help="a folder of installed models, such as a data folder's models"
    )
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "kb-retrieval")
    parser.add_argument(
        "--database-url",
        help="a PostgreSQL server, where each collection gets a database of its own; `start` starts one",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name in [
        name for name in os.environ if name.startswith("KB_") and name != "KB_SEARCH_RERANKER"
    ]:
        del os.environ[name]
    with server(options.database_url) if options.database_url else nullcontext() as url:
        show(measured(options, url), options.json)


def measured(options: argparse.Namespace, url: str | None) -> list[tuple[str, str, str, Quality]]:
    embedders = options.embedders or ("wordllama,multilingual" if options.models else "wordllama")
    rows = []
    for name in options.collections.split(","):
        collection = load(options.data / name, options.part, options.queries)
        print(
            f"{name}: {len(collection.documents)} documents, {len(collection.queries)} queries",
            file=sys.stderr,
            flush=True,
        )
        rows.append((name, "bm25s", "lexical", baseline(collection)))
        for number, embedder in enumerate(embedders.split(",")):
            engine, ids = filled(options.cache, collection, embedder, options.models, url)
            # Words are the same for every embedder.
            modes = [mode for mode in options.modes.split(",") if mode != "lexical" or number == 0]
            with engine:
                for mode in modes:
                    rows.append(
                        (name, embedder, mode, measure(engine, collection, ids, mode, progress))
                    )
                    print(
                        "  ",
                        *rows[-1][1:3],
                        *(f"{value:.4f}" for value in rows[-1][3]),
                        file=sys.stderr,
                        flush=True,
                    )
    return rows


def show(rows: list[tuple[str, str, str, Quality]], as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                [
                    dict(zip(("collection", "embedder", "mode"), row[:3], strict=True))
                    | row[3]._asdict()
                    for row in rows
                ]
            )
        )
        return
    print(f"{'collection':<22}{'embedder':<14}{'mode':<9}{'nDCG@10':>9}{'Recall@100':>12}{'ms':>8}")
    for name, embedder, mode, quality in rows:
        print(
            f"{name:<22}{embedder:<14}{mode:<9}{quality.ndcg:>9.4f}{quality.recall:>12.4f}{quality.milliseconds:>8.1f}"
        )


if __name__ == "__main__":
    main()
