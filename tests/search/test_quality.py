"""Search does not get worse: measured on small parts of collections with known answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kb_search.evaluation import Collection, fill, load_collection, measure

from kb_framework.client import Engine

SHARED = Path(__file__).parents[3] / "shared" / "data"


def everything(items, _):
    return items


def figures(engine: Engine, collection: Collection) -> dict[str, float]:
    ids = fill(engine, collection, everything)
    return {
        mode: measure(engine, collection, ids, mode, everything).ndcg
        for mode in ("lexical", "vector", "hybrid")
    }


def part(folder: Path, queries: int, others: int) -> Collection:
    """The first queries with the documents that answer them, among some others."""
    if not folder.is_dir():
        pytest.skip(f"the collection {folder.name} is not here")
    whole = load_collection(folder)
    asked = whole.queries[:queries]
    wanted = {name for query in asked for name in query.relevant}
    documents = [
        d for number, d in enumerate(whole.documents) if d["_id"] in wanted or number < others
    ]
    return replace(whole, documents=documents, queries=asked)


def test_the_projects_own_collection(kb_engine: Engine) -> None:
    found = figures(kb_engine, load_collection(Path(__file__).parent / "collection"))

    assert found["lexical"] > 0.8
    assert found["hybrid"] >= max(found["lexical"], found["vector"]) - 0.002


def test_adi(kb_engine: Engine) -> None:
    found = figures(kb_engine, part(SHARED / "adi", 35, 82))

    assert found["lexical"] >= 0.489
    assert found["hybrid"] >= max(found["lexical"], found["vector"]) - 0.002


def test_a_part_of_scifact(kb_engine: Engine) -> None:
    found = figures(kb_engine, part(SHARED / "scifact", 60, 150))

    assert found["hybrid"] >= max(found["lexical"], found["vector"]) - 0.002


@pytest.mark.above_the_store("about the embedder")
@pytest.mark.parametrize("name", ["ko-strategyqa-facts", "jsquad"])
def test_the_english_embedder_does_no_harm_to_other_languages(kb_engine: Engine, name: str) -> None:
    found = figures(kb_engine, part(SHARED / name, 60, 150))

    assert found["lexical"] > 0.8
    assert found["hybrid"] >= found["lexical"] - 0.005
