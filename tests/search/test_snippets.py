"""S2: a snippet is cut from the original text, at words, and shows why it was found."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kb_search.snippet import Matcher, cut_snippet
from kb_text.api import Text

FILLER = "other words that say nothing about it and go on for a while "


def snippet(text: str, query: str, length: int = 100) -> str:
    return cut_snippet(text, Matcher(query).find(Text(text)), length)


@pytest.mark.parametrize(
    ("sentence", "query", "shown"),
    [
        (
            "Access keys are rotated every 90 days.",
            "how often are keys rotated",
            "keys are rotated",
        ),
        ("The rotation of access keys.", "rotated", "rotation"),
        ("Our policies say so.", "policy", "policies"),
        ("The CAFÉ is open.", "cafe", "CAFÉ"),
        ("백업정책은 매일 실행된다", "백업", "백업정책은"),
        (
            unicodedata.normalize("NFD", "백업정책은 매일 실행된다"),
            "백업",
            unicodedata.normalize("NFD", "백업정책은"),
        ),
        ("毎晩バックアップを取る", "バックアップ", "バックアップ"),
        ("毎晩ﾊﾞｯｸｱｯﾌﾟを取る", "バックアップ", "ﾊﾞｯｸｱｯﾌﾟ"),
        ("每天晚上备份数据", "备份", "备份"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ words", "width", "Ｗｉｄｔｈ"),
    ],
)
def test_s2_the_snippet_shows_the_match_as_it_was_written(
    sentence: str, query: str, shown: str
) -> None:
    text = FILLER * 20 + sentence + " " + FILLER * 20
    found = snippet(text, query)

    assert shown in found
    assert found.strip("…") in text
    assert len(found) <= 100


def test_s2_the_snippet_has_most_of_the_query_not_its_first_word() -> None:
    text = "keys " + FILLER * 20 + "the keys are rotated by the vault" + FILLER * 20

    assert "rotated by the vault" in snippet(text, "keys rotated vault")


def test_s2_the_snippet_begins_and_ends_with_whole_words() -> None:
    text = FILLER * 20 + "needle " + FILLER * 20
    words = set(text.split())

    for length in range(30, 200):
        found = snippet(text, "needle", length)
        assert found.startswith("…")
        assert found.endswith("…")
        assert set(found.strip("…").split()) <= words


def test_s2_a_short_text_is_its_own_snippet() -> None:
    assert snippet("A few words.", "few") == "A few words."


def test_s2_a_text_without_the_words_shows_its_beginning() -> None:
    assert snippet(FILLER * 20, "zebra stripes").startswith("other words")


@settings(max_examples=300)
@given(st.text(max_size=400), st.text(max_size=40), st.integers(20, 300))
def test_s2_any_text_gives_a_part_of_itself(text: str, query: str, length: int) -> None:
    found = snippet(text, query, length)

    assert len(found) <= max(length, 1)
    inner = found.removeprefix("…").removesuffix("…")
    assert found in text or inner in text
    for start, end, _ in Matcher(query).find(Text(text)):
        assert 0 <= start < end <= len(text)


def test_s2_several_queries_over_the_same_texts_find_what_each_finds_alone() -> None:
    """Words are learnt as texts come, and a matcher remembers what it found among those that were known."""
    texts = [
        "The rotation of keys",
        "policies rotate",
        "Der Schlüssel und die Rotation sind nicht hier",
        "백업정책은 매일",
        "keys",
    ]
    queries = ["rotated keys", "policy", "Schlüssel rotieren", "백업", "nothing of it"]
    together = [Matcher(query) for query in queries]
    shared = [Text(text) for text in texts]

    for text, words in zip(texts, shared, strict=True):
        for query, matcher in zip(queries, together, strict=True):
            assert matcher.find(words) == Matcher(query).find(Text(text))


def test_s2_a_passage_in_another_language_than_its_document_shows_what_was_found() -> None:
    text = (
        "Der Vertrag und die Fristen sind nicht neu. " * 30 + "Die Kündigungen sind auch nicht alt."
    )
    found = Matcher("Kündigung").find(Text(text, "en"))
    assert [text[start:end] for start, end, _ in found] == ["Kündigungen"]
