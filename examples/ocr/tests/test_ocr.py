"""Scans and images are found by the words that they show."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest

from kb_framework.client import Engine
from kb_framework.errors import EngineError


def picture(*lines: str) -> PIL.Image.Image:
    drawn = PIL.Image.new("RGB", (900, 120 * max(len(lines), 1)), "white")
    pen = PIL.ImageDraw.Draw(drawn)
    for number, line in enumerate(lines):
        pen.text((40, 30 + 120 * number), line, "black", PIL.ImageFont.load_default(48))
    return drawn


def as_bytes(drawn: PIL.Image.Image, kind: str, **more: Any) -> bytes:
    file = io.BytesIO()
    drawn.save(file, kind, **more)
    return file.getvalue()


def chunks(engine: Engine, document: dict[str, Any]) -> list[dict[str, Any]]:
    return engine.get(f"/documents/{document['id']}/chunks")["data"]


def test_a_scanned_pdf_is_found_by_its_words_with_its_page(kb_engine: Engine) -> None:
    scan = as_bytes(
        picture("Heat pump manual"),
        "PDF",
        save_all=True,
        append_images=[picture("Defrost every winter")],
    )

    kb_engine.add_file("manual.pdf", scan)

    hit = kb_engine.search(query="defrost", mode="lexical")["hits"][0]
    assert "winter" in hit["snippet"]
    assert hit["citation"].startswith("manual.pdf#page=")


def test_lines_of_an_image_are_in_reading_order(kb_engine: Engine) -> None:
    added = kb_engine.add_file("sign.png", as_bytes(picture("First line", "Second line"), "PNG"))

    assert chunks(kb_engine, added["document"])[0]["content"] == "First line\nSecond line"


def test_an_image_without_text_is_refused_with_a_reason(kb_engine: Engine) -> None:
    with pytest.raises(EngineError, match="no text was recognised"):
        kb_engine.add_file("blank.png", as_bytes(picture(), "PNG"))


def test_a_broken_image_is_refused_with_a_reason(kb_engine: Engine) -> None:
    broken = as_bytes(picture("Heat pump"), "PNG")[:200]

    with pytest.raises(EngineError, match="cannot be decoded"):
        kb_engine.add_file("broken.png", broken)


def test_a_pdf_with_text_keeps_its_own(kb_engine: Engine, tmp_path: Path) -> None:
    page = (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 5 0 R"
        b"/Resources<</Font<</F1 4 0 R>>>>>>endobj\n"
        b"4 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
        b"5 0 obj<</Length 44>>stream\nBT /F1 24 Tf 20 40 Td (Own text layer) Tj ET\nendstream endobj\n"
        b"trailer<</Root 1 0 R>>\n"
    )

    added = kb_engine.add_file("own.pdf", page)

    assert "ocr" not in added["document"]["metadata"]
    assert chunks(kb_engine, added["document"])[0]["content"] == "Own text layer"
