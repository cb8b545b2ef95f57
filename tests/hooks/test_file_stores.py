"""The hook `kb_file_stores`: the scheme of KB_FILES_URL chooses the place for stored files."""

from __future__ import annotations

import pytest

from kb_framework.client import connect
from kb_framework.errors import ConfigInvalid, EngineError
from kb_testing.fixtures import Install

PLUGIN = """
from kb_files.api import LocalFiles
from kb_framework import api, hookimpl

def open_attic(url, data_dir):
    return LocalFiles(data_dir / url.removeprefix("attic://"))

@hookimpl
def kb_file_stores():
    return [api.FileStore("NAME", "attic", f"{__name__}:open_attic")]
"""


def test_a_plugins_file_store_is_used_for_addresses_with_its_scheme(
    kb_home, kb_plugin: Install, monkeypatch
) -> None:
    kb_plugin("attic", PLUGIN.replace("NAME", "attic"))
    monkeypatch.setenv("KB_FILES_URL", "attic://box")

    with connect() as engine:
        engine.add_note("apple pie")
        assert engine.get("/doctor")["status"] == "ok"

    assert len(list((kb_home / "box").glob("??/*"))) == 1
    assert not (kb_home / "files").exists()


def test_two_file_stores_for_one_scheme_are_refused_by_name(
    kb_home, kb_plugin: Install, monkeypatch
) -> None:
    kb_plugin("attic", PLUGIN.replace("NAME", "attic"))
    kb_plugin("loft", PLUGIN.replace("NAME", "loft"))
    monkeypatch.setenv("KB_FILES_URL", "attic://box")

    with pytest.raises(ConfigInvalid, match="'attic' and 'loft'"):
        connect()


def test_an_address_of_a_scheme_that_no_plugin_has_is_refused(kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_FILES_URL", "attic://box")

    with pytest.raises(ConfigInvalid, match="not known"):
        connect()


def test_without_any_file_store_documents_are_read_and_none_is_added(kb_home, monkeypatch) -> None:
    with connect() as engine:
        engine.add_note("apple pie")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "files")

    with connect() as engine:
        assert len(engine.search("apple")["hits"]) == 1
        with pytest.raises(EngineError) as caught:
            engine.add_note("pear cake")

    assert (caught.value.code, caught.value.http_status) == ("files_unreachable", 503)
    assert "no active plugin stores files" in str(caught.value)
