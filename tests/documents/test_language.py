"""The language of a text, by script, by words, by a model."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kb_text.language import detect

SHARED = Path(os.environ.get("KB_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")

TEXTS = {
    "en": "The committee has decided that the report will be published at the end of the month, together with the figures.",
    "de": "Der Ausschuss hat beschlossen, dass der Bericht am Ende des Monats zusammen mit den Zahlen veröffentlicht wird.",
    "fr": "Le comité a décidé que le rapport sera publié à la fin du mois, avec les chiffres de l'année dernière.",
    "es": "El comité ha decidido que el informe se publicará a finales de mes, junto con las cifras del año pasado.",
    "it": "Il comitato ha deciso che la relazione sarà pubblicata alla fine del mese, insieme ai dati dello scorso anno.",
    "pt": "O comitê decidiu que o relatório será publicado no final do mês, juntamente com os números do ano passado.",
    "nl": "De commissie heeft besloten dat het rapport aan het einde van de maand samen met de cijfers wordt gepubliceerd.",
    "sv": "Kommittén har beslutat att rapporten ska publiceras i slutet av månaden tillsammans med siffrorna för förra året.",
    "pl": "Komitet zdecydował, że raport zostanie opublikowany pod koniec miesiąca wraz z danymi za ubiegły rok.",
    "cs": "Výbor rozhodl, že zpráva bude zveřejněna na konci měsíce společně s údaji za minulý rok a s přílohami.",
    "hu": "A bizottság úgy döntött, hogy a jelentést a hónap végén teszik közzé a tavalyi év adataival együtt.",
    "fi": "Valiokunta on päättänyt, että raportti julkaistaan kuun lopussa yhdessä viime vuoden lukujen kanssa.",
    "tr": "Komite, raporun geçen yılın rakamlarıyla birlikte ay sonunda yayımlanmasına karar verdi ve bunu duyurdu.",
    "vi": "Ủy ban đã quyết định rằng báo cáo sẽ được công bố vào cuối tháng cùng với các số liệu của năm ngoái.",
    "ko": "위원회는 보고서를 월말에 작년 수치와 함께 발표하기로 결정했다.",
    "ja": "委員会は、報告書を昨年の数字とともに月末に公表することを決定した。",
    "zh": "委员会决定在月底公布该报告以及去年的数据。",
    "ru": "Комитет решил, что отчёт будет опубликован в конце месяца вместе с данными за прошлый год.",
    "uk": "Комітет вирішив, що звіт буде опубліковано наприкінці місяця разом із даними за минулий рік.",
    "bg": "Комитетът реши, че докладът ще бъде публикуван в края на месеца заедно с данните за миналата година.",
    "el": "Η επιτροπή αποφάσισε ότι η έκθεση θα δημοσιευθεί στο τέλος του μήνα.",
    "th": "คณะกรรมการตัดสินใจว่าจะเผยแพร่รายงานในช่วงปลายเดือน",
    "ar": "قررت اللجنة نشر التقرير في نهاية الشهر مع أرقام العام الماضي.",
    "fa": "کمیته تصمیم گرفت که گزارش در پایان ماه همراه با ارقام سال گذشته منتشر شود.",
    "he": "הוועדה החליטה כי הדוח יפורסם בסוף החודש יחד עם נתוני השנה שעברה.",
    "hi": "समिति ने निर्णय लिया कि रिपोर्ट महीने के अंत में प्रकाशित की जाएगी।",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_sentence_is_enough(language: str):
    assert detect(TEXTS[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12345 67890",
        "Kubernetes",
        "ok, done",
        "x = {}; y = [1, 2]; for (i = 0; i < 10; i++) { f(x[i], y) }; return x_1 + y_2 * 3;",
        "a1b2c3d4e5f6 " * 40,
    ],
)
def test_too_little_text_and_code_have_no_language(text: str):
    assert detect(text) is None


def test_a_korean_text_full_of_english_names_is_korean():
    assert (
        detect(
            "Kubernetes 클러스터에서 Deployment 리소스와 ReplicaSet 컨트롤러를 사용하여 Pod 를 관리한다."
        )
        == "ko"
    )


def test_an_english_text_with_a_japanese_name_is_english():
    assert detect(TEXTS["en"] + " It was translated by 山田さん.") == "en"


def test_a_japanese_title_in_han_beside_some_kana_is_japanese():
    assert detect("東京都千代田区永田町国会議事堂前駅の案内") == "ja"


def test_english_and_telling_scripts_do_not_load_the_model():
    known = ["en", "ko", "ja", "ru"]
    code = (
        "import sys; from kb_text.language import detect; "
        f"assert [detect(text) for text in {[TEXTS[language] for language in known]!r}] == {known!r}; "
        "sys.exit('py3langid' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_document_takes_milliseconds():
    texts = [text * 200 for text in TEXTS.values()]
    for text in texts:
        detect(text)
    started = time.process_time()
    for text in texts * 4:
        detect(text)
    # It is 0.3 on a quiet machine.
    assert (time.process_time() - started) / (len(texts) * 4) < 0.02


@pytest.mark.parametrize(
    "collection, language", [("jsquad", "ja"), ("ko-strategyqa-facts", "ko"), ("scifact", "en")]
)
def test_the_texts_of_a_collection_are_in_its_language(collection: str, language: str):
    plain = SHARED / collection / "corpus.jsonl"
    packed = plain.with_name("corpus.jsonl.gz")
    if plain.is_file():
        lines = plain.read_text(encoding="utf-8").splitlines()
    elif packed.is_file():
        lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    else:
        pytest.skip(f"no collection {collection} in the shared data (KB_SHARED_DATA)")
    texts = [json.loads(line)["text"] for line in lines[:1_000]]
    found = [detect(text) for text in texts]
    assert found.count(language) >= 0.995 * len(texts)
    assert set(found) <= {language, None}
