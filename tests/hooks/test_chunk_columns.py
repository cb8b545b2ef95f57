"""A plugin's own columns on chunks: shown where chunks are read while it is on, and kept while it is off."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb_framework.api.chunks import hit_columns
from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import connect
from kb_framework.plugins import Plugins
from kb_testing.fixtures import Install

MOOD = """
import sqlalchemy as sa
from kb_framework import api, hookimpl

@hookimpl
def kb_migrations():
    return [api.Migration(1, "mood", "kb_mood:add_mood")]

def add_mood(tx):
    tx.execute(sa.text("ALTER TABLE chunks ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'"))
    tx.execute(sa.text("ALTER TABLE chunks ADD COLUMN is_loud BOOLEAN NOT NULL DEFAULT FALSE"))

@hookimpl
def kb_chunk_columns():
    return [api.ChunkColumn("mood", in_hits=True), api.ChunkColumn("is_loud", type="boolean")]
"""


@pytest.fixture
def mood(kb_home: Path, kb_plugin: Install) -> None:
    kb_plugin("mood", MOOD, module="kb_mood")


def test_a_chunk_that_is_read_has_the_columns_that_plugins_declare(mood: None) -> None:
    with connect() as engine:
        number = engine.add_note("a quiet note")["document"]["id"]
        (chunk,) = engine.get_document_chunks(number)["data"]

    assert (chunk["mood"], chunk["is_loud"]) == ("calm", False)


def test_the_columns_are_gone_while_the_plugin_is_off_and_back_with_their_values(
    mood: None, monkeypatch
) -> None:
    import sqlalchemy as sa

    with connect() as engine:
        number = engine.add_note("a loud note")["document"]["id"]
    kb = open_kb()
    with kb.store.write() as tx:
        tx.execute(sa.text("UPDATE chunks SET mood = 'wild'"))
    kb.close()

    monkeypatch.setenv("KB_DISABLED_PLUGINS", "mood")
    with connect() as engine:
        assert "mood" not in engine.get_document_chunks(number)["data"][0]
        later = engine.add_note("a note of that time")["document"]["id"]

    monkeypatch.delenv("KB_DISABLED_PLUGINS")
    with connect() as engine:
        assert engine.get_document_chunks(number)["data"][0]["mood"] == "wild"
        assert engine.get_document_chunks(later)["data"][0]["mood"] == "calm"


def test_only_columns_that_say_so_belong_to_hits(mood: None) -> None:
    names = [column.name for column in hit_columns(Plugins(read_bootstrap()))]

    assert "mood" in names
    assert "is_loud" not in names


def test_a_hit_has_the_columns_that_say_so_and_no_others(mood: None) -> None:
    with connect() as engine:
        engine.add_note("a quiet note")
        (hit,) = engine.search("quiet")["hits"]

    assert hit["mood"] == "calm"
    assert "is_loud" not in hit


def test_the_curation_of_a_hit_is_null_while_nobody_curates(kb_home: Path, monkeypatch) -> None:
    for disabled, expected in (("", ("fact", "normal")), ("knowledge,research", (None, None))):
        monkeypatch.setenv("KB_DISABLED_PLUGINS", disabled)
        with connect() as engine:
            engine.add_note(f"a quiet note, {disabled or 'nothing'} off")
            hit = engine.search("quiet note")["hits"][0]
        assert (hit["chunk_kind"], hit["usage_policy"]) == expected


def test_two_plugins_cannot_declare_the_same_column(mood: None, kb_plugin: Install) -> None:
    kb_plugin("rival", MOOD.replace("kb_mood", "kb_rival"), module="kb_rival")

    rival = next(info for info in Plugins(read_bootstrap()).infos if info.name == "rival")

    assert rival.state == "failed"
    assert "chunk column 'is_loud'" in str(rival.reason) or "chunk column 'mood'" in str(
        rival.reason
    )
