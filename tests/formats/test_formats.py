"""Each format from a small file made here: what is in it is found, what is wrong with it is said."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import struct
import tarfile
import zipfile

import pytest
from kb_documents.extraction import MAX_DEPTH, Extraction
from kb_formats.old_sheets import sheet_texts
from kb_text.api import detect

from kb_framework.api import Extracted
from kb_framework.errors import ExtractionFailed

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OFFICE_RELS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def zipped(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def relations(kind: str, target: str) -> str:
    return (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{OFFICE_RELS}/{kind}" Target="{target}"/></Relationships>'
    )


def types(part: str, kind: str) -> str:
    return (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{part}" ContentType="application/vnd.openxmlformats-officedocument.{kind}"/></Types>'
    )


def docx(*paragraphs: str, part: str = "word/document.xml") -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return zipped(
        {
            "[Content_Types].xml": types(part, "wordprocessingml.document.main+xml"),
            "_rels/.rels": relations("officeDocument", part),
            part: f'<?xml version="1.0"?><w:document {W}><w:body>{body}</w:body></w:document>',
        }
    )


def xlsx() -> bytes:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    cells = '<c r="A1" t="inlineStr"><is><t>kumquat</t></is></c><c r="B1"><v>42</v></c>'
    return zipped(
        {
            "[Content_Types].xml": types("xl/workbook.xml", "spreadsheetml.sheet.main+xml"),
            "_rels/.rels": relations("officeDocument", "xl/workbook.xml"),
            "xl/_rels/workbook.xml.rels": relations("worksheet", "worksheets/sheet1.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{OFFICE_RELS}"><sheets>'
            '<sheet name="Fruit" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData><row r="1">{cells}</row></sheetData></worksheet>',
        }
    )


def odf(kind: str, body: str, manifest: str = "") -> bytes:
    names = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"'
        for short in ("office", "text", "table", "draw")
    )
    content = f'<?xml version="1.0"?><office:document-content {names}><office:body>{body}</office:body></office:document-content>'
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": content,
            "META-INF/manifest.xml": f"<manifest>{manifest}</manifest>",
        }
    )


def epub() -> bytes:
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="a.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
            "a.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Small book</dc:title></metadata><manifest>'
            '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="c"/></spine>'
            "</package>",
            "c.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>Chapter</h1><p>A quince ripens.</p></body></html>',
        }
    )


def pdf(*pages: str) -> bytes:
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = (
            "BT /F1 12 Tf 72 720 Td 14 TL "
            + " ".join(f"({line}) Tj T*" for line in text.split("\n"))
            + " ET"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R /Resources "
            "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    out, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


MAIL = (
    b"From: =?utf-8?b?SsO8cmdlbg==?= <j@example.org>\r\nTo: k@example.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
    b"Date: Mon, 01 Jun 2009 10:00:00 +0000\r\nMessage-ID: <1@example.org>\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n'
    b"Der Bericht liegt bei.\r\n--b\r\nContent-Type: application/octet-stream\r\n"
    b'Content-Disposition: attachment; filename="../../etc/bericht.txt"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    b"UXVpdHRlbg==\r\n--b--\r\n"
)


def refused(extraction: Extraction, data: bytes, name: str) -> str:
    with pytest.raises(ExtractionFailed) as caught:
        extraction.extract(data, name)
    return caught.value.message


def names(extracted: Extracted) -> list[str]:
    return [attachment.name for attachment in extracted.attachments]


# What is in a file is found


@pytest.mark.parametrize(
    ("data", "name", "media", "words"),
    [
        (docx("A medlar is bletted."), "a.docx", "docx", "A medlar is bletted."),
        (docx("Elsewhere."), "really-word.pdf", "docx", "Elsewhere."),
        (docx("Alternate."), "no-suffix", "docx", "Alternate."),
        (docx("Numbered part.", part="word/document2.xml"), "a.docx", "docx", "Numbered part."),
        (xlsx(), "a.xlsx", "xlsx", "kumquat"),
        (odf("text", "<office:text><text:p>An apricot.</text:p></office:text>"), "a.odt", "odt", "An apricot."),
        (
            odf("presentation", "<office:presentation><draw:page><text:p>A slide.</text:p></draw:page></office:presentation>"),
            "a.odp",
            "odp",
            "A slide.",
        ),
        (epub(), "a.epub", "epub", "A quince ripens."),
        (rb"{\rtf1\ansi\ansicpg1252 A caf\'e9 in {\b Li\'e8ge}.\par}", "a.rtf", "rtf", "Liège"),
        (b"<html><body><p>Bonjour</p></body></html>", "wrong.pdf", "html", "Bonjour"),
        ("<meta charset=euc-kr><p>한국어".encode("cp949"), "a.html", "html", "한국어"),
        ("<?xml version='1.0' encoding='koi8-r'?><a><b>Привет</b></a>".encode("koi8-r"), "a.xml", "xml", "Привет"),
        (b"<a><b>not <c>closed</b>", "a.xml", "xml", "closed"),
        (b"name;age\nAda;36\nBob;41\n", "a.csv", "csv", "| Ada | 36 |"),
        (b'{"title":"T","x":"\\ud55c"}', "a.json", "json", "한"),
        (b"{not json", "a.json", "json", "{not json"),
        (b"def f():\n    return 1\n", "a.py", "code", "def f():\n    return 1\n"),
        (b"1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i>\nthere\n", "a.srt", "subtitles", "Hello\nthere"),
        (b"* Heading\nwords", "a.org", "org", "* Heading\nwords"),
        (
            json.dumps({"cells": [{"cell_type": "raw", "source": ["# S"]}, {"cell_type": "code", "source": "1+1"}]}).encode(),
            "a.ipynb",
            "ipynb",
            "```python\n1+1\n```",
        ),
        (MAIL, "a.eml", "email", "Der Bericht liegt bei."),
        (MAIL, "no-suffix", "email", "Der Bericht liegt bei."),
    ],
)  # fmt: skip
def test_words_are_found(extraction, data, name, media, words):
    extracted = extraction.extract(data, name)
    assert words in extracted.text
    assert extracted.media == media


def test_pdf_has_its_pages_and_loses_no_line(extraction):
    pages = [f"Same first line\nPage {n} says plum{n}\nSame last line" for n in range(1, 8)]
    extracted = extraction.extract(pdf(*pages), "a.pdf")
    assert extracted.text.count("Same first line") == extracted.text.count("Same last line") == 7
    assert [number for _, number in extracted.pages] == list(range(1, 8))
    for (start, number), (end, _) in zip(
        extracted.pages, [*extracted.pages[1:], (len(extracted.text), 0)], strict=True
    ):
        assert f"plum{number}" in extracted.text[start:end]
    assert extracted.metadata["page_count"] == 7


def test_mail_has_its_headers_and_attachments(extraction):
    extracted = extraction.extract(MAIL, "a.eml")
    assert extracted.title == "Grüße"
    assert extracted.metadata["from"] == "Jürgen <j@example.org>"
    assert extracted.metadata["date"] == "2009-06-01T10:00:00+00:00"
    assert [(file.name, file.data) for file in extracted.attachments] == [
        ("etc/bericht.txt", b"Quitten")
    ]


def test_mailbox_gives_its_messages(extraction):
    box = b"".join(
        b"From a Mon Jun 01 10:00:00 2009\nSubject: n%d\n\nbody %d\n\n" % (n, n) for n in range(3)
    )
    extracted = extraction.extract(box, "a.mbox")
    assert names(extracted) == ["00001 n0.eml", "00002 n1.eml", "00003 n2.eml"]
    assert (
        "body 1"
        in extraction.extract(extracted.attachments[1].data, extracted.attachments[1].name).text
    )


# Archives


def test_members_of_archives(extraction):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, data in (("a/b.txt", b"in tar"), ("../../up.txt", b"up")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    for data, name in (
        (tar.getvalue(), "a.tar"),
        (gzip.compress(tar.getvalue()), "a.tgz"),
        (bz2.compress(tar.getvalue()), "a.tar.bz2"),
        (lzma.compress(tar.getvalue()), "a.tar.xz"),
    ):
        assert names(extraction.extract(data, name)) == ["a/b.txt", "up.txt"]
    assert names(extraction.extract(gzip.compress(b"plain words"), "notes.txt.gz")) == ["notes.txt"]
    assert names(
        extraction.extract(
            zipped({"x/": "", "x/a.txt": "a", "b.zip": zipped({"c.txt": "c"})}), "a.zip"
        )
    ) == [
        "x/a.txt",
        "b.zip/c.txt",
    ]


def test_no_name_leaves_the_archive(extraction):
    hostile = [
        "../../escape.txt",
        "/etc/passwd",
        "C:\\Windows\\x.ini",
        "..\\..\\y.txt",
        "a/../../z.txt",
        "ok\u202etxt.exe",
    ]
    found = names(extraction.extract(zipped(dict.fromkeys(hostile, "x")), "a.zip"))
    assert found == ["escape.txt", "etc/passwd", "Windows/x.ini", "y.txt", "a/z.txt", "oktxt.exe"]


def test_bombs_are_refused(make_extraction):
    extraction = make_extraction(max_file_bytes=1_000_000, max_archive_files=50)
    assert "expands to more than 10000000 bytes" in refused(
        extraction, zipped({"a": bytes(11_000_000)}), "a.zip"
    )
    assert "expands to more" in refused(extraction, gzip.compress(bytes(50_000_000)), "a.gz")
    inner = zipped({"a": bytes(6_000_000)})
    assert "expands to more" in refused(
        extraction, zipped({"1.zip": inner, "2.zip": inner}), "a.zip"
    )
    assert "more than 50 files" in refused(
        extraction, zipped({str(n): "x" for n in range(51)}), "a.zip"
    )
    # The size that a member declares may be a lie.
    lying = bytearray(zipped({"a": bytes(20_000_000)}))
    place = lying.rindex(b"PK\x01\x02") + 24
    lying[place : place + 4] = (10).to_bytes(4, "little")
    with pytest.raises(ExtractionFailed):
        extraction.extract(bytes(lying), "a.zip")
    bomb = zipped({"[Content_Types].xml": "<x/>", "word/document.xml": b"<a>" + bytes(300_000_000)})
    with pytest.raises(ExtractionFailed):
        extraction.extract(bomb, "a.docx")


def test_nesting_ends(extraction):
    data = zipped({"deep.txt": "deep"})
    for level in range(6):
        data = zipped({f"{level}.zip": data, f"{level}.txt": "here"})
    extracted = extraction.extract(data, "a.zip")
    assert names(extracted) == ["5.zip/4.zip/3.txt", "5.zip/4.txt", "5.txt"]
    assert "nested too deeply" in str(extracted.metadata["not_read"])


def test_attachments_of_attachments_end(extraction):
    assert extraction.extract(MAIL, "a.eml", depth=MAX_DEPTH - 1).attachments
    last = extraction.extract(MAIL, "a.eml", depth=MAX_DEPTH)
    assert not last.attachments and "nested too deeply" in last.metadata["files_not_read"]


def test_a_quine_ends(extraction):
    # The smallest known way: a gzip member whose content is its own bytes cannot be made here, but a chain is as endless.
    data = b"words"
    for _ in range(40):
        data = gzip.compress(data)
    assert "nested too deeply" in refused(extraction, data, "a.gz")


def test_encrypted_members_are_named(extraction):
    data = bytearray(zipped({"secret.txt": "x", "open.txt": "y"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    extracted = extraction.extract(bytes(data), "a.zip")
    assert names(extracted) == ["open.txt"]
    assert extracted.metadata["not_read"] == ["secret.txt: password-protected"]
    alone = bytearray(zipped({"secret.txt": "x"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        alone[alone.index(signature) + offset] |= 1
    assert refused(extraction, bytes(alone), "a.zip") == "the file is password-protected"


# What is wrong with a file is said


def test_empty_files(extraction):
    for name in ("a.pdf", "a.docx", "a.txt", "a.md", "a.zip", "a"):
        assert refused(extraction, b"", name) == "the file is empty"
        assert refused(extraction, b" \r\n", name) == "the file is empty"


def test_encrypted_documents(extraction):
    entry = (
        "EncryptedPackage".encode("utf-16-le").ljust(64, b"\0")
        + (34).to_bytes(2, "little")
        + b"\x02\x01"
    )
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0") + entry.ljust(128, b"\0")
    assert refused(extraction, ole, "a.docx") == "the file is password-protected"
    locked = odf("text", "<office:text/>", manifest="<encryption-data/>")
    assert refused(extraction, locked, "a.odt") == "the file is password-protected"


@pytest.mark.parametrize("keep", [20, 200, 0.5, 0.9])
@pytest.mark.parametrize(
    ("data", "name"), [(docx("x" * 3000), "a.docx"), (pdf("words"), "a.pdf"), (epub(), "a.epub")]
)
def test_truncated_documents_fail_in_words(extraction, data, name, keep):
    cut = data[: keep if keep > 1 else int(len(data) * keep)]
    try:
        extraction.extract(cut, name)
    except ExtractionFailed as error:
        assert (
            "Error" not in error.message and "::" not in error.message and "/" not in error.message
        )


def test_unknown_kinds_are_named(extraction):
    assert refused(extraction, b"\x89PNG\r\n\x1a\n" + os.urandom(500), "a.png") == (
        "nothing here reads files of this kind (an image)"
    )
    assert "binary data" in refused(extraction, bytes(range(256)) * 20, "a.xyz")


def test_entities_do_not_explode(extraction):
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">{entities}]><l>&l9;</l>'.encode()
    assert "entities" in refused(extraction, bomb, "a.xml")
    stolen = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY e SYSTEM "file:///etc/passwd">]><l>before &e; after</l>'
    assert "root:" not in extraction.extract(stolen, "a.xml").text
    plain = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY co "Company">]><l>The &co; itself</l>'
    assert extraction.extract(plain, "a.xml").text == "The Company itself"


def test_deep_nesting_is_refused_or_read(extraction):
    for data, name in (
        (b"[" * 200_000, "a.json"),
        (b"<a>" * 200_000 + b"x" + b"</a>" * 200_000, "a.xml"),
    ):
        try:
            extraction.extract(data, name)
        except ExtractionFailed as error:
            assert error.message


def test_json_that_is_nested_deep_is_left_as_it_is(extraction):
    deep = "[" * 33 + "1" + "]" * 33
    assert extraction.extract(deep.encode(), "a.json").text == deep
    assert extraction.extract(deep[1:-1].encode(), "a.json").text.count("\n") == 64


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_half_a_character_in_json_is_replaced(extraction, name):
    assert (
        "\ufffd river"
        in extraction.extract(
            b'{"a": "\\ud800 river"}\n{"b": 1}'[: 22 if name == "a.json" else None], name
        ).text
    )


def test_a_notebook_that_is_nested_deep_is_text(extraction):
    deep = '{"cells":' + "[" * 100_000
    assert extraction.extract(deep.encode(), "a.ipynb").text == deep


def test_too_much_text_is_cut_and_that_is_said(make_extraction):
    extraction = make_extraction(max_text_chars=1000)
    for data, name in ((b"word " * 300, "a.txt"), (b"<p>" + b"word " * 300, "a.html")):
        extracted = extraction.extract(data, name)
        assert len(extracted.text) <= 1000
        assert (
            extracted.metadata["truncated"]["kept"]
            == len(extracted.text)
            < extracted.metadata["truncated"]["characters"]
        )


# Detection


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"%PDF-1.4", "a.txt", "pdf"),
        (b"junk\n%PDF-1.4", "a.bin", "pdf"),
        (zipped({"word/readme.txt": "no document"}), "backup.zip", "zip"),
        (b"PK\x03\x04broken", "a.xlsx", "xlsx"),
        (b"\x1f\x8b\x08", "x", "gzip"),
        (b"{\\rtf1", "a.doc", "rtf"),
        (b"# Title", "a.md", "markdown"),
        (b"<div>html in markdown</div>", "a.md", "markdown"),
        (b"<!doctype html><p>x", "a.txt", "html"),
        (b"<?php echo 1; ?>", "a.php", "code"),
        (b"FROM alpine", "Dockerfile", "code"),
        (b"From the beginning it was clear.", "a.txt", "text"),
        (b"Subject: a note\n\nnot a mail", "a.txt", "text"),
        ("안녕 하세요\n".encode("utf-16-le") * 9, "a.txt", "text"),
        (b"\x00\xff\x02\x03" * 100, "a.txt", "binary"),
        (b"words", "unknown.suffix", "text"),
        (b"words", "C:\\folder\\a.RST", "rst"),
    ],
)
def test_detection(data, name, kind):
    assert detect(data, name) == kind


# Old encodings and formats


@pytest.mark.parametrize("page", ["1252", "932"])
def test_an_rtf_document_is_decoded_by_the_code_pages_of_its_fonts(extraction, page):
    words = "".join(f"\\'{byte:02x}" for byte in "日本語のタイトル".encode("cp932"))
    fonts = r"{\fonttbl{\f0\fnil\fcharset0 Arial;}{\f1\fnil\fcharset128 MS Mincho;}{\f2\fnil\fcharset204 Arial;}}"
    title = r"{\info{\title \f1 " + words + "}}"
    russian = "".join(f"\\'{byte:02x}" for byte in "Привет".encode("cp1251"))
    source = rf"{{\rtf1\ansi\ansicpg{page}\deff0{fonts}{title}\f1 {words}\par\f2 {russian}\par\f0 plain\par}}"

    extracted = extraction.extract(source.encode(), "a.rtf")

    assert (
        "日本語のタイトル" in extracted.text
        and "Привет" in extracted.text
        and "plain" in extracted.text
    )
    assert extracted.title == "日本語のタイトル"


def _with_parts(source: bytes, parts: dict[str, str], body: tuple[str, str] | None = None) -> bytes:
    """An Office file with more parts, and with `body` one piece of its main part replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if body and name == "word/document.xml":
                data = data.decode().replace(*body).encode()
            new.writestr(name, data)
        for name, text in parts.items():
            new.writestr(name, text)
    return out.getvalue()


