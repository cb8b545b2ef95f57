"""Every document of the shared collection: read, or refused in words that fit what the manifest says of it."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from kb_documents.extraction import Extraction

from kb_framework.api import Extracted
from kb_framework.bootstrap import Bootstrap, read_bootstrap
from kb_framework.errors import ExtractionFailed
from kb_framework.plugins import Plugins
from kb_framework.settings import HostSettings

FOLDERS = (
    "archive",
    "encodings",
    "epub",
    "html",
    "k8s-md",
    "mail",
    "office",
    "pdf",
    "synthetic",
    "text",
)
EITHER = "either outcome is defensible"
NO_TEXT = re.compile(r"holds no text|is empty")
# What a reason must never show: names of classes and modules, addresses, folders of this machine.
INSIDES = re.compile(
    r"Error|Exception|Traceback|::|0x[0-9a-f]{4}|/home|/tmp|/usr|kreuzberg|pdfium|None"
)

# Formats that nothing here reads, and documents without a word in them; each is refused with a reason.
UNREAD = {
    "html/tika/test_ignore_IBM420.html": "binary, not text",  # EBCDIC
    "office/tika/cmak_ops.CHM": "compiled Windows help",
    "office/tika/gpedit.CHM": "compiled Windows help",
    "office/tika/tcpip.CHM": "compiled Windows help",
    "office/tika/testHWP_3.0.hwp": "Hangul document of version 3",
    "archive/quine.gz": "nested too deeply",
    "encodings/EUC-TW/_ude_euc-tw1.txt": "neither text nor a known format",  # Python has no such codec
    "synthetic/mixed_encodings.txt": "neither text nor a known format",
}
WITHOUT_TEXT = {
    "office/pandoc/hiddenTextByVariable.odt",
    "office/pandoc/imageRelative.odt",
    "office/python-docx/doc-default.docx",
    "office/python-docx/doc-word-default-blank.docx",
    "office/python-docx/set-no-settings-part.docx",
    "office/python-docx/sty-having-styles-part.docx",
    "office/tika/testBinControlWord.rtf",
    "office/tika/testEXCEL_95.xls",
    "office/tika/testEXCEL_embeddedPDF_mac.xls",
    "office/tika/testEXCEL_embeddedPDF_windows.xls",
    "office/tika/testEXCEL_embeddedPDF_windows.xlsx",
    "office/tika/testEXCEL_poi-61034.xlsx",
    "office/tika/testExcel_embeddedPDF.xlsx",
    "office/tika/testWORD_multi_authors.docx",
    "synthetic/empty.md",
}

# Words that are known to be in these files.
WORDS = {
    "archive/bob.gz": "alice.txt",
    "archive/droste.zip": "droste.zip/droste.zip/droste.jpg",
    "archive/gbk.zip": "集团邮件审计系统2021年自动巡检需求文档",
    "archive/testZipEntryNameCharsetShiftSJIS.zip": "文章",
    "archive/test-documents-spanned.zip": "testTXT.txt",
    "encodings/Big5/_chromium_Big5_with_no_encoding_specified.html": "台北看守所",
    "encodings/CP949/ricanet.com.xml": "리카넷",
    "encodings/EUC-JP/_mozilla_bug431054_text.html": "ログイン",
    "encodings/EUC-KR/_mozilla_bug9357_text.html": "요청하신 웹 페이지를 찾을 수 없습니다",
    "encodings/GB2312/_chromium_gb18030_with_no_encoding_specified.html.xml": "中国航天科技集团公司",
    "encodings/IBM855/greek.ru.xml": "Почти все о греческом",
    "encodings/IBM866/aug32.hole.ru.xml": "Афиша ТА",
    "encodings/KOI8-R/_chromium_KOI8-R_with_no_encoding_specified.html": "РИА Новости",
    "encodings/MacCyrillic/aug32.hole.ru.xml": "Сольный концерт",
    "encodings/SHIFT_JIS/_chromium_Shift-JIS_with_no_encoding_specified.html": "衆院議院運営委員会",
    "encodings/TIS-620/pharmacy.kku.ac.th.healthinfo-ne.xml": "จังหวัดขอนแก่น",
    "encodings/UTF-16/bom-utf-16-be.srt": "the comment section of YouTube",
    "encodings/UTF-16LE/plane1-utf-16le.html": "Supplementary Characters",
    "encodings/UTF-32/bom-utf-32-le.srt": "I was commenting",
    "encodings/iso-8859-2-hungarian/cigartower.hu.xml": "Magyarország legnagyobb szivarportálja",
    "encodings/iso-8859-5-bulgarian/bpm.cult.bg.medusa.4.xml": "Има светлина в тунела",
    "encodings/iso-8859-6-arabic/_chromium_ISO-8859-6_with_no_encoding_specified.html": "كتائب الشهيد",
    "encodings/iso-8859-7-greek/_chromium_ISO-8859-7_with_no_encoding_specified.html": "Καρδίτσας",
    "encodings/windows-1255-hebrew/_chromium_ISO-8859-8_with_no_encoding_specified.html": "במקביל לישיבת הקבינט",
    "epub/basic.fb2": "Subsection",
    "epub/test.fb2": "ЧАСТЬ ПЕРВАЯ",
    "epub/testEPUB.epub": "This is the text for chapter One",
    "epub/img_no_cover.epub": "Tests whether the GIF image format is supported",
    "epub/epub2_cover.epub": "Pandoc EPUB2 Test",
    "html/pandoc/lhs-test.html": "is an arrow that takes a pair of values",
    "html/pandoc/s5-inserts.html": "second bullet",
    "html/readability/001.html": "Get your Frontend JavaScript Code Covered",
    "html/readability/ebb-org.html": "Bradley M. Kuhn",
    "k8s-md/en/docs/concepts/architecture/cgroups.md": "cgroup v2",
    "mail/headers.mbox": "author@domain.com",
    "mail/quoted.mbox": "quoted stuff",
    "mail/test-outlook2003.msg": "Thank you for using Microsoft",
    "mail/testMSG.msg": "MIME registry use cases",
    "mail/testLotusEml.eml": "Message body",
    "mail/test-incremental-updates.eml": "tallison@apache.org",
    "office/pandoc/alternate_document_path.docx": "bold italic underlined",
    "office/pandoc/adjacent_codeblocks.docx": "ifconfig -a",
    "office/pandoc/9603.docx": "A table with a contemporary style",
    "office/pandoc/footnote.rtf": "landmark study has been amply annotated",
    "office/pandoc/heading.rtf": "# Heading 1",
    "office/pandoc/externalLink.odt": "http://example.com/",
    "office/pandoc/output.pptx": "this be the footer",
    "office/tika/simple_normal_case.doc": "This is a sample Word document",
    "office/tika/simple_upper_case.doc": "This is a sample Word document",
    "office/tika/test-columnar.ods": "Square of the Record Number",
    "office/tika/test-columnar.xls": "Square of the Record Number",
    "office/tika/test-columnar.xlsx": "Description of the Row",
    "office/tika/testComment.doc": "Here is some text",
    "office/tika/testComment.xls": "Here is a comment",
    "office/tika/testEXCEL-charts.xls": "fizzlepuff",
    "office/tika/testEXCEL_hyperlinks.xls": "should have link to Tika's getting started page",
    "office/tika/testEXCEL_labels-govdocs-515858.xls": "Artichoke production",
    "office/tika/testMSChart-govdocs-428996.xls": "Tech Partners",
    "office/tika/testHWP_5.0.hwp": "테스트",
    "office/tika/testMasterFooter.odp": "Master footer is here",
    "office/tika/testPPT.ppt": "Sample Powerpoint Slide",
    "office/tika/testPages.pages": "Consectetur adipiscing elit",
    "office/tika/testWORD_macros.docm": "brown",
    "office/tika/testWORKSWordProcessor4.0.wps": "made with Microsoft Works Word Processor 7.0",
    "office/tika/testXLSX.xps": "spaced",
    "pdf/pdfjs/bug1627427_reduced.pdf": "얼다가 만 비가",
    "pdf/pdfjs/bug1868759.pdf": "Utiliser le vérificateur",
    "pdf/pdfjs/issue13201.pdf": "Satoshi Naka",
    "pdf/pdfjs/issue16316.pdf": "Andreas Gal",
    "pdf/pdfjs/issue16538.pdf": "マーケットモデル",
    "pdf/pdfjs/issue2128r.pdf": "浅谈校长的魅力",
    "pdf/pdfjs/issue5010.pdf": "카피라이터",
    "pdf/pdfjs/issue8570.pdf": "レーザーレーダー",
    "pdf/pdfjs/nested_outline.pdf": "Content for Future Work",
    "pdf/pikepdf/fourpages.pdf": "Third page",
    "pdf/pikepdf/fpdf2_cjk.pdf": "日本語",
    "pdf/tika/testPDF.pdf": "Apache Tika",
    "pdf/tika/testPDF_bad_page_303226.pdf": "Drug Enforcement Administration",
    "synthetic/cp949.txt": "한국",
    "synthetic/docx_named_pdf.pdf": "Sample Word Document Title",
    "synthetic/html_named_pdf.pdf": "Not a PDF",
    "synthetic/zip_slip.zip": "- escape.txt",
    "text/pandoc/docbook-chapter.docbook": "This chapter uses recursive sections.",
    "text/pandoc/planets.jats_archiving": "Data about the planets of our solar system",
    "text/pandoc/nordics.latex": "longtable",
    "text/pandoc/rank.ipynb": "import matplotlib.pyplot",
    "text/pandoc/tables.man": "Demonstration of simple table syntax",
    "text/pandoc/undergradmath.typ": "Creative Commons",
    "text/tika/test-columnar.csv": "| Record Number | Square of the Record Number |",
}


@dataclass(frozen=True)
class Outcome:
    path: str
    expected: str
    note: str
    extracted: Extracted | None = None
    reason: str = ""
    crash: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `refused` with a reason that fits, or what is wrong."""
        if self.crash or not (self.extracted or self.reason):
            return f"unexpected: {self.crash}"
        if self.extracted:
            return (
                "ok"
                if self.expected == "ok" or EITHER in self.note
                else "unexpected: should have been refused"
            )
        if INSIDES.search(self.reason):
            return f"unexpected reason: {self.reason}"
        wanted = UNREAD.get(self.path)
        fits = {
            "encrypted": "password-protected" in self.reason,
            "corrupt": True,
            "ok": (wanted is not None and wanted in self.reason)
            or (
                ("no text layer" in self.note or self.path in WITHOUT_TEXT)
                and bool(NO_TEXT.search(self.reason))
            )
            or EITHER in self.note,
        }
        return "refused" if fits[self.expected] else f"unexpected reason: {self.reason}"


