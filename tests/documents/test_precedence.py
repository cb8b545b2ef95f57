"""Which extractor reads a file where several could."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb_framework.client import connect
from kb_framework.errors import EngineError
from kb_testing.fixtures import Install, Run

# One empty page.
BLANK_PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj
trailer<</Root 1 0 R>>
"""


def reader(name: str, precedence: str = "") -> str:
    return f"""
from kb_framework import api, hookimpl

@hookimpl
def kb_extractors():
    return [api.Extractor("{name}", "kb_{name}:read", media="markdown", suffixes=(".md",){precedence})]

def read(data, name):
    return api.Extracted("read by {name}", "markdown")
"""


def text_of(path: Path) -> str:
    with connect() as engine:
        document = engine.add_file(path.name, path.read_bytes())["document"]
        return engine.get(f"/documents/{document['id']}/chunks")["data"][0]["content"]


def test_a_plugin_replaces_a_built_in_extractor_whatever_its_name(
    kb_home: Path, kb_plugin: Install, tmp_path: Path
) -> None:
    path = tmp_path / "a.md"
    path.write_text("a river")
    kb_plugin("zebra", reader("zebra"), module="kb_zebra")

    assert text_of(path) == "read by zebra"


def test_an_extractor_with_a_low_precedence_leaves_files_to_the_built_in_one(
    kb_home: Path, kb_plugin: Install, tmp_path: Path
) -> None:
    path = tmp_path / "a.md"
    path.write_text("a river")
    kb_plugin("aardvark", reader("aardvark", ", precedence=-1"), module="kb_aardvark")

    assert text_of(path) == "a river"


def test_an_extractor_with_a_low_precedence_reads_what_the_built_in_one_finds_no_text_in(
    kb_home: Path, kb_plugin: Install, tmp_path: Path
) -> None:
    path = tmp_path / "blank.pdf"
    path.write_bytes(BLANK_PDF)
    source = reader("scans", ", precedence=-1").replace(
        '"markdown", suffixes=(".md",)', '"pdf", suffixes=()'
    )
    kb_plugin("scans", source, module="kb_scans")

    assert text_of(path) == "read by scans"


def test_a_file_in_which_no_extractor_finds_text_fails_with_the_first_ones_reason(
    kb_home: Path, kb_plugin: Install, tmp_path: Path
) -> None:
    source = reader("scans", ", precedence=-1").replace(
        '"markdown", suffixes=(".md",)', '"pdf", suffixes=()'
    )
    source = source.replace(
        'return api.Extracted("read by scans", "markdown")', "raise NoText('nothing here')"
    )
    kb_plugin("scans", "from kb_framework.errors import NoText\n" + source, module="kb_scans")

    with connect() as engine, pytest.raises(EngineError, match="the PDF holds no text"):
        engine.add_file("blank.pdf", BLANK_PDF)


def test_kb_plugins_names_the_extractor_that_is_not_used(
    kb_home: Path, kb_plugin: Install, kb_run: Run
) -> None:
    kb_plugin("zebra", reader("zebra"), module="kb_zebra")

    plugins = {info["name"]: info for info in json.loads(kb_run("plugins", "--json").stdout)}

    assert plugins["documents"]["shadowed"] == [
        "extractor 'markdown' is not used for 'markdown': 'zebra' of 'zebra' has precedence 100, this one 0",
        "extractor 'markdown' is not used for '.md': 'zebra' of 'zebra' has precedence 100, this one 0",
    ]
    assert plugins["zebra"]["shadowed"] == []


def test_two_plugins_with_equal_precedence_clash_by_name(
    kb_home: Path, kb_plugin: Install, kb_run: Run
) -> None:
    kb_plugin("zebra", reader("zebra"), module="kb_zebra")
    kb_plugin("yak", reader("yak"), module="kb_yak")

    plugins = {info["name"]: info for info in json.loads(kb_run("plugins", "--json").stdout)}

    assert (plugins["yak"]["state"], plugins["zebra"]["state"]) == ("active", "failed")
    assert (
        "'yak' of 'yak' and 'zebra' of 'zebra' both read 'markdown' with precedence 100"
        in plugins["zebra"]["reason"]
    )
