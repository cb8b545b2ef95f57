"""A first search: words, meaning, both, in any script."""

from __future__ import annotations

import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError


def found(engine: Engine, query: str, **options) -> list[str]:
    return [hit["title"] for hit in engine.search(query, **options)["hits"]]


def test_words_are_found_and_the_hit_says_where(kb_engine: Engine) -> None:
    kb_engine.add_file(
        "ops/keys.md",
        b"# Ops\n\n## Keys\n\nAccess keys are rotated every 90 days.\n",
        path="ops/keys.md",
    )
    kb_engine.add_note("Lunch is at noon.")

    hit = kb_engine.search("rotated keys")["hits"][0]

    assert hit["doc_path"] == "ops/keys.md"
    assert hit["citation"] == "ops/keys.md#L1-L5"
    assert hit["heading_path"] == ["Ops", "Keys"]
    assert "rotated every 90 days" in hit["snippet"]
    assert hit["retrieval"]["lexical_rank"] == 1


def test_meaning_is_found_without_the_word(kb_engine: Engine) -> None:
    kb_engine.add_note("The physician examined the patient.", title="clinic")
    kb_engine.add_note("The ship left the harbour.", title="harbour")

    assert found(kb_engine, "doctor", mode="vector")[0] == "clinic"
    assert found(kb_engine, "doctor", mode="lexical") == []


@pytest.mark.parametrize("query", ["백업", "업은", "백", "バックアップ", "备份", "ﾊﾞｯｸｱｯﾌﾟ"])
def test_words_are_found_inside_text_without_spaces(kb_engine: Engine, query: str) -> None:
    kb_engine.add_note("백업은 매일 실행된다", title="hit-백")
    kb_engine.add_note("毎晩バックアップを取る", title="hit-バ")
    kb_engine.add_note("每天晚上备份数据", title="hit-备")

    assert len(found(kb_engine, query, mode="lexical")) == 1


def test_composed_and_decomposed_text_is_the_same(kb_engine: Engine) -> None:
    import unicodedata

    kb_engine.add_note("냉장고와 café")

    for query in ("냉장고", "café"):
        assert found(kb_engine, unicodedata.normalize("NFD", query), mode="lexical")


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '"a',
        "*",
        "a*",
        "AND",
        "NEAR(",
        "a AND b",
        "-x",
        "col:x",
        "()",
        "🙂",
        "x" * 10_000,
        "a" * 9 + " b" * 4000,
    ],
)
@pytest.mark.parametrize("mode", ["lexical", "vector", "hybrid"])
def test_no_text_is_query_syntax_by_accident(kb_engine: Engine, query: str, mode: str) -> None:
    kb_engine.add_note("a b c NEAR AND")

    assert "hits" in kb_engine.search(query, mode=mode)


def test_deleting_a_document_removes_it_from_every_mode(kb_engine: Engine) -> None:
    number = kb_engine.add_note("ephemeral words")["document"]["id"]
    kb_engine.delete_document(number)

    for mode in ("lexical", "vector", "hybrid"):
        assert found(kb_engine, "ephemeral words", mode=mode) == []


def test_a_document_is_found_by_its_new_title(kb_engine: Engine) -> None:
    number = kb_engine.add_note("plain words", title="Zebra")["document"]["id"]
    kb_engine.update_document(number, title="Giraffe")

    assert found(kb_engine, "giraffe", mode="lexical") == ["Giraffe"]
    assert found(kb_engine, "zebra", mode="lexical") == []


def test_filters_apply_before_the_best_are_cut(kb_engine: Engine) -> None:
    for number in range(12):
        kb_engine.add_note(f"alpha alpha alpha {number}", title=f"plain {number}")
    kb_engine.add_note("alpha once", title="tagged", tags=["rare"])

    for mode in ("lexical", "vector", "hybrid"):
        assert found(kb_engine, "alpha", mode=mode, k=1, tags=["rare"]) == ["tagged"]


def test_a_search_error_is_error_v1(kb_engine: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        kb_engine.post("/search", {"query": "x", "k": 0})

    assert refused.value.body["schema_version"] == "error.v1"
    assert refused.value.body["code"] == "invalid_input"
    assert refused.value.body["details"]["field"] == "k"
