"""What the README and docs/ say is true: references are made from the code, examples run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from kb_framework.bootstrap import read_bootstrap
from kb_framework.client import connect
from kb_framework.plugins import Plugins
from kb_testing.fixtures import Install, Run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
# They serve until they are stopped.
ENDLESS = {"serve", "mcp", "watch"}

pytestmark = pytest.mark.skipif(
    not (DOCS.is_dir() and README.is_file()), reason="README.md and docs/ are not here"
)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def kb_lines(text: str) -> list[tuple[dict[str, str], list[str]]]:
    """The environment and the arguments of every line `[NAME=VALUE] kb …` that comes to an end by itself."""
    found = []
    for line in "\n".join(blocks(text, "console")).splitlines():
        words = shlex.split(line.rpartition("&& ")[2])
        given = [word for word in words if "=" in word and word.split("=")[0].isupper()]
        if words[len(given) :][:1] == ["kb"] and words[len(given) + 1] not in ENDLESS:
            found.append((dict(word.split("=", 1) for word in given), words[len(given) + 1 :]))
    return found


def run_lines(text: str, kb_run: Run) -> None:
    lines = kb_lines(text)
    assert lines, "nothing to run: the examples have moved"
    for environment, arguments in lines:
        done = kb_run(
            *[str(Path(word).expanduser()) if word.startswith("~") else word for word in arguments],
            **environment,
        )
        assert done.returncode == 0, f"kb {shlex.join(arguments)}\n{done.stdout}{done.stderr}"


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def home_with_notes(kb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home folder with a few notes in it."""
    notes = tmp_path / "person" / "notes"
    notes.mkdir(parents=True)
    (notes / "keys.md").write_text("# Keys\n\nKeys are rotated every 90 days.\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(notes.parent))
    monkeypatch.setenv("USERPROFILE", str(notes.parent))
    return notes


def test_the_hook_reference_is_what_the_hookspecs_say() -> None:
    made = module_at(DOCS / "make_hooks.py").render()
    assert text_of(DOCS / "hooks.md") == made, "run: python docs/make_hooks.py"


def test_every_hook_has_a_section_in_the_reference(kb_home: Path) -> None:
    found = re.findall(r"^## (kb_\w+)$", text_of(DOCS / "hooks.md"), re.MULTILINE)

    assert sorted(found) == Plugins(read_bootstrap()).hook_names


def test_the_settings_page_lists_every_setting_with_its_default(kb_home: Path) -> None:
    page = text_of(DOCS / "settings.md")
    assert page == module_at(DOCS / "make_settings.py").render(page), (
        "run: python docs/make_settings.py"
    )


def test_the_settings_page_shows_toml_and_commands_that_work(kb_home: Path, kb_run: Run) -> None:
    kb_home.mkdir(exist_ok=True)
    (kb_home / "kb.toml").write_text(
        blocks(text_of(DOCS / "settings.md"), "toml")[0], encoding="utf-8"
    )
    run_lines(text_of(DOCS / "settings.md"), kb_run)


def test_the_commands_of_the_search_page_run_and_it_names_every_field(
    kb_home: Path, kb_run: Run
) -> None:
    from kb_search.models import SearchIn

    page = text_of(DOCS / "search.md")
    run_lines(page, kb_run)
    assert [name for name in SearchIn.model_fields if f"`{name}`" not in page] == []


def test_the_readme_fits_one_screen() -> None:
    assert len(text_of(README).splitlines()) <= 72


def test_the_commands_of_the_readme_run_with_its_plugin_installed(
    home_with_notes: Path, kb_plugin: Install, kb_run: Run
) -> None:
    kb_plugin("title", blocks(text_of(README), "python")[0], module="kb_title")
    run_lines(text_of(README), kb_run)
    assert "\tsecurity" in kb_run("tags").stdout


def test_the_plugin_of_the_guide_passes_its_own_tests_and_commands(
    kb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kb_run: Run
) -> None:
    guide = text_of(DOCS / "plugins.md")
    for block in blocks(guide, "python"):
        path = tmp_path / block.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(block, encoding="utf-8")
    declared = tomllib.loads(blocks(guide, "toml")[0])["project"]
    name, version = declared["name"], declared["version"]
    info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    points = "".join(
        f"{key} = {value}\n" for key, value in declared["entry-points"]["kb_framework"].items()
    )
    (info / "entry_points.txt").write_text(f"[kb_framework]\n{points}", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    pytest_run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "tests",
    ]
    tested = subprocess.run(
        pytest_run, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=600
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    run_lines(guide, kb_run)


def test_the_examples_of_the_bulk_page_run(kb_home: Path, kb_run: Run) -> None:
    page = text_of(DOCS / "bulk.md")
    with connect() as engine:
        names = {"engine": engine}
        for block in blocks(page, "python"):
            exec(compile(block, "docs/bulk.md", "exec"), names)
    run_lines(page, kb_run)


def test_the_filters_page_names_every_filter_and_its_examples_run(kb_home: Path) -> None:
    page = text_of(DOCS / "filters.md")
    with connect() as engine:
        for number in range(5):
            engine.add_note(f"Note {number}", tags=["draft"] if number < 3 else [])
        for block in blocks(page, "python"):
            exec(compile(block, "docs/filters.md", "exec"), {"engine": engine})
    offered = [item.name for item in Plugins(read_bootstrap()).filters if item.name != "on_hold"]
    assert [name for name in offered if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", ["access", "knowledge", "research"])
def test_the_commands_of_a_page_run(page: str, kb_home: Path, kb_run: Run) -> None:
    run_lines(text_of(DOCS / f"{page}.md"), kb_run)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in PAGES])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text_of(path)):
        other = (path.parent / target).resolve() if target else path
        assert other.exists(), f"{page} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", text_of(other), re.M)
            slugs = {
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            }
            assert anchor in slugs, f"{page} links to {target}#{anchor}"