def shared_documents() -> Path | None:
    root = Path(__file__).resolve().parents[2]
    places = [os.environ.get("KB_SHARED_DATA"), root / "../shared/data"]
    return next(
        (Path(place) / "docs" for place in places if place and (Path(place) / "docs").is_dir()),
        None,
    )


SHARED = shared_documents()
pytestmark = pytest.mark.skipif(
    SHARED is None, reason="the shared documents are not here (KB_SHARED_DATA)"
)


@pytest.fixture(scope="module")
def corpus() -> Iterator[Extraction]:
    bootstrap: Bootstrap = read_bootstrap({})
    extraction = Extraction(Plugins(bootstrap), HostSettings(extract_timeout=600))
    yield extraction
    extraction.close()


def _manifest(folder: str) -> list[dict[str, str]]:
    assert SHARED is not None
    with (SHARED / folder / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _read(extraction: Extraction, folder: str, row: dict[str, str]) -> Outcome:
    assert SHARED is not None
    path = f"{folder}/{row['path']}"
    known = (path, row["expected"], row["note"] or "")
    try:
        extracted = extraction.extract((SHARED / path).read_bytes(), row["path"])
    except ExtractionFailed as error:
        return Outcome(*known, reason=error.message)
    except Exception as error:  # noqa: BLE001 - this is what must not happen
        return Outcome(*known, crash=repr(error))
    return Outcome(*known, extracted=extracted)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_document_is_read_or_refused_in_words(corpus, folder, record_property):
    rows = _manifest(folder)
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda row: _read(corpus, folder, row), rows))
    rates = Counter(outcome.verdict.partition(":")[0].split()[0] for outcome in outcomes)
    record_property("rates", dict(rates))
    sys.stdout.write(f"{folder}: {len(rows)} files, {dict(rates)}\n")
    wrong = [
        f"{outcome.path} ({outcome.expected}; {outcome.note}): {outcome.verdict}"
        for outcome in outcomes
    ]
    wrong = [
        line
        for line, outcome in zip(wrong, outcomes, strict=True)
        if outcome.verdict not in ("ok", "refused")
    ]
    assert not wrong, f"{dict(rates)}\n" + "\n".join(wrong)
    assert len(outcomes) == len(rows)
    assert not [outcome.path for outcome in outcomes if "took longer" in (outcome.reason or "")]
    for outcome in outcomes:
        if outcome.extracted:
            text = outcome.extracted.text
            assert text.strip() or outcome.extracted.attachments, outcome.path
            assert "\x00" not in text and "\r" not in text, outcome.path
            assert all(0 <= start <= len(text) for start, _ in outcome.extracted.pages), (
                outcome.path
            )
            for word in [WORDS[outcome.path]] if outcome.path in WORDS else ():
                assert " ".join(word.split()) in " ".join(text.split()), (outcome.path, text[:500])
        else:
            assert outcome.path not in WORDS, (outcome.path, outcome.reason)