_CHART = (
    '<c:chartSpace xmlns:c="urn:c" xmlns:a="urn:a"><c:title><a:p><a:r><a:t>Sales of </a:t></a:r><a:r><a:t>marmalade</a:t></a:r>'
    "</a:p></c:title><c:strCache><c:pt><c:v>Novosibirsk</c:v></c:pt></c:strCache>"
    "<c:numCache><c:pt><c:v>0.4711</c:v></c:pt></c:numCache></c:chartSpace>"
)


@pytest.mark.parametrize(
    ("source", "name", "folder"),
    [(docx("A medlar is bletted."), "a.docx", "word"), (xlsx(), "a.xlsx", "xl")],
    ids=["docx", "xlsx"],
)
def test_the_words_of_a_chart_are_read_and_not_its_numbers(extraction, source, name, folder):
    plain = extraction.extract(source, name).text
    text = extraction.extract(
        _with_parts(source, {f"{folder}/charts/chart1.xml": _CHART}), name
    ).text

    assert text == f"{plain.strip()}\n\nSales of marmalade\n\nNovosibirsk"


def test_the_words_of_charts_and_boxes_in_an_old_workbook_are_read():
    def record(kind: int, body: bytes) -> bytes:
        return struct.pack("<HH", kind, len(body)) + body

    wide = "Новосибирск".encode("utf-16-le")
    stream = b"".join(
        (
            record(0x100D, b"\0\0\x05\0Sales"),
            record(0x0204, b"\0" * 6 + struct.pack("<H", 11) + b"\1" + wide),
            # A text box, its words in two records.
            record(0x01B6, b"\0" * 10 + struct.pack("<H", 9) + b"\0" * 6),
            record(0x003C, b"\0of quin"),
            record(0x003C, b"\1" + "ce".encode("utf-16-le")),
            # Its formatting, and records that are cut off.
            record(0x003C, b"\0" * 16),
            record(0x100D, b"\0\0\xff"),
            b"\x0d\x10\xff",
        )
    )

    assert list(sheet_texts(stream)) == ["Sales", "Новосибирск", "of quince"]


