"""S3, S4: what holds for any text, any page and any budget."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kb_text.api import token_count

from kb_framework.client import Engine
from kb_framework.errors import EngineError

QUICK = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MODES = st.sampled_from(["lexical", "vector", "hybrid"])
SYNTAX = st.sampled_from(
    [
        '"',
        "*",
        "-",
        ":",
        "title:",
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        ")",
        "keys",
        "백업",
        "鍵",
        " ",
        "\\",
        "'",
        "{",
        "^",
        "+",
    ]
)
QUERIES = st.one_of(st.text(max_size=60), st.lists(SYNTAX, max_size=12).map("".join))


@QUICK
@given(QUERIES, MODES, st.booleans())
def test_s4_any_text_is_answered_or_refused_cleanly(
    corpus: Engine, query: str, mode: str, syntax: bool
) -> None:
    try:
        found = corpus.post("/search", {"query": query, "mode": mode, "syntax": syntax})
    except EngineError as refused:
        assert refused.http_status == 400
        assert refused.body["schema_version"] == "error.v1"
        assert refused.body["code"] == "invalid_input"
        assert not query.strip() or syntax or "\x00" in query or has_surrogate(query)
    else:
        assert isinstance(found["hits"], list)


def has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


@QUICK
@given(
    st.sampled_from(["keys", "words", "백업", "keys backups every"]),
    MODES,
    st.integers(1, 7),
    st.one_of(st.none(), st.integers(1, 1500)),
)
def test_s3_paging_visits_each_hit_once_whatever_the_page_and_the_budget(
    corpus: Engine, query: str, mode: str, k: int, max_tokens: int | None
) -> None:
    options: dict[str, Any] = {"query": query, "mode": mode}
    whole = [hit["chunk_id"] for hit in corpus.search(**options, k=100)["hits"]]
    seen, cursor = [], None
    while True:
        page = corpus.search(**options, k=k, max_tokens=max_tokens, cursor=cursor)
        seen += [hit["chunk_id"] for hit in page["hits"]]
        assert len(page["hits"]) <= k
        if max_tokens is not None:
            assert (
                token_count(json.dumps(page, ensure_ascii=False)) <= max_tokens
                or len(page["hits"]) <= 1
            )
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == whole


@QUICK
@given(
    st.lists(
        st.builds(dict, query=st.sampled_from(["keys", "백업", "every", ""]), k=st.integers(0, 9)),
        max_size=8,
    ),
    st.integers(1, 4000),
)
def test_s7_the_budget_of_many_is_kept(
    corpus: Engine, queries: list[dict[str, Any]], max_tokens: int
) -> None:
    found = corpus.bulk_search(queries, max_tokens=max_tokens)
    hits = [
        hit for item in found["results"] if item["response"] for hit in item["response"]["hits"]
    ]
    wrong = sum(token_count(json.dumps(item)) for item in found["results"] if item["error"])

    # What says that a query failed is always sent; beyond it there is at most the one hit that stays.
    assert (
        token_count(json.dumps(found, ensure_ascii=False)) <= max_tokens + wrong or len(hits) <= 1
    )


SEARCHES = st.fixed_dictionaries(
    {
        "query": st.sampled_from(
            [
                "keys",
                "백업",
                "every backups",
                "access keys -backup",
                '"access keys" rotat*',
                "title:keys",
                "鍵",
            ]
        )
    },
    optional={
        "mode": MODES,
        "k": st.integers(0, 12),
        "snippet_chars": st.sampled_from([20, 60, 300]),
        "max_tokens": st.sampled_from([1, 400, 2000]),
        "syntax": st.booleans(),
        "facets": st.booleans(),
        "trace": st.booleans(),
        "tags": st.sampled_from([["ops"], ["ops", "backup"], []]),
        "tags_match": st.sampled_from(["any", "all"]),
        "lang": st.sampled_from(["en", "ko"]),
        "path_glob": st.sampled_from(["**/*.md", "nowhere/**"]),
        "trust_min": st.sampled_from(["primary", "generated", "best"]),
        "media": st.sampled_from([["markdown"], ["text"], ["foo"]]),
    },
)


@settings(QUICK, max_examples=25)
@given(st.lists(SEARCHES, min_size=1, max_size=8))
def test_s7_many_searches_answer_as_each_alone(
    corpus: Engine, searches: list[dict[str, Any]]
) -> None:
    """Whatever they have in common or not; and their next pages too."""
    for _ in range(2):
        items = corpus.bulk_search(searches)["results"]
        following = []
        for search, item in zip(searches, items, strict=True):
            try:
                alone = corpus.post("/search", search)
            except EngineError as refused:
                assert item["error"] == refused.body
                continue
            assert _without_times(item["response"]) == _without_times(alone)
            if alone["next_cursor"]:
                following.append({**search, "cursor": alone["next_cursor"]})
        searches = following


def _without_times(response: dict[str, Any]) -> dict[str, Any]:
    return {
        **response,
        "trace": response["trace"]
        and {**response["trace"], "milliseconds": sorted(response["trace"]["milliseconds"])},
    }


@settings(QUICK, max_examples=8)
@given(
    st.lists(
        st.sampled_from(["alpha", "beta", "백업 정책", "gamma delta"]), min_size=1, max_size=4
    ),
    st.integers(0, 3),
)
def test_s4_a_deleted_document_is_gone_from_every_mode_at_once(
    kb_engine: Engine, texts: list[str], which: int
) -> None:
    numbers = [
        kb_engine.add_note(f"{text} {number}")["document"]["id"]
        for number, text in enumerate(texts)
    ]
    gone = numbers[which % len(numbers)]
    kb_engine.delete_document(gone)

    for query in (texts[which % len(texts)], "alpha beta 백업"):
        for mode in ("lexical", "vector", "hybrid"):
            assert gone not in {
                hit["doc_id"] for hit in kb_engine.search(query, mode=mode, k=100)["hits"]
            }
    for number in numbers:
        if number != gone:
            kb_engine.delete_document(number)
