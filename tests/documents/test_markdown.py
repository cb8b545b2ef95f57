"""Markdown files with front matter, and text in every encoding."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from kb_documents.chunk import by_structure
from kb_documents.extract import decode, markdown, plain_text

from kb_framework.errors import ExtractionFailed

SHARED = Path(os.environ.get("KB_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


def read(text: str):
    return markdown(text.encode(), "a.md")


def body(text: str) -> list[str]:
    return [chunk.content for chunk in by_structure(read(text))]


def test_front_matter_gives_title_tags_and_metadata():
    text = "---\ntitle: 'Pods: a guide'\ntags: [k8s, 배포]\ndate: 2024-05-06\nweight: 3\n---\n# Other\n\nBody.\n"
    file = read(text)
    assert (file.title, file.tags) == ("Pods: a guide", ("k8s", "배포"))
    assert file.metadata == {"date": "2024-05-06", "weight": 3}
    assert file.text == text
    assert body(text) == ["# Other\n\nBody."]


def test_front_matter_may_be_toml():
    file = read(
        '+++\ntitle = "Pods"\ntags = ["a", "b"]\nwhen = 2024-05-06T07:08:09Z\n[nested]\nkey = [1, 2]\n+++\nBody.\n'
    )
    assert (file.title, file.tags) == ("Pods", ("a", "b"))
    assert file.metadata == {"when": "2024-05-06T07:08:09+00:00", "nested": {"key": [1, 2]}}


@pytest.mark.parametrize(
    "written, tags",
    [
        ("[a, b]", ("a", "b")),
        ("a, b c", ("a", "b c")),
        ("a b", ("a", "b")),
        ("'#a #b'", ("a", "b")),
        ("\n  - a\n  - 2024\n  - {x: 1}\n  - null\n  - ''\n  - 'b,c'", ("a", "2024", "b", "c")),
        ("[a, a, ' a ']", ("a",)),
        (f"[{'x' * 200}, ok]", ("ok",)),
        ('["a\\tb", "\\u202e"]', ("a b",)),
        ("{a: b}", ()),
        ("true", ()),
        ("", ()),
    ],
)
def test_tags_are_cleaned_and_never_fail_the_file(written: str, tags: tuple[str, ...]):
    assert read(f"---\ntags: {written}\n---\nBody.\n").tags == tags


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: [unclosed\n---\n\nBody.",
        "---\njust words\n---\n\nBody.",
        "---\n\nA rule first.\n\n---\n\nBody.",
        "---\ntitle: never closed\n\nBody.",
        "+++\ntitle = \n+++\n\nBody.",
        "---\na: &x [1]\nb: *x\n---\n\nBody.",
        "\n---\ntitle: not at the top\n---\n\nBody.",
        "---\nwhen: 2024-99-99\n---\n\nBody.",
        "---\n" + "[" * 5_000 + "\n---\n\nBody.",
        "---\na: !!bool x\n---\n\nBody.",
        "---\na: !!int ''\n---\n\nBody.",
        "---\na: !!timestamp 2001\n---\n\nBody.",
        "+++\n" + "0." * 2_001 + "0 = 1\n+++\n\nBody.",
    ],
)
def test_what_is_no_front_matter_is_text(text: str):
    file = read(text)
    assert (file.tags, file.metadata) == ((), {})
    assert "".join("".join(body(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "head", ["---\ntitle: {0}\ntags: [{0}, a]\n---\n", "+++\ntitle = {0}\ntags = [{0}, 'a']\n+++\n"]
)
def test_a_number_with_thousands_of_digits_does_not_fail_the_file(head: str):
    file = read(head.format("0x" + "f" * 5_000) + "Body.\n")
    assert (file.title, file.tags) == (None, ("a",))


def test_metadata_is_always_json_and_bounded():
    head = (
        "a: .nan\nb: .inf\nc: !!binary aGVsbG8=\nd: !!set {x, y}\n1: one\ne: "
        + "9" * 40
        + "\nf: "
        + "x" * 9_000
    )
    deep = "g: " + "[" * 30 + "]" * 30
    many = "\n".join(f"k{n}: {n}" for n in range(300))
    metadata = read(f"---\n{head}\n{deep}\n{many}\n---\nBody.").metadata
    assert len(json.dumps(metadata, allow_nan=False)) < 10_000
    assert (metadata["1"], metadata["a"], metadata["e"], len(metadata["f"])) == (
        "one",
        None,
        None,
        2_000,
    )


def test_a_file_of_front_matter_alone_is_found_by_it():
    assert body("---\ntitle: Index\n---\n") == ["---\ntitle: Index\n---"]


def test_the_title_is_the_first_of_the_highest_headings():
    assert read("```\n# code\n```\n\n## Before\n\n# Real {#id} #\n\n# Later\n").title == "Real"
    assert read("Setext\n======\n\nText.").title == "Setext"
    assert read("No heading here.").title is None


KOREAN = "쿠버네티스는 컨테이너화된 애플리케이션을 자동으로 배포하고 관리하는 시스템이다.\n두 번째 줄도 있다.\n"
JAPANESE = "これは日本語の文章です。コンテナを自動的に配置し、管理するためのシステムについて説明します。\n二行目です。\n"
SIMPLIFIED = "这是一个用中文写成的段落，说明如何自动部署和管理容器化的应用程序。\n这里是第二行。\n"
TRADITIONAL = "這是一個用中文寫成的段落，說明如何自動部署和管理容器化的應用程式。\n這裡是第二行。\n"
RUSSIAN = "Это русский текст о том, как автоматически развёртывать приложения и управлять ими.\nВторая строка.\n"
FRENCH = "Le comité a décidé de publier le rapport à la fin de l'été, où tout sera prêt.\nDeuxième ligne, ça va.\n"
GERMAN = "Die Größe der Übersicht hängt von den Änderungen ab; äußerst schöne Grüße.\n"
POLISH = (
    "Komitet postanowił, że książka będzie wydana w przyszłym miesiącu; źródła są już w całości.\n"
)
TURKISH = (
    "Komite, raporun geçen yılın rakamlarıyla birlikte yayımlanmasına karar verdi; şöyle değil.\n"
)


@pytest.mark.parametrize(
    "text, encoding",
    [
        *(
            (text, encoding)
            for text in (KOREAN, FRENCH)
            for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32")
        ),
        *(
            (text, f"utf-{bits}-{order}")
            for text in (KOREAN, RUSSIAN, FRENCH)
            for bits in (16, 32)
            for order in ("le", "be")
        ),
        (KOREAN, "cp949"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        (SIMPLIFIED, "gb18030"),
        (TRADITIONAL, "big5"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (FRENCH, "latin-1"),
        (GERMAN, "cp1252"),
        (POLISH, "cp1250"),
        (POLISH, "iso8859_2"),
        (TURKISH, "cp1254"),
    ],
)
def test_text_is_read_in_its_encoding(text: str, encoding: str):
    assert decode(text.replace("\n", "\r\n").encode(encoding)) == text


def test_a_long_file_is_judged_by_the_lines_that_are_not_ascii():
    text = "plain ascii line\n" * 20_000 + KOREAN * 20_000
    assert decode(text.encode("cp949")) == text


def test_one_broken_byte_makes_no_other_encoding():
    data = (KOREAN * 50).encode()
    assert decode(data[:-2]).startswith(KOREAN * 49)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"", "empty"),
        (b" \r\n\t", "empty"),
        (b"\xff\xfe", "empty"),
        (b"abc\x00def\x01\x02", "binary"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x01\x02\x03\x04\x05" * 100, "binary"),
        (b"\x00" * 4096, "binary"),
    ],
)
def test_what_is_no_text_is_refused_with_a_reason(data: bytes, reason: str):
    with pytest.raises(ExtractionFailed, match=reason):
        plain_text(data, "a.txt")


def test_real_files_in_many_encodings_are_read():
    folder = SHARED / "docs" / "encodings"
    if not folder.is_dir():
        pytest.skip("no files in other encodings in the shared data (KB_SHARED_DATA)")
    # EUC-TW is unknown to Python; TIS-620 files use the quotation marks that cp874 adds.
    codecs = {
        "SHIFT_JIS": "cp932",
        "EUC-KR": "cp949",
        "GB2312": "gb18030",
        "TIS-620": "cp874",
        "MacCyrillic": "mac_cyrillic",
    }
    wrong = []
    for path in sorted(folder.glob("*/*")):
        name = path.parent.name
        if name == "EUC-TW":
            continue
        pieces = name.split("-")
        codec = codecs.get(
            name,
            "-".join(pieces[: 3 if name.startswith("iso") else 2]) if len(pieces) > 2 else name,
        )
        codec = "-".join(pieces[:2]) if name.startswith("windows") else codec
        data = path.read_bytes()
        expected = data.decode(codec).replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
        if decode(data).lstrip("\ufeff") != expected:
            wrong.append(f"{name}/{path.name}")
    assert wrong == []
