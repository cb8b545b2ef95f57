"""How text becomes words: the same word is found in whatever form, width, composition or script it was written."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kb_text.analysis import (
    _PLACE,
    MAX_TERMS,
    _fold,
    _stems,
    find_terms,
    index_fields,
    is_unspaced,
    normalise,
    phrase_terms,
    query_terms,
)


def matches(text: str, query: str) -> bool:
    indexed = index_fields([text])[0].split(" ")
    return any(
        term in indexed or (prefix and any(token.startswith(term) for token in indexed))
        for term, prefix in query_terms(query)
    )


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The studies were running for years", "study"),
        ("The studies were running for years", "run"),
        ("Die Häuser der Stadt sind nicht alt", "Wo ist das Haus?"),
        ("Die Häuser der Stadt sind nicht alt", "Häuser"),
        ("Die Häuser der Stadt sind nicht alt", "haus"),
        ("Les enfants jouent dans la rue avec les chevaux", "enfant"),
        ("Los gatos duermen en las casas de la ciudad", "gato casa"),
        ("Дома в городе", "дом"),
        ("Ёлка стоит", "елки"),
        ("Οι γάτες", "γατα"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("مُحَمَّد", "محمد"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("백업은 매일 실행된다", "업은"),
        ("毎晩バックアップを取る", "ﾊﾞｯｸｱｯﾌﾟ"),
        ("ＫＢ２０２６", "kb2026"),
        ("Straße", "STRASSE"),
        ("snake_case_name", "case"),
    ],
)
def test_a_word_is_found_in_another_form(text: str, query: str) -> None:
    assert matches(text, query)


@pytest.mark.parametrize(
    ("text", "query"), [("universe", "cat"), ("백업", "업백"), ("バックアップ", "プクバ")]
)
def test_another_word_is_not_found(text: str, query: str) -> None:
    assert not matches(text, query)


@pytest.mark.parametrize("text", ["냉장고와 café", "がぎぐげご", "Ångström", "हिन्दी"])
def test_composed_and_decomposed_are_indexed_the_same(text: str) -> None:
    assert index_fields([unicodedata.normalize("NFD", text)]) == index_fields(
        [unicodedata.normalize("NFC", text)]
    )


def test_a_title_is_read_in_the_language_of_its_text() -> None:
    title, _ = index_fields(["Häuser", "Die Häuser der Stadt sind nicht alt und auch nicht neu"])

    assert len(title.split(" ")) == 2  # the word, and its German stem


def test_english_text_is_indexed_once() -> None:
    assert index_fields(["The quick foxes are jumping over the dogs"]) == [
        "the quick fox are jump over the dog"
    ]


def test_any_verbatim_word_is_found_whatever_the_language_of_the_rest() -> None:
    text = "Die Studie über running shoes und die Häuser von Paris ist nicht alt"

    assert all(matches(text, word) for word in text.split())


def test_a_phrase_has_the_words_side_by_side_in_the_index() -> None:
    for text in (
        "He was running shoes for the team",
        "Die alten Häuser sind auch nicht schön",
        "오늘 백업은 매일",
    ):
        indexed = f" {index_fields([text])[0]} "
        words = " ".join(text.split()[1:3])
        assert any(f" {' '.join(way)} " in indexed for way, _ in phrase_terms(words))


def test_a_phrase_may_end_in_the_beginning_of_a_word() -> None:
    assert phrase_terms("old running", prefix=True) == [
        (["old", "run"], False),
        (["old", "running"], True),
    ]
    assert phrase_terms("old runn", prefix=True) == [(["old", "runn"], True)]
    assert phrase_terms("백") == [(["백"], True)]
    assert phrase_terms("?!") == []


def test_terms_are_pointed_out_in_the_text_as_it_was_written() -> None:
    text = "Zwei Studies, cafe\u0301 und 백업은"
    places = {text[start:end] for start, end, _ in find_terms(text, query_terms("study café 백업"))}

    assert places == {"Studies", "cafe\u0301", "백업"}


def test_words_that_only_make_a_sentence_are_not_asked_for() -> None:
    assert query_terms("What are the causes of it?") == [("caus", False), ("causes", False)]
    assert ("who", False) in query_terms("the who")
    assert query_terms("열이 치료되나요?") == [(pair, False) for pair in ("열이", "치료")]
    assert query_terms("나요") == [("나요", False)]


@pytest.mark.parametrize(
    ("word", "pairs"),
    [
        ("서울에서의", ["서울"]),
        ("도시들은", ["도시"]),
        ("정복했던", ["정복"]),
        ("대통령이었습니까", ["대통", "통령"]),
        # Too short to tell an ending from the word itself, and words that only end alike
        ("회의", ["회의"]),
        ("하와이", ["하와"]),
        ("세종대왕", ["세종", "종대", "대왕"]),
    ],
)
def test_of_a_korean_word_in_a_question_the_ending_does_not_count(
    word: str, pairs: list[str]
) -> None:
    assert query_terms(word) == [(pair, False) for pair in pairs]


def test_a_title_made_of_the_first_words_is_not_counted_twice() -> None:
    assert index_fields(["Fever is a…", "", "Fever is a rise of temperature"])[0] == ""
    assert index_fields(["Fever is a rise", "", "Fever is a rise\n"])[0] == ""
    assert index_fields(["Fever", "", "Fever is a rise of temperature"])[0] == "fever"
    assert index_fields(["Fever", "", "# Fever\n\nA rise of temperature"])[0] == "fever"


@given(st.text())
def test_any_text_finds_itself(text: str) -> None:
    terms = query_terms(text)
    tokens = {token for token in index_fields([text])[0].split(" ") if token}

    assert len(terms) <= MAX_TERMS
    assert bool(terms) == bool(tokens)
    if terms and len(terms) < MAX_TERMS:
        assert any(
            term in tokens or (prefix and any(t.startswith(term) for t in tokens))
            for term, prefix in terms
        )


def test_which_words_a_text_has_does_not_depend_on_the_texts_before_it() -> None:
    texts = [
        "Runs and running runners",
        "Häuser und die Häuser der Stadt",
        "running die Häuser 백업 and runs",
    ]
    asked = query_terms("run Häuser 백업")
    first = [list(find_terms(text, asked)) for text in texts]

    assert [list(find_terms(text, asked)) for text in reversed(texts)] == first[::-1]
    assert {texts[0][start:end] for start, end, _ in first[0]} == {"Runs", "running"}


LETTERS = "abeysz-_'?. \n“—éäßΩα\u0301ﬁ²０Ａ한국日本ｶﾞ\u0e01\u0e33"


@given(st.text(LETTERS, max_size=60), st.text("abeysz éäΩ한국日本", min_size=1, max_size=12))
def test_words_are_pointed_out_where_they_stand(text: str, query: str) -> None:
    """Whatever else is around them: told by looking at every word of the text alone."""
    terms = query_terms(query)
    found = {(start, end) for start, end, _ in find_terms(text, terms)}
    places = [
        (place.start(), place.end(), normalise(place.group())) for place in _PLACE.finditer(text)
    ]

    asked = {term for term, prefix in terms if not prefix}
    plain = {(start, end) for start, end, word in places if not is_unspaced(word)}
    # Stems of other languages than English depend on the language of the whole text.
    alone = {
        (start, end)
        for start, end, word in places
        if not is_unspaced(word) and {_fold(word), *_stems([word], "english")} & asked
    }
    assert alone <= found
    for start, end in found - plain:
        assert any(
            begin <= start and end <= last and is_unspaced(word) for begin, last, word in places
        )
