"""Which extractor reads a file where several could."""

from __future__ import annotations

import json
from pathlib import Path

from kb_framework.client import connect
from kb_testing.fixtures import Install, Run


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
