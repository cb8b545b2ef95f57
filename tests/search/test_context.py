"""A chunk is embedded with what it stands under, however its vector came to be."""

from __future__ import annotations

import pytest
from kb_models.api import embedded_text

from kb_framework.app import open_kb
from kb_framework.client import Engine, connect


def test_title_and_headings_come_first_unless_the_text_has_them() -> None:
    headings = {"heading_path": ["Ops", "Keys"]}

    assert (
        embedded_text("manual.md", "Rotated monthly.", headings)
        == "manual.md\nOps\nKeys\nRotated monthly."
    )
    assert (
        embedded_text("manual.md", "## Keys\n\nRotated monthly.", headings)
        == "manual.md\nOps\n## Keys\n\nRotated monthly."
    )
    assert embedded_text("Rotated mon…", "Rotated monthly.", {}) == "Rotated monthly."
    assert embedded_text("Ops", "Rotated.", {"heading_path": ["Ops"]}) == "Ops\nRotated."


def best(engine: Engine) -> str:
    return engine.search("doctor", mode="vector")["hits"][0]["title"]


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_chunk_is_found_by_the_meaning_of_its_title(kb_home, rebuilt: bool) -> None:
    with connect() as engine:
        engine.add_note("It is open from nine to five.", title="The harbour")
        engine.add_note("It is open from nine to five.", title="The physician")
        engine.add_note("It is open from nine to five.", title="The bakery")
    if rebuilt:
        kb = open_kb()
        assert kb.services["embedding"].rebuild().step(60).finished
        kb.close()

    with connect() as engine:
        assert best(engine) == "The physician"
