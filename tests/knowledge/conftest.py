"""What these tests share: notes of one chunk each, by the words they are about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kb_framework.client import Engine


@pytest.fixture
def chunk_of(kb_engine: Engine) -> Callable[..., str]:
    """Adds a note of one chunk and gives the chunk's id."""

    def add(text: str, **fields) -> str:
        number = kb_engine.add_note(text, **fields)["document"]["id"]
        (chunk,) = kb_engine.get_document_chunks(number)
        return chunk["id"]

    return add
