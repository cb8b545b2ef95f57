"""Rules of the house that a program can check."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import uuid
from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

from kb_framework import hookspecs
from kb_framework.bootstrap import read_bootstrap
from kb_framework.discovery import HOST_DISTRIBUTION
from kb_framework.plugins import Plugins

EDGES = ("litestar", "cyclopts", "mcp")
HEAVY = ("litestar", "mcp", "sqlalchemy", "numpy", "pydantic", "rich", "uvicorn")

PACKAGES = sorted(
    entry_point.module.split(".")[0]
    for entry_point in importlib.metadata.entry_points(group="kb_framework")
    if entry_point.dist and entry_point.dist.name == HOST_DISTRIBUTION
)

# The modules of hook specifications, each with the package that calls their hooks.
SPECS = {
    "kb_framework": hookspecs,
    **{
        package: import_module(f"{package}.hookspecs")
        for package in PACKAGES
        if find_spec(f"{package}.hookspecs")
    },
}
CALLERS = {
    name: package
    for package, module in SPECS.items()
    for name in vars(module)
    if name.startswith("kb_")
}
HOOKS = {name: vars(SPECS[package])[name] for name, package in CALLERS.items()}


def python(source: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    answer = subprocess.run(
        [sys.executable, "-c", source, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={name: value for name, value in os.environ.items() if not name.startswith("COV_")},
        timeout=600,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def modules(package: str, without: Collection[str]) -> list[str]:
    spec = find_spec(package)
    assert spec
    assert spec.submodule_search_locations
    found = []
    for item in pkgutil.walk_packages(spec.submodule_search_locations, f"{package}."):
        name = item.name.split(".")[1]
        if name not in without and name.rpartition("_")[2] not in without:
            found.append(item.name)
    return sorted(found)


# Imports


def test_the_imports_keep_to_the_contracts(request: pytest.FixtureRequest) -> None:
    root = request.config.rootpath
    if not (root / "pyproject.toml").is_file():
        pytest.skip("the contracts are in pyproject.toml, which is not here")
    program = Path(sys.executable).with_name("lint-imports")

    answer = subprocess.run(
        [str(program), "--no-cache"],
        cwd=root,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 broken" in answer.stdout


LOADED_BY = """
import importlib, sys

edges = sys.argv[1].split(",")
for name in sys.argv[2:]:
    importlib.import_module(name)
    for edge in edges:
        if edge in sys.modules:
            print(f"{name} imports {edge}")
            edges.remove(edge)
"""


def test_the_client_imports_no_edge() -> None:
    names = [
        "kb_framework.client",
        *(f"{package}.client" for package in PACKAGES if find_spec(f"{package}.client")),
    ]

    assert python(LOADED_BY, ",".join(EDGES), *names) == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_plugins_entry_point_imports_none_of_its_own_modules(package) -> None:
    loaded = python(
        f"import sys, {package}.plugin\nprint(*[m for m in sys.modules if m.startswith({package!r})])"
    ).split()

    assert sorted(loaded) == [package, f"{package}.plugin"]


AFTER_COMMAND = """
import contextlib, io, json, sys

from kb_framework.edges.cli.app import run

with contextlib.redirect_stdout(io.StringIO()) as printed:
    try:
        code = run(sys.argv[1:])
    except SystemExit as end:
        code = end.code or 0
print(json.dumps({"code": code, "printed": printed.getvalue(), "modules": sorted(sys.modules)}))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["plugins", "--help"]], ids=" ".join
)
def test_help_imports_nothing_heavy(kb_home, arguments) -> None:
    answer = json.loads(python(AFTER_COMMAND, *arguments))

    assert answer["code"] == 0
    assert answer["printed"]
    loaded = set(answer["modules"])
    # The help itself is drawn with rich.
    assert [name for name in HEAVY if name in loaded and name != "rich"] == []


def test_importing_the_framework_starts_nothing() -> None:
    source = "import sys, threading, kb_framework, kb_framework.app, kb_framework.client\nprint(threading.active_count())"

    assert python(source).strip() == "1"


# Hooks


def example_of(name: str) -> str:
    found = re.findall(r"```python\n(.*?)```", inspect.getdoc(HOOKS[name]) or "", flags=re.DOTALL)
    assert len(found) == 1, f"{name} must have one example"
    return found[0]


def test_there_are_hooks() -> None:
    assert len(HOOKS) >= 20


@pytest.mark.parametrize("name", HOOKS)
def test_a_hooks_docstring_says_when_what_and_what_an_exception_does(name) -> None:
    words = re.sub(r"\s+", " ", (inspect.getdoc(HOOKS[name]) or "").split("```")[0])

    assert re.search(r"\bCalled\b", words), "when it is called"
    assert (
        re.search(r"\b[Rr]eturns?\b|\banswers?\b|-> None", words)
        or HOOKS[name].__annotations__["return"] == "None"
    ), "what to return"
    assert re.search(r"\bAn exception\b", words), "what an exception does"


