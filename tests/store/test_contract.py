"""Every store keeps the contract of `kb_framework.api.engine`; a plugin can add one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_framework.app import load_plugin_settings, open_store
from kb_framework.bootstrap import read_bootstrap
from kb_framework.plugins import Plugins
from kb_framework.storage.store import Store
from kb_testing.fixtures import Install, Run
from kb_testing.stores import check_store

# A store of a third party: SQLite files that are named by the address.
PLUGIN = """
from pathlib import Path

from kb_framework import api, hookimpl
from kb_sqlite.api import SqliteEngine


def open_engine(location, settings):
    assert settings is None
    return SqliteEngine(Path(location.url.removeprefix("elsewhere://")), location.busy_timeout)


@hookimpl
def kb_stores():
    return [api.Store("Elsewhere", "elsewhere", f"{__name__}:open_engine")]
"""


@pytest.fixture
def store(kb_home: Path) -> Iterator[Store]:
    plugins = Plugins(read_bootstrap())
    opened = open_store(load_plugin_settings(read_bootstrap(), plugins), plugins)
    yield opened
    opened.close()


def test_the_store_keeps_the_contract(store: Store) -> None:
    check_store(store)


@pytest.mark.sqlite_only("the accelerator is its own")
def test_the_store_keeps_the_contract_with_an_accelerator(store: Store, kb_home: Path) -> None:
    from kb_sqlite.accelerator.builder import SegmentBuilder

    builder = SegmentBuilder(store, kb_home / "side", min_chunks=1, tail_rows=1)

    check_store(store, builder.run)

    assert any((kb_home / "side").iterdir())


@pytest.mark.new_database
@pytest.mark.sqlite_only("this test names another database")
def test_a_plugin_adds_a_store(
    kb_home: Path, tmp_path: Path, kb_plugin: Install, kb_run: Run
) -> None:
    kb_plugin("elsewhere", PLUGIN)
    place = tmp_path / "elsewhere.sqlite"
    environment = {"KB_DATABASE_URL": f"elsewhere://{place}"}

    note = tmp_path / "note.txt"
    note.write_text("zebras eat grass")
    added = kb_run("add", str(note), **environment)

    assert added.returncode == 0, added.stderr
    assert place.exists()
    assert not (kb_home / "kb.sqlite").exists()
    found = json.loads(kb_run("search", "zebras", "--json", **environment).stdout)
    assert len(found["hits"]) == 1


@pytest.mark.sqlite_only("this test names another database")
def test_an_address_that_no_plugin_opens_is_refused(kb_home: Path, kb_run: Run) -> None:
    refused = kb_run("list", KB_DATABASE_URL="mysql://somebody:s3cret@host/kb")

    assert refused.returncode == 2
    assert "mysql://" in refused.stderr
    assert "postgresql://" in refused.stderr
    assert "s3cret" not in refused.stderr


@pytest.mark.sqlite_only("it is the store that is switched off")
def test_without_the_store_of_the_data_folder_it_says_which_plugin_to_enable(
    kb_home: Path, kb_run: Run
) -> None:
    refused = kb_run("list", KB_DISABLED_PLUGINS="sqlite")

    assert refused.returncode == 2
    assert "kb plugins enable sqlite" in refused.stderr
    assert kb_run("plugins", KB_DISABLED_PLUGINS="sqlite").returncode == 0
    assert kb_run("config", KB_DISABLED_PLUGINS="sqlite").returncode == 0


@pytest.mark.sqlite_only("this test names another database")
def test_an_address_whose_store_is_switched_off_names_the_plugin_alone(
    kb_home: Path, kb_run: Run
) -> None:
    refused = kb_run(
        "list", KB_DATABASE_URL="postgresql://somebody@host/kb", KB_DISABLED_PLUGINS="postgres"
    )

    assert refused.returncode == 2
    assert "kb plugins enable postgres" in refused.stderr
    assert "may begin with" not in refused.stderr
