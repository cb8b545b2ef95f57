"""The hook `kb_hookspecs`: a plugin brings hooks, which other plugins implement."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from kb_framework.api.parts import Plugins
from kb_framework.bootstrap import read_bootstrap
from kb_framework.discovery import PluginInfo
from kb_framework.errors import PluginFailed
from kb_testing.fixtures import Install

SPECS = """
from typing import NamedTuple
from kb_framework.api.hooks import hookspec, registration

class Station(NamedTuple):
    name: str

@registration(Station, "weather station")
def kb_stations(): ...

@hookspec
def kb_rain(amount): ...
"""
OWNER = """
from kb_framework import api, hookimpl

@hookimpl
def kb_hookspecs():
    return [api.Hookspecs("SPECS")]
"""
STATIONS = """
from kb_framework import hookimpl
from SPECS import Station

@hookimpl
def kb_stations():
    return [Station("north"), Station("south")]

@hookimpl
def kb_rain(amount):
    return 2 * amount
"""


@pytest.fixture
def specs(request: pytest.FixtureRequest) -> str:
    """A module name of this test's own: what was imported stays imported."""
    return f"kb_rain_{abs(hash(request.node.nodeid))}"


@pytest.fixture
def rain(kb_home: Path, kb_plugin: Install, tmp_path: Path, specs: str) -> Install:
    """Installs plugins; one with two hooks is there."""

    def install(name: str, source: str, **options: str) -> None:
        kb_plugin(name, source.replace("SPECS", specs), **options)

    install("rain", OWNER)
    (tmp_path / "installed" / f"{specs}.py").write_text(SPECS, encoding="utf-8")
    return install  # type: ignore[return-value]


def infos() -> dict[str, PluginInfo]:
    return {info.name: info for info in Plugins(read_bootstrap()).infos}


def test_what_a_plugin_registers_with_anothers_hook_is_collected_and_shown(
    rain: Install, specs: str
) -> None:
    rain("a_stations", STATIONS)
    plugins = Plugins(read_bootstrap())
    found = plugins.registry(importlib.import_module(specs).Station)

    assert [item.name for item in found] == ["north", "south"]
    assert found.plugin_of("north") == "a_stations"
    assert infos()["a_stations"].contributes == {"stations": ["north", "south"]}
    assert infos()["a_stations"].hooks == ["kb_rain", "kb_stations"]
    assert infos()["rain"].contributes == {"hookspecs": [specs]}


def test_what_two_plugins_register_under_one_name_clashes(rain: Install) -> None:
    rain("stations", STATIONS)
    rain("twins", STATIONS)

    assert (
        infos()["twins"].reason
        == "the weather station 'north' is contributed by both 'stations' and 'twins'"
    )


def test_a_registration_of_the_wrong_type_fails_its_plugin(rain: Install) -> None:
    rain("stations", STATIONS.replace('[Station("north"), Station("south")]', "['north']"))

    assert (
        infos()["stations"].reason == "kb_stations must return a list of Station; it holds 'north'"
    )


def test_a_plugin_calls_its_hook_plugin_by_plugin(rain: Install) -> None:
    rain("stations", STATIONS)
    rain(
        "weird",
        STATIONS.replace("north", "up").replace("south", "down").replace("2 * amount", "1 / 0"),
    )
    plugins = Plugins(read_bootstrap())
    answers = plugins.ask("kb_rain", int, amount=4)

    assert next(answers) == 8
    with pytest.raises(PluginFailed, match="plugin 'weird' failed in kb_rain: ZeroDivisionError"):
        next(answers)


def test_a_misspelt_hook_of_another_plugin_is_found(rain: Install) -> None:
    rain("stations", STATIONS.replace("def kb_rain", "def kb_rains"))

    assert (
        infos()["stations"].reason == "there is no hook named 'kb_rains'; did you mean 'kb_rain'?"
    )


def test_parameters_that_another_plugins_hook_does_not_have_fail_the_implementer(
    rain: Install,
) -> None:
    rain("stations", STATIONS.replace("kb_rain(amount)", "kb_rain(amount, place)"))

    assert "place" in (infos()["stations"].reason or "")
    assert infos()["rain"].state == "active"


@pytest.mark.parametrize(
    ("mark", "state"), [("@hookimpl", "failed"), ("@hookimpl(optionalhook=True)", "active")]
)
def test_a_hook_of_a_plugin_that_is_not_there_must_be_optional(
    kb_home, kb_plugin: Install, mark: str, state: str
) -> None:
    source = (
        f"from kb_framework import hookimpl\n\n{mark}\ndef kb_rain(amount):\n    return amount\n"
    )
    kb_plugin("stations", source)

    assert infos()["stations"].state == state


def test_hooks_of_a_built_in_plugin_that_is_switched_off_are_known(
    kb_home, kb_plugin: Install, monkeypatch
) -> None:
    answer = "[api.Chunker('odd', 'json:loads')]"
    kb_plugin(
        "odd",
        f"from kb_framework import api, hookimpl\n\n@hookimpl\ndef kb_chunkers():\n    return {answer}\n",
    )
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "documents")

    assert (infos()["odd"].state, infos()["odd"].reason) == ("active", None)
    assert infos()["formats"].state == "active"


def test_a_hook_that_is_there_already_is_not_brought_again(
    rain: Install, tmp_path: Path, specs: str
) -> None:
    source = "from kb_framework.api.hooks import hookspec\n\n@hookspec\ndef kb_guard_mutation(plan): ...\n"
    (tmp_path / "installed" / f"{specs}.py").write_text(source, encoding="utf-8")

    assert infos()["rain"].reason == f"{specs} specifies kb_guard_mutation, which is a hook already"
