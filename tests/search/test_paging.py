"""S3: cursors and budgets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kb_text.api import token_count

from kb_framework.client import Engine
from kb_framework.errors import EngineError

MODES = ("lexical", "vector", "hybrid")


@pytest.fixture(scope="module")
def pile(corpus: Engine) -> Engine:
    """More documents than a retriever is first asked for."""
    for number in range(130):
        corpus.add_note(
            f"pile of stones {number % 7} " + "and gravel " * (number % 5 * 20),
            title=f"stone {number}",
        )
    return corpus


def pages(engine: Engine, **options: Any) -> list[dict[str, Any]]:
    found, cursor = [], None
    while True:
        found.append(engine.search(cursor=cursor, **options))
        cursor = found[-1]["next_cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("mode", MODES)
def test_s3_paging_visits_each_hit_once_and_in_order(pile: Engine, mode: str) -> None:
    found = pages(pile, query="stones", mode=mode, k=40)

    hits = [hit for page in found for hit in page["hits"]]
    ids = [hit["chunk_id"] for hit in hits]
    assert len(ids) == len(set(ids)) >= 130
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    assert {hit["title"] for hit in hits} >= {f"stone {number}" for number in range(130)}
    again = [
        hit["chunk_id"]
        for page in pages(pile, query="stones", mode=mode, k=100)
        for hit in page["hits"]
    ]
    assert again == ids


def test_s3_the_size_of_a_page_may_change_on_the_way(pile: Engine) -> None:
    first = pile.search("stones", k=3)
    second = pile.search(
        "stones", k=7, cursor=first["next_cursor"], snippet_chars=50, trace=True, facets=True
    )

    whole = pile.search("stones", k=10)
    assert [hit["chunk_id"] for hit in first["hits"] + second["hits"]] == [
        hit["chunk_id"] for hit in whole["hits"]
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"query": "gravel"},
        {"mode": "lexical"},
        {"tag": ["ops"]},
        {"tags": ["ops"]},
        {"lang": "en"},
        {"path_glob": "**"},
        {"trust_min": "generated"},
        {"media": ["markdown"]},
        {"ingested_after": "2020-01-01"},
        {"doc_id": 1},
        {"doc_type": "note"},
        {"syntax": True},
    ],
    ids=str,
)
def test_s3_a_cursor_belongs_to_its_query_filters_and_mode(
    pile: Engine, other: dict[str, Any]
) -> None:
    cursor = pile.search("stones", k=1)["next_cursor"]

    with pytest.raises(EngineError) as refused:
        pile.search(**{"query": "stones", "k": 1, "cursor": cursor, **other})

    assert (refused.value.http_status, refused.value.code) == (400, "invalid_cursor")


def test_s3_a_cursor_cannot_be_changed_or_made_up(pile: Engine) -> None:
    cursor = pile.search("stones", k=1)["next_cursor"]
    assert isinstance(cursor, str)
    changed = [
        cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        for place in range(len(cursor))
    ]

    for text in [
        *changed,
        "x",
        cursor[:-1],
        cursor + "A",
        cursor + "====",
        cursor + "\n",
        "🙂",
        "A" * len(cursor),
        " " + cursor,
    ]:
        with pytest.raises(EngineError) as refused:
            pile.post("/search", {"query": "stones", "k": 1, "cursor": text})
        assert (refused.value.http_status, refused.value.code) == (400, "invalid_cursor"), text


def test_s3_an_empty_cursor_is_none_and_gives_the_first_page(pile: Engine) -> None:
    first = pile.post("/search", {"query": "stones", "k": 1})

    assert pile.post("/search", {"query": "stones", "k": 1, "cursor": ""}) == first


def test_s3_a_cursor_is_stale_once_a_document_changed(kb_engine: Engine) -> None:
    numbers = [kb_engine.add_note(f"stone {number}")["document"]["id"] for number in range(3)]
    changes = [
        lambda: kb_engine.add_note("another stone"),
        lambda: kb_engine.set_document_tags(numbers[0], ["x"]),
        lambda: kb_engine.update_document(numbers[0], title="other"),
        lambda: kb_engine.delete_document(numbers[1]),
    ]
    for change in changes:
        cursor = kb_engine.search("stone", k=1)["next_cursor"]
        assert kb_engine.search("stone", k=1, cursor=cursor)["hits"]

        change()

        with pytest.raises(EngineError) as refused:
            kb_engine.search("stone", k=1, cursor=cursor)
        assert (refused.value.http_status, refused.value.code) == (409, "stale_cursor")
        assert refused.value.hint


def test_s3_the_last_page_has_no_cursor(pile: Engine) -> None:
    assert pile.search("backups", mode="lexical", k=100)["next_cursor"] is None
    assert pile.search("nosuchword", mode="lexical")["next_cursor"] is None


def cost(answer: dict[str, Any]) -> int:
    return token_count(json.dumps(answer, ensure_ascii=False))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_tokens", [1, 50, 400, 900, 1500, 2500, 10_000])
def test_s3_a_budget_is_kept_but_for_the_one_hit_that_stays(
    pile: Engine, mode: str, max_tokens: int
) -> None:
    free = pile.search("gravel stones", mode=mode, k=10)
    found = pile.search("gravel stones", mode=mode, k=10, max_tokens=max_tokens)

    assert found["hits"]
    assert cost(found) <= max_tokens or len(found["hits"]) == 1
    assert found["truncated"] == (found["hits"] != free["hits"])
    assert [hit["chunk_id"] for hit in found["hits"]] == [hit["chunk_id"] for hit in free["hits"]][
        : len(found["hits"])
    ]


def test_s3_snippets_are_shortened_before_hits_are_dropped(pile: Engine) -> None:
    free = pile.search("gravel", k=10, snippet_chars=800)
    little_less = pile.search("gravel", k=10, snippet_chars=800, max_tokens=cost(free) - 200)

    assert len(little_less["hits"]) == 10
    assert little_less["truncated"]
    assert sum(len(hit["snippet"]) for hit in little_less["hits"]) < sum(
        len(hit["snippet"]) for hit in free["hits"]
    )


def test_s3_paging_goes_on_after_the_last_hit_that_was_kept(pile: Engine) -> None:
    found = pages(pile, query="gravel", mode="lexical", k=10, max_tokens=900)

    ids = [hit["chunk_id"] for page in found for hit in page["hits"]]
    whole = [
        hit["chunk_id"]
        for page in pages(pile, query="gravel", mode="lexical", k=100)
        for hit in page["hits"]
    ]
    assert ids == whole


def test_s3_a_trace_shows_both_lists_the_fusion_and_the_time(pile: Engine) -> None:
    found = pile.search("stones", trace=True, k=3)

    trace = found["trace"]
    assert set(trace["lists"]) == {"lexical", "vector"}
    assert [item["rank"] for item in trace["lists"]["lexical"]] == list(
        range(1, len(trace["lists"]["lexical"]) + 1)
    )
    assert [item["chunk_id"] for item in trace["fusion"][:3]] == [
        hit["chunk_id"] for hit in found["hits"]
    ]
    assert {"lexical", "vector", "total"} <= set(trace["milliseconds"])
    assert trace["degraded"] == {}
    assert pile.search("stones")["trace"] is None
