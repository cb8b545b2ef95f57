"""A file that tells of PDF is not one for that."""

from __future__ import annotations

import io
import zipfile

import pytest
from kb_text.api import detect

PDF = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n"


def stored_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("good.pdf", PDF)
        archive.writestr("notes.md", "# Zebras")
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (PDF, "a.pdf", "pdf"),
        (PDF, "a.txt", "pdf"),
        (PDF, "a", "pdf"),
        (b"junk\n" + PDF, "a.bin", "pdf"),
        (b"junk\n" + PDF, "a.pdf", "pdf"),
        (b"%PDF-1.7 and then nothing", "a.pdf", "pdf"),
        (b"%PDF-1.7 and then nothing", "a.bin", "pdf"),
        (b"Every PDF starts with `%PDF-1.7`.", "about.md", "markdown"),
        (b"Every PDF starts with `%PDF-1.7` and has objects (1 0 obj).", "about.md", "markdown"),
        (stored_zip(), "a.zip", "zip"),
    ],
)
def test_d8_a_pdf_is_what_begins_as_one(data: bytes, name: str, kind: str) -> None:
    assert detect(data, name) == kind
