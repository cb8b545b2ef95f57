"""File names as text: any name, and back."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kb_documents.api import printable, real_path
from kb_documents.filenames import INSIDE, source_name

NAMES = st.binary(min_size=1, max_size=60).map(lambda raw: raw.replace(b"\x00", b"/"))
TRICKY = st.lists(
    st.sampled_from(
        [b"\\", b"x", b"\\xff", b"\xff", b"5c", b"!", b"/", b"\n", "ü".encode(), b"\xe2\x80\xae"]
    )
)


@given(st.one_of(NAMES, TRICKY.map(b"".join)))
def test_every_name_becomes_text_and_the_same_name_again(raw: bytes) -> None:
    name = os.fsdecode(raw)
    for text in (printable(name), source_name(name)):
        assert os.fsencode(real_path(text)) == raw
        text.encode()
        assert not [
            character
            for character in text
            if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        ]
    assert INSIDE not in source_name(name)


@given(TRICKY.map(b"".join), TRICKY.map(b"".join))
def test_different_names_have_different_texts(one: bytes, other: bytes) -> None:
    assert (printable(os.fsdecode(one)) == printable(os.fsdecode(other))) == (one == other)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"notes/a.md", "notes/a.md"),
        ("Überraschung 한글.md".encode(), "Überraschung 한글.md"),
        (b"bad\xff\xfe.md", r"bad\xff\xfe.md"),
        (b"two\nlines\x1b[31m.md", r"two\x0alines\x1b[31m.md"),
        ("invoice\u202efdp.exe".encode(), r"invoice\xe2\x80\xaefdp.exe"),
        (rb"literal\xff.md", r"literal\x5cxff.md"),
        (rb"C:\new.md", r"C:\new.md"),
    ],
)
def test_only_what_cannot_be_shown_is_escaped(raw: bytes, text: str) -> None:
    assert printable(os.fsdecode(raw)) == text