def test_a_text_box_hides_no_words_of_its_paragraph(extraction):
    inner = "<w:txbxContent><w:p><w:r><w:t>In a marmot box</w:t></w:r></w:p></w:txbxContent>"
    box = f"<w:p><w:r><w:t>Beside the box</w:t></w:r><w:r><w:pict>{inner}</w:pict></w:r></w:p></w:body>"
    text = extraction.extract(
        _with_parts(docx("A medlar is bletted."), {}, body=("</w:body>", box)), "a.docx"
    ).text

    assert [
        text.count(words) for words in ("A medlar is bletted.", "Beside the box", "In a marmot box")
    ] == [1, 1, 1]


def _escaped(byte: int) -> str:
    return f"\\'{byte:02x}"


def _second_byte_plain(byte: int) -> str:
    return chr(byte) if byte < 128 and chr(byte) not in "\\{}" else _escaped(byte)


def _raw(byte: int) -> str:
    return f"\\{chr(byte)}" if chr(byte) in "\\{}" else chr(byte)


@pytest.mark.parametrize(
    "write", [_escaped, _second_byte_plain, _raw], ids=lambda write: write.__name__
)
@pytest.mark.parametrize("page", [r"\ansicpg932", r"\ansicpg1252", ""])
def test_an_rtf_document_in_shift_jis_is_read_however_its_bytes_are_written(
    extraction, page, write
):
    # ソ, 表 and 能 have a backslash for their second byte.
    words = "吾輩は猫である。表示ソース能"
    body = "".join(map(write, words.encode("cp932")))
    source = (
        rf"{{\rtf1\ansi{page}\deff0{{\fonttbl{{\f0\fnil\fcharset128 MS Mincho;}}}}\f0 {body}\par}}"
    )

    assert extraction.extract(source.encode("latin-1"), "a.rtf").text.strip() == words


