"""S4: text is never syntax by accident; the query language, for those who ask for it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kb_search.syntax import parse

from kb_framework.api.text_query import Expression, Term
from kb_framework.client import Engine
from kb_framework.errors import EngineError, InvalidInput


def found(engine: Engine, query: str, **options: Any) -> set[str]:
    return {hit["title"] for hit in engine.search(query, syntax=True, k=100, **options)["hits"]}


@pytest.mark.parametrize(
    ("query", "wanted", "unwanted"),
    [
        ("keys", [Term("keys")], []),
        ("keys vault", [Term("keys"), Term("vault")], []),
        ('"access keys"', [Term("access keys")], []),
        ("key*", [Term("key", prefix=True)], []),
        ('"access ke"*', [Term("access ke", prefix=True)], []),
        ("keys -vault", [Term("keys")], [Term("vault")]),
        ('keys -"the vault"', [Term("keys")], [Term("the vault")]),
        ("keys -title:vault", [Term("keys")], [Term("vault", field="title")]),
        ("title:keys", [Term("keys", field="title")], []),
        ('Title:"access keys"', [Term("access keys", field="title")], []),
        ("title:key*", [Term("key", prefix=True, field="title")], []),
        ("state-of-the-art", [Term("state-of-the-art")], []),
        ('a"b c"', [Term("a"), Term("b c")], []),
        ("AND", [Term("AND")], []),
        ("  keys\t\n", [Term("keys")], []),
    ],
)
def test_s4_a_query_is_read_as_it_is_documented(
    query: str, wanted: list[Term], unwanted: list[Term]
) -> None:
    assert parse(query).expression == Expression(tuple(wanted), tuple(unwanted))


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ('keys "vault', 5),
        ('""', 0),
        ('keys "?!"', 5),
        ("-", 0),
        ("keys - vault", 5),
        ("-vault", 0),
        ("*", 0),
        ("ke*ys", 2),
        ("keys **", 5),
        ("foo:bar", 0),
        ("keys title:", 5),
        ("keys title: x", 5),
        ("keys title:!", 11),
        ("keys ???", 5),
        (":x", 0),
    ],
)
def test_s4_an_error_points_at_its_position(query: str, position: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(query)

    assert refused.value.details == {"field": "query", "position": position}
    assert f"position {position + 1}," in refused.value.message
    assert "»" + query[position:] in refused.value.message


def test_s4_an_error_of_the_language_is_400_over_http(corpus: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        corpus.search('"never closed', syntax=True)

    assert (refused.value.http_status, refused.value.code) == (400, "invalid_input")
    assert refused.value.details["position"] == 0


@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"access keys"', {"Keys"}),
        ('"keys access"', set()),
        ("keys vault", {"Backups"}),
        ("keys rotat*", {"Keys"}),
        ("title:keys", {"Keys", "keys.txt"}),
        ("title:keys -plain", {"Keys"}),
        ("백업", {"백업"}),
        ("업정책", {"백업"}),
        ('"백업정책은 매일"', {"백업"}),
        ('"매일 백업정책"', set()),
        ("백", {"백업"}),
        ("백업 -실행", set()),
        ("バックアップ -鍵", set()),
        ("バックアップ 鍵", {"バックアップ"}),
        ('"毎晩バック"', {"バックアップ"}),
        ("nosuchword", set()),
    ],
)
def test_s4_what_matches_is_found_in_every_mode_and_nothing_else(
    corpus: Engine, mode: str, query: str, expected: set[str]
) -> None:
    assert found(corpus, query, mode=mode) == expected


@pytest.mark.parametrize(
    "query",
    ['"access keys"', "keys -vault", "title:keys", "rotat*", "NEAR(keys)", "keys AND NOT vault"],
)
def test_s4_without_being_asked_for_the_language_is_plain_text(corpus: Engine, query: str) -> None:
    plain = re.sub(r"\W+", " ", query)

    marked = [hit["chunk_id"] for hit in corpus.search(query, mode="lexical")["hits"]]
    assert marked == [hit["chunk_id"] for hit in corpus.search(plain, mode="lexical")["hits"]]


def test_s4_ten_thousand_characters_are_searched_and_one_more_is_refused(corpus: Engine) -> None:
    corpus.search("keys " * 2000)
    with pytest.raises(EngineError) as refused:
        corpus.search("k" * 10_001)
    assert refused.value.http_status == 400
