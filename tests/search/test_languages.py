"""Text in a language that the embedder does not know is found by its words, and a better model is suggested."""

from __future__ import annotations

import pytest
from kb_text.api import language_of

from kb_framework.client import Engine, connect

KOREAN = [
    "냉장고는 매주 금요일 오후에 모두 함께 청소한다",
    "회의실은 하루 전에 예약해야 쓸 수 있습니다",
    "백업은 매일 밤 두 시에 실행되고 삼십 일 동안 보관된다",
    "새로운 직원은 첫날에 노트북과 계정을 받는다",
    "출장비는 돌아온 뒤에 영수증을 내면 지급된다",
    "장애가 나면 담당자가 십오 분 안에 응답한다",
]
ENGLISH = [
    f"The people of department {number} meet on the first day of the month to talk about the work"
    for number in range(12)
]


def hint(engine: Engine, query: str, **options) -> str | None:
    return engine.search(query, **options)["hint"]


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("what is the matter", "en"),
        ("kubernetes", None),
        ("Kubernetes 배포 방법", "ko"),
        ("梅雨とは何", "ja"),
        ("梅雨季节", "zh"),
        ("где дом", "ru"),
        ("Wo ist die Katze", "de"),
        ("où est la bibliothèque", "fr"),
        ("42", None),
    ],
)
def test_the_language_of_a_question_is_told(query: str, language: str | None) -> None:
    assert language_of(query) == language


def test_a_model_for_the_language_is_suggested_where_much_is_in_it(kb_engine: Engine) -> None:
    for text in KOREAN:
        kb_engine.add_note(text)

    said = hint(kb_engine, "냉장고 청소")
    assert (
        said
        and "kb models install multilingual" in said
        and "kb config set embedder multilingual" in said
        and "'ko'" in said
    )
    assert hint(kb_engine, "what is the fridge") is None
    assert hint(kb_engine, "냉장고 청소", mode="lexical") is None
    checks = {
        check["message"]
        for check in kb_engine.get("/doctor")["checks"]
        if check["name"] == "embedder"
    }
    assert any("multilingual" in message for message in checks)


def test_nobody_is_nagged_in_an_english_base(kb_engine: Engine) -> None:
    for text in [*ENGLISH, KOREAN[0]]:
        kb_engine.add_note(text)

    assert hint(kb_engine, "냉장고 청소") is None
    assert all(check["name"] != "embedder" for check in kb_engine.get("/doctor")["checks"])


def test_the_advice_follows_what_is_added(kb_engine: Engine) -> None:
    for text in ENGLISH[:2]:
        kb_engine.add_note(text)
    assert hint(kb_engine, "냉장고") is None

    for text in KOREAN:
        kb_engine.add_note(text)

    assert hint(kb_engine, "냉장고")


def test_vectors_of_another_language_do_not_outvote_the_words(kb_engine: Engine) -> None:
    for text in [*KOREAN, *ENGLISH]:
        kb_engine.add_note(text)

    for text in KOREAN:
        words = " ".join(text.split()[:2])
        assert kb_engine.search(words)["hits"][0]["snippet"] == text


def test_an_embedder_that_names_no_languages_knows_them_all(
    kb_home, kb_plugin, monkeypatch
) -> None:
    kb_plugin(
        "ones",
        "from kb_framework import api, hookimpl\n"
        "import struct\n"
        "class Ones:\n"
        "    model = 'ones'\n"
        "    dimensions = 4\n"
        "    def encode(self, texts):\n"
        "        return [struct.pack('4f', 0.5, 0.5, 0.5, 0.5) for _ in texts]\n"
        "@hookimpl\n"
        "def kb_embedders():\n"
        "    return [api.Embedder('ones', f'{__name__}:Ones')]\n",
    )
    monkeypatch.setenv("KB_EMBEDDER", "ones")
    with connect() as engine:
        for text in KOREAN:
            engine.add_note(text)

        assert hint(engine, "냉장고 청소") is None