def test_the_words_are_of_known_files():
    known = {f"{folder}/{row['path']}" for folder in FOLDERS for row in _manifest(folder)}
    assert known >= set(WORDS) | set(UNREAD) | WITHOUT_TEXT
    assert len(WORDS) >= 60


def test_encodings_are_told_apart(corpus):
    """The words of a file are those of its true encoding; a few close relatives may be mistaken for each other."""
    assert SHARED is not None
    wrong = []
    for row in _manifest("encodings"):
        # Such as `iso-8859-2-polish`: the language is no part of the encoding's name.
        label = re.sub(r"(?<=\d)-[a-z]{5,}$", "", row["note"].removeprefix("encoding="))
        codec = {"MacCyrillic": "mac-cyrillic", "EUC-TW": None}.get(label, label)
        if codec is None:
            continue
        data = (SHARED / "encodings" / row["path"]).read_bytes()
        truth = set(re.findall(r"\w{3,}", data.decode(codec, errors="replace")))
        found = set(re.findall(r"\w{3,}", corpus.extract(data, row["path"]).text))
        strange = {word for word in found - truth if not word.isascii()}
        if len(strange) > 0.1 * len(found):
            wrong.append((row["path"], len(strange), len(found)))
    assert len(wrong) <= 6, wrong


def test_page_numbers_follow_the_pages(corpus):
    assert SHARED is not None
    extracted = corpus.extract((SHARED / "pdf/pikepdf/fourpages.pdf").read_bytes(), "fourpages.pdf")
    starts = {number: start for start, number in extracted.pages}
    for number, words in enumerate(("First page", "Second page", "Third page", "Last page"), 1):
        end = starts.get(number + 1, len(extracted.text))
        assert words in extracted.text[starts[number] : end]


def test_an_outlook_message_comes_with_its_attachments() -> None:
    assert SHARED is not None
    from kb_formats.mail import msg

    read = msg((SHARED / "mail" / "test-outlook2003.msg").read_bytes(), "test-outlook2003.msg")

    assert "12.jpg" in {file.name for file in read.attachments}
    assert all(
        file.data.startswith(b"\xff\xd8") for file in read.attachments if file.name.endswith(".jpg")
    )
