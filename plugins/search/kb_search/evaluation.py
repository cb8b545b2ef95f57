"""How good search is, measured on a collection with known answers.

A collection is a folder: `corpus.jsonl` (or `.jsonl.gz`; `_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and
`qrels.tsv` (a header, then query id, document id and grade, by tabs; a grade above 0 is relevant). It is the layout of BEIR.
"""

from __future__ import annotations

import gzip
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kb_framework.api.client import Engine
from kb_framework.errors import ConfigInvalid

MODES = ("lexical", "vector", "hybrid")
_DEEPEST = 100
_PAGES = 3

Progress = Callable[[Sequence[Any], str], Iterable[Any]]


class Query(NamedTuple):
    id: str
    text: str
    relevant: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Collection:
    name: str
    documents: list[Mapping[str, Any]]
    queries: list[Query]


class Quality(NamedTuple):
    """Means over the queries; milliseconds are the median of one search, with everything around it."""

    ndcg: float
    recall: float
    milliseconds: float


def load_collection(folder: Path, queries_from: Path | None = None) -> Collection:
    """Read a collection, with the queries and judgements of another folder if that is given."""
    corpus = folder / "corpus.jsonl"
    if not corpus.is_file():
        corpus = folder / "corpus.jsonl.gz"
    asked = queries_from or folder
    documents = [_record(line, corpus, ("_id", "text")) for line in _lines(corpus)]
    relevant = _judgements(asked / "qrels.tsv")
    questions = [
        _record(line, asked / "queries.jsonl", ("_id", "text"))
        for line in _lines(asked / "queries.jsonl")
    ]
    # A question without any right answer says nothing about a search.
    queries = [
        Query(str(q["_id"]), q["text"], relevant[str(q["_id"])])
        for q in questions
        if str(q["_id"]) in relevant
    ]
    if not documents or not queries:
        raise ConfigInvalid(f"{folder} holds no documents, or no queries with judgements")
    return Collection(folder.resolve().name, documents, queries)


def fill(engine: Engine, collection: Collection, progress: Progress) -> dict[int, str]:
    """Add the documents as notes; the collection's own id of each."""
    added = {}
    for document in progress(collection.documents, "adding documents"):
        text = document["text"].strip() or (document.get("title") or "").strip()
        if text:
            title = (document.get("title") or "").strip()[:1000]
            answer = engine.add_note(text, **({"title": title} if title else {}))
            added[answer["document"]["id"]] = str(document["_id"])
    return added


def measure(
    engine: Engine, collection: Collection, ids: Mapping[int, str], mode: str, progress: Progress
) -> Quality:
    """Ask every question; a document is where its best chunk is."""
    ndcgs, recalls, seconds = [], [], []
    for query in progress(collection.queries, f"{mode} search"):
        started = time.perf_counter()
        first = engine.search(query.text, mode=mode, k=_DEEPEST, snippet_chars=20)
        seconds.append(time.perf_counter() - started)
        ranked = _ranked(engine, query.text, mode, first, ids)
        ndcgs.append(ndcg(ranked, query.relevant))
        recalls.append(recall(ranked, query.relevant))
    count = len(collection.queries)
    return Quality(sum(ndcgs) / count, sum(recalls) / count, 1000 * sorted(seconds)[count // 2])


def _ranked(
    engine: Engine, text: str, mode: str, found: dict[str, Any], ids: Mapping[int, str]
) -> list[str]:
    ranked = dict.fromkeys(ids[hit["doc_id"]] for hit in found["hits"])
    for _ in range(_PAGES):
        # A document may have several chunks among the hits.
        if not found["next_cursor"] or len(ranked) >= _DEEPEST:
            break
        found = engine.search(
            text, mode=mode, k=_DEEPEST, snippet_chars=20, cursor=found["next_cursor"]
        )
        ranked |= dict.fromkeys(ids[hit["doc_id"]] for hit in found["hits"])
    return list(ranked)


def ndcg(ranked: Sequence[str], relevant: Mapping[str, int], depth: int = 10) -> float:
    """Normalised discounted cumulative gain: 1 where the best documents come first, in order of their grades."""
    gain = sum(
        relevant.get(name, 0) / math.log2(place + 2) for place, name in enumerate(ranked[:depth])
    )
    grades = sorted(relevant.values(), reverse=True)[:depth]
    return gain / sum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def recall(ranked: Sequence[str], relevant: Mapping[str, int], depth: int = _DEEPEST) -> float:
    """The share of the relevant documents that were found at all."""
    return len(set(ranked[:depth]) & relevant.keys()) / len(relevant)


def _lines(path: Path) -> list[str]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            return [line for line in file.read().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "a collection is a folder with corpus.jsonl, queries.jsonl and qrels.tsv: docs/retrieval-quality.md"
        raise ConfigInvalid(f"{path} cannot be read: {reason}", hint=hint) from None


def _record(line: str, path: Path, wanted: Sequence[str]) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
        if all(isinstance(record[name], str | int) for name in wanted) and isinstance(
            record["text"], str
        ):
            return record
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ConfigInvalid(f"{path}: a line is not an object with {' and '.join(wanted)}: {line[:80]}")


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for line in _lines(path)[1:]:
        parts = line.split("\t")
        if len(parts) != 3 or not parts[2].strip().lstrip("-").isdecimal():
            raise ConfigInvalid(
                f"{path}: a line is not query id, document id and grade, by tabs: {line[:80]}"
            )
        if int(parts[2]) > 0:
            found.setdefault(parts[0], {})[parts[1]] = int(parts[2])
    return found
