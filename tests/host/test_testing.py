"""What the fixtures of `kb_testing.fixtures` promise to those who write tests with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb_framework.client import connect
from kb_testing.commands import shared
from kb_testing.fixtures import Install, Run, stored

PLUGIN = """
from kb_framework import hookimpl

@hookimpl
def kb_permissions():
    return []
"""


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["list"], ""),
        (["config", "--json"], ""),
        (["nonsense"], ""),
        (["bulk-remove", "--tags", "old"], "n\n"),
        (["search", "--bulk", "--json"], '{"query": "백업"}\n'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_answers_as_one_that_begins_with_nothing(
    kb_run: Run, kb_start: Run, tmp_path: Path, arguments: list[str], stdin: str
) -> None:
    kb_run("note", "words to keep", "--tags", "old")

    here, anew = (
        run(*arguments, stdin=stdin, KB_BULK_SAFETY_PERCENT="99") for run in (kb_run, kb_start)
    )

    assert (here.returncode, here.stderr) == (anew.returncode, anew.stderr)
    assert here.stdout == anew.stdout or arguments[0] == "search"
    assert len(here.stdout.splitlines()) == len(anew.stdout.splitlines())


def test_a_command_sees_the_folder_and_the_plugins_of_its_test(
    kb_run: Run, kb_plugin: Install, tmp_path: Path
) -> None:
    kb_plugin("weather", PLUGIN)
    (tmp_path / "a note.md").write_text("# Here\n", encoding="utf-8")

    added = kb_run("add", "a note.md")

    assert added.returncode == 0, added.stderr
    assert "weather" in kb_run("plugins").stdout


@pytest.mark.sqlite_only("about the file")
def test_the_database_that_a_test_begins_with_is_like_a_new_one(
    kb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
    steps = "SELECT plugin, version, name FROM kb_migrations ORDER BY plugin, version"
    given = stored(tables), stored(steps)
    modes = [path.stat().st_mode for path in (kb_home, kb_home / "kb.sqlite")]
    other = tmp_path / "other-home"
    monkeypatch.setenv("KB_DATA_DIR", str(other))

    with connect():
        pass

    assert (stored(tables), stored(steps)) == given
    assert [path.stat().st_mode for path in (other, other / "kb.sqlite")] == modes


@pytest.mark.new_database
def test_a_test_of_a_new_database_begins_with_nothing(kb_home: Path) -> None:
    assert not kb_home.exists()


def test_the_processes_of_a_run_of_tests_share_one_that_forks(
    request: pytest.FixtureRequest,
) -> None:
    of_the_run = getattr(request.config, "workerinput", {}).get("kb_commands")

    assert of_the_run in (None, shared().address)
