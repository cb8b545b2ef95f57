"""S12: one hit per document."""

from __future__ import annotations

from typing import Any

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError


def long_note(word: str, sections: int) -> str:
    """A note of which every section is a chunk of its own that has the word."""
    body = " ".join(f"filler{number}" for number in range(120))
    return "\n\n".join(
        f"# Section {number}\n\nabout the {word} {body}" for number in range(sections)
    )


@pytest.fixture
def engine(kb_engine: Engine) -> Engine:
    kb_engine.add_note(long_note("harbour", 12), title="long")
    kb_engine.add_note("one harbour", title="short", tags=["small"])
    kb_engine.add_note("a mountain", title="other")
    return kb_engine


def shown(found: dict[str, Any]) -> list[tuple[str, int]]:
    return sorted((hit["title"], hit["more"]) for hit in found["hits"])


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_each_document_is_one_hit_that_says_how_many_more_chunks_match(
    mode: str, engine: Engine
) -> None:
    plain = engine.search("harbour", mode=mode, k=100)
    found = engine.search("harbour", mode=mode, group="document")

    chunks = [hit["title"] for hit in plain["hits"]]
    assert dict(shown(found))["long"] == chunks.count("long") - 1 > 5
    assert dict(shown(found))["short"] == 0
    assert len(found["hits"]) == len({hit["doc_id"] for hit in plain["hits"]})
    # The hit of a document is its best chunk.
    best = {}
    for hit in plain["hits"]:
        best.setdefault(hit["doc_id"], hit["chunk_id"])
    assert {hit["doc_id"]: hit["chunk_id"] for hit in found["hits"]} == best
    assert "more" not in plain["hits"][0]


def test_grouped_hits_have_pages(engine: Engine) -> None:
    whole = engine.search("harbour", mode="lexical", group="document")
    first = engine.search("harbour", mode="lexical", group="document", k=1)
    second = engine.search(
        "harbour", mode="lexical", group="document", k=1, cursor=first["next_cursor"]
    )

    pages = [*first["hits"], *second["hits"]]
    assert [hit["chunk_id"] for hit in pages] == [hit["chunk_id"] for hit in whole["hits"]]
    assert [hit["rank"] for hit in pages] == [1, 2]
    assert second["next_cursor"] is None
    with pytest.raises(EngineError) as refused:
        engine.search("harbour", mode="lexical", k=1, cursor=first["next_cursor"])
    assert refused.value.code == "invalid_cursor"


def test_a_document_with_very_many_matches_does_not_hide_the_others(kb_engine: Engine) -> None:
    # More than the candidates that a retriever is asked for first.
    kb_engine.add_note(long_note("harbour harbour harbour", 180), title="long")
    for number in range(3):
        kb_engine.add_note(f"there is a harbour in a long sentence about {number}", title="short")

    found = kb_engine.search("harbour", mode="lexical", group="document", facets=True)

    assert [hit["title"] for hit in found["hits"]].count("short") == 3
    assert dict(shown(found))["long"] >= 170
    assert found["facets"]["documents"] == 4


def test_filters_apply_to_groups_and_to_their_counts(engine: Engine) -> None:
    found = engine.search("harbour", group="document", tags=["small"])

    assert shown(found) == [("short", 0)]


def test_many_searches_are_grouped_one_by_one(engine: Engine) -> None:
    found = engine.bulk_search(
        [{"query": "harbour", "mode": "lexical", "group": "document"}, {"query": "harbour"}]
    )

    grouped, plain = (item["response"]["hits"] for item in found["results"])
    assert {hit["title"] for hit in grouped} == {"long", "short"}
    assert "more" not in plain[0]
