"""How well the default gate of contexts tells relevant hits from others, on questions with known answers and on others.

    python benchmarks/gate.py DATA [--home FOLDER] [--questions 240]

DATA holds `scifact/` (with `train/`) and, for questions that have no answer there, `cranfield/` and `adi/`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

THRESHOLDS = [
    (0.0, 0.0),
    (0.34, 0.0),
    (0.34, 0.2),
    (0.34, 0.3),
    (0.34, 0.4),
    (0.45, 0.3),
    (0.34, 0.5),
]


def lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines()]


def relevant(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        question, document, score = line.split("\t")
        if int(score) > 0:
            found[question].add(document)
    return found


def fill(engine: Any, corpus: Path) -> None:
    if engine.list_documents()["meta"]["total"]:
        return
    for item in lines(corpus):
        engine.add_note(
            item["text"] or item["title"],
            title=item["title"][:900] or None,
            metadata={"cid": item["_id"]},
        )


def judged(
    kb: Any, questions: list[dict[str, Any]], answers: dict[str, set[str]]
) -> list[dict[str, Any]]:
    """Every candidate of every question, with what the gate looks at and whether it is relevant."""
    import sqlalchemy as sa
    from kb_knowledge.gate import coverage, question_words, score_shares

    from kb_framework.api import Actor, RetrievalQuery
    from kb_framework.api.sql import among
    from kb_framework.api.tables import chunks, documents

    found = []
    columns = (chunks.c.seq, chunks.c.content, documents.c.title, documents.c.metadata)
    with kb.store.read() as tx:
        for question in questions:
            query = RetrievalQuery(
                question["text"], Actor(reader="model"), 100, ("lexical", "vector"), "model"
            )
            hits = kb.retrieval.search(query, tx).hits[:20]
            here = sa.select(*columns).join(documents, documents.c.id == chunks.c.document_id)
            rows = {
                row["seq"]: row
                for row in tx.rows(here.where(among(chunks.c.seq, [hit.chunk for hit in hits])))
            }
            words, shares = question_words(question["text"]), score_shares(hits)
            for hit in hits:
                row = rows[hit.chunk]
                found.append(
                    {
                        "question": question["_id"],
                        "relevant": row["metadata"]["cid"] in answers.get(question["_id"], ()),
                        "share": shares[hit.chunk],
                        "cosine": hit.scores.get("vector") or 0.0,
                        "coverage": coverage(words, f"{row['title']}\n{row['content']}"),
                    }
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--home", type=Path, default=None)
    parser.add_argument("--questions", type=int, default=240)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KB_DATA_DIR"] = str(chosen.home or folder)
        from kb_knowledge.settings import KnowledgeSettings

        from kb_framework.app import open_kb
        from kb_framework.client import connect

        with connect() as engine:
            fill(engine, chosen.data / "scifact" / "corpus.jsonl.gz")
        order = random.Random(7)
        answerable = lines(chosen.data / "scifact" / "train" / "queries.jsonl")
        others = [
            item
            for name in ("cranfield", "adi")
            for item in lines(chosen.data / name / "queries.jsonl")
        ]
        order.shuffle(answerable)
        order.shuffle(others)
        kb = open_kb()
        answers = relevant(chosen.data / "scifact" / "train" / "qrels.tsv")
        known = judged(kb, answerable[: chosen.questions], answers)
        unknown = judged(kb, others[: chosen.questions // 2], {})
        kb.close()

    cosine = KnowledgeSettings().gate_cosine
    total = sum(item["relevant"] for item in known)
    print(
        f"{len(known)} candidates of {chosen.questions} questions, {total} relevant ({total / len(known):.1%})"
    )
    print(
        f"{len(unknown)} candidates of {chosen.questions // 2} questions that have no answer there; cosine {cosine:g}"
    )
    print("score  coverage  recall  precision  rejected  kept without an answer")
    for score, covered in THRESHOLDS:

        def passes(item: dict[str, Any], score: float = score, covered: float = covered) -> bool:
            return item["share"] >= score and (
                item["coverage"] >= covered or item["cosine"] >= cosine
            )

        kept = [item for item in known if passes(item)]
        hits = sum(item["relevant"] for item in kept)
        wrong = sum(passes(item) for item in unknown) / len(unknown)
        figures = f"{hits / total:6.3f}  {hits / len(kept):9.3f}  {1 - len(kept) / len(known):8.2f}  {wrong:.3f}"
        print(f"{score:5.2f}  {covered:8.2f}  {figures}")


if __name__ == "__main__":
    main()