@pytest.mark.parametrize("name", HOOKS)
def test_a_hooks_example_registers_without_error(kb_home, kb_plugin, tmp_path, name) -> None:
    module = f"example_{uuid.uuid4().hex}"
    kb_plugin("example", example_of(name), module=module)
    for part, target in re.findall(r'"kb_weather\.(\w+):(\w+)"', example_of(name)):
        package = tmp_path / "installed" / "kb_weather"
        package.mkdir()
        (package / f"{part}.py").write_text(f"class {target}: ...\n", encoding="utf-8")
    if name == "kb_hookspecs":
        package = tmp_path / "installed" / "kb_weather"
        package.mkdir()
        source = "from kb_framework.api.hooks import hookspec\n\n@hookspec\ndef kb_rain(tx): ...\n"
        (package / "hookspecs.py").write_text(source, encoding="utf-8")

    info = next(info for info in Plugins(read_bootstrap()).infos if info.name == "example")

    assert (info.state, info.reason) == ("active", None)
    assert info.hooks == [name]


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_documented_under_a_heading_of_its_own(request, name) -> None:
    page = request.config.rootpath / "docs" / "hooks.md"
    headings = [
        line for line in page.read_text(encoding="utf-8").splitlines() if re.match(r"#+ ", line)
    ]

    assert any(re.search(rf"\b{name}\b", line) for line in headings)


def test_the_hook_reference_invents_no_hook(request) -> None:
    page = request.config.rootpath / "docs" / "hooks.md"
    headings = [
        line for line in page.read_text(encoding="utf-8").splitlines() if re.match(r"#+ ", line)
    ]

    named = {name for line in headings for name in re.findall(r"\bkb_[a-z_]+", line)}
    assert named - set(HOOKS) - {"kb_framework"} == set()


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_has_a_caller_where_it_is_specified(name) -> None:
    """A registration hook is collected by the host; its specifier reads the registry of that kind."""
    package, registers = CALLERS[name], getattr(HOOKS[name], "registers", None)
    calls = (
        rf"registry\((api\.)?{registers[0].__name__}\)"
        if registers
        else rf"\"{name}\"|hook\.{name}\b"
    )
    spec = find_spec(package)
    assert spec and spec.submodule_search_locations
    files = [
        path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py")
    ]

    if name != "kb_hookspecs":
        assert any(re.search(calls, path.read_text(encoding="utf-8")) for path in files)


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_has_an_implementation(name) -> None:
    modules = [import_module(f"{package}.plugin") for package in (*PACKAGES, "kb_legalhold")]

    # A tool that is no operation's: the built-in plugins have none.
    assert any(name in vars(module) for module in modules) or name == "kb_tools"


def test_no_process_that_is_started_takes_modules_from_the_current_folder() -> None:
    unsafe, commands = [], 0
    for package in ("kb_framework", *PACKAGES):
        for path in Path(find_spec(package).origin or "").parent.rglob("*.py"):  # type: ignore[union-attr]
            if path.name.startswith("testing"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.List)
                    and node.elts
                    and ast.unparse(node.elts[0]) == "sys.executable"
                ):
                    commands += 1
                    unsafe += (
                        [f"{path.name}:{node.lineno}"]
                        if "'-P'" not in map(ast.unparse, node.elts)
                        else []
                    )

    assert commands >= 3
    assert unsafe == []


# Words


def test_no_file_of_the_house_is_called_utils() -> None:
    names = [name for package in ("kb_framework", *PACKAGES) for name in modules(package, set())]

    assert [
        name for name in names if name.rsplit(".", 1)[-1] in {"utils", "helpers", "misc", "common"}
    ] == []


def test_no_file_has_the_name_of_a_standard_library_module() -> None:
    names = [name for package in ("kb_framework", *PACKAGES) for name in modules(package, set())]

    # The folder of the HTTP edge, and the function that divides a text into chunks.
    assert {name for name in names if name.rsplit(".", 1)[-1] in sys.stdlib_module_names} <= {
        "kb_framework.edges.http",
        "kb_documents.chunk",
    }


def test_times_are_written_in_one_place() -> None:
    written = re.compile(r"isoformat\(\s*timespec=")
    files = [
        path
        for package in ("kb_framework", *PACKAGES)
        for path in Path(find_spec(package).origin or "").parent.rglob("*.py")  # type: ignore[union-attr]
        if written.search(path.read_text(encoding="utf-8"))
    ]

    assert [path.name for path in files] == ["times.py"]


def test_no_test_gives_up_before_ten_minutes() -> None:
    """On a busy machine everything may take twenty times as long: only a hang may reach the limit of a test."""
    limit = re.compile(
        r"(?:\.wait|\.wait_for|\.communicate|\.result|\.join|\brun)\((?:.*\btimeout=)?(\d+)\)|monotonic\(\) \+ (\d+)$"
    )
    found = [
        f"{path.name}:{number}"
        for path in (Path(__file__).parents[1]).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if any(int(one or other) < 600 for one, other in limit.findall(line))
    ]
    assert found == []
    assert hypothesis.settings().deadline is None
