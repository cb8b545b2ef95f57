"""A running engine whose plugins differ from a command's: every command says so, and `kb plugins` shows both sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.plugins import Plugins
from kb_framework.targets import differences
from kb_testing.fixtures import start_server, stop_server

GUARD = "from kb_framework import api, hookimpl\n\n@hookimpl\ndef kb_guard_mutation(plan):\n    return [api.Objection('no')]\n"
EARLY = "from kb_framework import hookimpl\n\n@hookimpl\ndef kb_permissions():\n    return []\n"
WARNING = "the running engine has other plugins than this command"


@pytest.fixture
def served(plugin, kb_home: Path) -> Iterator[str]:
    """A server with the plugin `early`; its module's name."""
    module = plugin("early", EARLY)
    server = start_server()
    yield module
    stop_server(server)


def test_g3_every_command_warns_of_a_plugin_that_the_running_engine_does_not_have(
    served, plugin, kb_here
) -> None:
    same = kb_here("list")
    plugin("late", GUARD)
    warned = [kb_here("list"), kb_here("note", "text"), kb_here("search", "text", "--json")]
    shown = {
        line.split("\t")[0]: line.split("\t") for line in kb_here("plugins").stdout.splitlines()
    }
    listed = {item["name"]: item for item in json.loads(kb_here("plugins", "--json").stdout)}

    assert WARNING not in same.stderr
    for answer in warned:
        assert (
            f"{WARNING}: late is not in the running engine. Restart kb serve to use these"
            in answer.stderr
        )
    assert shown["late"][3] == "active, not in the running engine"
    assert shown["early"][3] == "active"
    assert listed["late"]["engine"] == "not in the running engine"
    assert listed["early"]["engine"] is None


def test_g3_a_changed_or_disabled_plugin_is_a_difference(served, tmp_path, kb_here) -> None:
    source = tmp_path / "installed" / f"{served}.py"
    source.write_text(EARLY + "\n# edited\n", encoding="utf-8")
    edited = kb_here("list").stderr
    kb_here("plugins", "disable", "early")
    disabled = kb_here("list").stderr
    listed = {item["name"]: item for item in json.loads(kb_here("plugins", "--json").stdout)}

    assert f"{WARNING}: early is older or newer source in the running engine" in edited
    assert "early is only in the running engine" in disabled
    assert listed["early"]["engine"] == "only in the running engine"


def test_g3_an_engine_logs_the_plugins_that_failed(plugin, kb_home) -> None:
    plugin("broken", "raise RuntimeError('no license')")
    server = start_server()
    stop_server(server)

    said = [line for line in server.log if "plugin broken failed" in line]
    assert said and "no license" in said[-1]


def test_g3_the_differences_of_two_sets_of_plugins() -> None:
    here = {
        "same": "active 1.0 aa",
        "new": "active 1.0",
        "off": "disabled 1.0",
        "up": "active 1.1",
        "edit": "active 1.0 aa",
    }
    there = {
        "same": "active 1.0 aa",
        "gone": "active 2.0",
        "off": "active 1.0",
        "up": "active 1.0",
        "edit": "active 1.0 bb",
    }

    assert differences(there, here) == {
        "edit": "older or newer source in the running engine",
        "gone": "only in the running engine",
        "new": "not in the running engine",
        "off": "only in the running engine",
        "up": "version 1.0 in the running engine, 1.1 here",
    }
    assert differences(here, here) == {}


def test_prints_of_plugins_change_with_their_source(plugin, tmp_path) -> None:
    module = plugin("early", EARLY)
    before = Plugins(read_bootstrap()).prints
    (tmp_path / "installed" / f"{module}.py").write_text(EARLY + "\n", encoding="utf-8")
    after = Plugins(read_bootstrap()).prints

    assert before["early"] != after["early"]
    assert {name for name in before if before[name] != after[name]} == {"early"}
