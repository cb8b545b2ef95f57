"""The surfaces as they are: help, the OpenAPI document, the tools of each profile, and the public names.

A change of a surface changes a file in `golden/`, so that a review sees it. To accept a change:
`pytest tests/contracts/test_goldens.py --update-goldens`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from kb_framework import api, errors, hookspecs
from kb_framework.api import hooks
from kb_framework.app import open_kb
from kb_framework.bootstrap import read_bootstrap
from kb_framework.edges.cli.app import build_app
from kb_framework.edges.http.app import create_app
from kb_framework.edges.http.openapi import document
from kb_framework.edges.mcp.tools import PROFILES, bind_tools
from kb_framework.plugins import Plugins

GOLDEN = Path(__file__).parent / "golden"
# Installed by the tests; its contributions are its own.
OUTSIDE = "legalhold"

Compare = Callable[[str, str], None]


@pytest.fixture
def plugins(kb_home: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    monkeypatch.setenv("KB_DISABLED_PLUGINS", OUTSIDE)
    return Plugins(read_bootstrap())


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-goldens"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), (
            f"{name} differs; see the docstring of this file"
        )

    return compare


def as_json(value: Any) -> str:
    return (
        json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, default=to_jsonable_python)
        + "\n"
    )


def test_the_help_of_every_command_is_as_it_was(
    plugins: Plugins,
    compare: Compare,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    build_app(plugins, []).help_print([])
    for command in plugins.commands:
        words = command.name.split()
        build_app(plugins, words).help_print(words)

    lines = capsys.readouterr().out.splitlines()
    compare("help.txt", "".join(f"{line.rstrip()}\n" for line in lines))


def test_the_openapi_document_is_as_it_was(plugins: Plugins, compare: Compare) -> None:
    with closing(open_kb(plugins=plugins)) as kb:
        app: Any = create_app(kb)
        compare("openapi.json", as_json(document(app.app, kb.dispatcher)))


def test_the_tools_of_every_profile_are_as_they_were(plugins: Plugins, compare: Compare) -> None:
    tools = {profile: bind_tools(plugins, profile) for profile in PROFILES}
    described = {
        tool.description.name: tool.description.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        for tool in tools[PROFILES[-1]].values()
    }
    compare(
        "tools.json",
        as_json(
            {"profiles": {name: sorted(bound) for name, bound in tools.items()}, "tools": described}
        ),
    )


def test_the_public_names_are_as_they_were(compare: Compare) -> None:
    names = [name for module in (api, hooks, errors, hookspecs) for name in public_names(module)]
    compare("public_names.txt", "".join(f"{name}\n" for name in names))


def public_names(module: ModuleType) -> Iterator[str]:
    for name, value in sorted(vars(module).items()):
        if (
            name.startswith("_")
            or inspect.ismodule(value)
            or not f"{getattr(value, '__module__', module.__name__)}.".startswith(
                f"{module.__name__}."
            )
        ):
            continue
        signature = str(inspect.signature(value)) if inspect.isfunction(value) else ""
        yield f"{module.__name__}.{name}{signature}"
        if inspect.isclass(value) and issubclass(value, tuple):
            yield from (
                f"{module.__name__}.{name}.{field}" for field in getattr(value, "_fields", ())
            )
