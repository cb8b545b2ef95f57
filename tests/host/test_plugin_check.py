"""`kb plugins check`, and what is said when a plugin is switched off."""

from __future__ import annotations

import json

import pytest

from kb_framework.client import connect

START = "from kb_framework import api, hookimpl\n\n"
GOOD = "\n@hookimpl\ndef kb_permissions():\n    return []\n"


def hook(name: str, answer: str) -> str:
    return f"\n@hookimpl\ndef {name}():\n    return [{answer}]\n"


ROUTE = """
from litestar import get

@get("/weather", sync_to_thread=False, opt={opt})
def weather() -> dict[str, str]:
    return {{}}

def tool(engine) -> dict[str, str]:
    return {{}}

class Service:
    def __init__(self, stor): ...

@hookimpl
def kb_routes():
    return [api.Routes("weather", f"{{__name__}}:weather")]
"""
FINDINGS = {
    "a helper named like a hook": (
        GOOD + "\ndef kb_guard_mutations(plan):\n    return []\n",
        "kb_guard_mutations has no @hookimpl, and there is no hook of that name; did you mean 'kb_guard_mutation'?",
    ),
    "a module that cannot be imported": (
        hook("kb_services", "api.Service('odd', 'antigravity_is_missing.py:x')"),
        "failed: service 'odd'",
    ),
    "a route without permission": (
        ROUTE.format(opt="{}"),
        "the route GET /weather names no permission: with keys, nobody may use it",
    ),
    "an undeclared permission": (
        ROUTE.format(opt="{'permission': 'documents.raed'}"),
        "the route GET /weather names the permission 'documents.raed', which no plugin declares; did you mean 'documents.read'?",
    ),
    "a tool without permission": (
        ROUTE.format(opt="{'permission': 'documents.read'}")
        + hook("kb_tools", "api.Tool('kb_odd', f'{__name__}:tool', 'Odd', 'read')"),
        "the tool kb_odd names no permission",
    ),
    "a constructor": (
        ROUTE.format(opt="{'permission': 'documents.read'}")
        + hook("kb_services", "api.Service('odd', f'{__name__}:Service')"),
        "service 'odd': nothing is called 'stor', which its constructor asks for; did you mean 'store'?",
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_g4_check_finds_it_and_says_so_with_its_exit_code_and_in_doctor(
    plugin, kb_here, case
) -> None:
    source, message = FINDINGS[case]
    plugin("odd", START + source)

    done = kb_here("plugins", "check", "odd", "--json")
    with connect() as engine:
        doctor = engine.get("/doctor")

    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["ok"] is False
    assert [item["state"] for item in found["findings"]] == ["error"]
    assert message in found["findings"][0]["message"]
    assert any(
        "odd" in check["message"] and check["state"] == "error"
        for check in doctor["checks"]
        if check["name"] == "plugins"
    )


def test_g4_a_tool_that_needs_another_permission_than_the_routes_is_a_warning(
    plugin, kb_here
) -> None:
    tool = hook(
        "kb_tools",
        "api.Tool('kb_odd', f'{__name__}:tool', 'Odd', 'read', permission='documents.delete')",
    )
    plugin("odd", START + ROUTE.format(opt="{'permission': 'documents.read'}") + tool)

    done = kb_here("plugins", "check", "odd")

    assert done.returncode == 0
    assert (
        "warning\tthe tool kb_odd needs documents.delete, but no route of the plugin does"
        in done.stdout
    )


def test_g4_a_slow_import_is_a_warning(plugin, kb_here) -> None:
    plugin(
        "slow",
        START
        + "import time\nend = time.thread_time() + 0.3\nwhile time.thread_time() < end: pass\n"
        + GOOD,
    )

    assert "importing its entry point takes" in kb_here("plugins", "check", "slow").stdout


def test_g4_check_is_content_with_every_built_in_plugin(kb_here) -> None:
    done = kb_here("plugins", "check", "--json")

    assert done.returncode == 0
    assert [item for item in json.loads(done.stdout)["findings"] if item["state"] != "ok"] == []


@pytest.mark.parametrize(
    ("disabled", "state", "code"), [("formats", "warning", 0), ("", "error", 1)]
)
def test_a_service_that_only_a_disabled_plugin_may_offer_is_a_warning(
    plugin, kb_here, monkeypatch, disabled, state, code
) -> None:
    source = "class Service:\n    def __init__(self, zephyr): ...\n" + hook(
        "kb_services", "api.Service('odd', f'{__name__}:Service')"
    )
    plugin("odd", START + source)
    monkeypatch.setenv("KB_DISABLED_PLUGINS", disabled)

    done = kb_here("plugins", "check", "odd", "--json")

    [found] = json.loads(done.stdout)["findings"]
    assert (done.returncode, found["state"]) == (code, state)
    assert "nothing is called 'zephyr'" in found["message"]
    assert found["message"].endswith("a disabled plugin may offer it: formats") is bool(disabled)


def test_check_of_a_plugin_that_is_not_there_says_which_is_meant(kb_here) -> None:
    done = kb_here("plugins", "check", "serch")

    assert done.returncode == 2
    assert "there is no plugin 'serch'; did you mean 'search'?" in done.stderr


def test_a_plugin_that_is_switched_off_says_what_is_gone(kb_here) -> None:
    done = kb_here("plugins", "disable", "documents")

    assert done.returncode == 0
    assert "gone from the next command on: commands add, " in done.stderr
    assert "kb plugins enable documents brings it back" in done.stderr


def test_a_command_of_a_disabled_plugin_says_that_it_is_disabled(plugin, kb_here) -> None:
    plugin("weather", START + GOOD)
    for name in ("research", "weather"):
        kb_here("plugins", "disable", name)
        done = kb_here(name, "search", "x")

        assert done.returncode == 2
        assert (
            f"the command '{name}' belongs to the plugin {name}, which is disabled" in done.stderr
        )
        assert f"kb plugins enable {name}" in done.stderr