def test_spaces_between_chinese_letters_of_a_pdf_go_and_others_stay():
    from kb_formats.pdf import _clean

    assert _clean("浅 谈 校 长 的 魅 力") == "浅谈校长的魅力"
    assert _clean("日本語 テキスト") == "日本語 テキスト"
    assert _clean("부산 시 청") == "부산 시 청"


@pytest.mark.parametrize("charset", ["shift_jis", "euc-jp", "iso-2022-jp"])
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.html", '<html><head><meta charset="{}"></head><body><p>{}</p></body></html>'),
        ("a.xml", '<?xml version="1.0" encoding="{}"?><a>{}</a>'),
    ],
)
def test_markup_is_read_in_the_japanese_encoding_it_declares(extraction, charset, name, source):
    words = "これは日本語の文書です。"

    assert words in extraction.extract(source.format(charset, words).encode(charset), name).text


def test_a_stray_zero_does_not_make_a_text_binary(extraction):
    text = b"A log of the night shift.\n" * 20

    assert extraction.extract(text + b"\x00" + text, "a.log").text.count("night shift") == 40
    assert "binary" in refused(extraction, text + bytes(len(text)), "a.txt")
    assert "binary" in refused(extraction, random.Random(1).randbytes(50_000), "a.txt")


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"\xffWPC" + bytes(200), "letter.doc", "WordPerfect"),
        (
            b"\x09\x04\x06\x00\x00\x00\x10\x00" + bytes(200),
            "table.xls",
            "Excel workbook of version 4",
        ),
    ],
)
def test_an_old_format_is_named_and_not_called_damaged(extraction, data, name, words):
    message = refused(extraction, data, name)
    assert words in message and "damaged" not in message
