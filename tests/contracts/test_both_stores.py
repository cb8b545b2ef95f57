"""Which tests run on PostgreSQL as well."""

from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from kb_testing.postgres import postgres_folder

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_on_postgresql_runs_what_uses_a_database_and_is_not_above_the_store(store: str) -> None:
    files = [
        "host/test_text.py",
        "host/test_settings.py",
        "host/test_system.py",
        "fleet/test_outage.py",
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "--store",
        store,
    ]

    done = subprocess.run(
        [*command, *(str(TESTS / name) for name in files)],
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert [name in done.stdout for name in files] == (
        [True] * 4 if store == "sqlite" else [False, False, True, True]
    )


def test_files_that_use_no_database_are_no_failure_on_postgresql() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--store",
        "postgres",
    ]

    done = subprocess.run(
        [*command, str(TESTS / "host/test_text.py")], capture_output=True, text=True, timeout=600
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" not in done.stdout


def test_tox_runs_everything_on_both() -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(TESTS.parent / "tox.ini", encoding="utf-8")
    envs = [name.strip() for name in settings["tox"]["env_list"].split(",")]
    runs = settings["testenv"]["commands"].split("\n")

    assert envs == ["lint", "py311"]
    assert [run.split(" {posargs")[0] for run in runs if run] == [
        "pytest --store sqlite",
        "pytest --store postgres",
    ]


def test_what_is_left_out_on_postgresql_is_there(request: pytest.FixtureRequest) -> None:
    (suite,) = [
        p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "ABOVE_THE_STORE")
    ]

    assert [name for name in suite.ABOVE_THE_STORE if not (TESTS / name).is_file()] == []


def test_a_server_of_the_tests_is_in_no_folder_that_another_pytest_closes_to_others() -> None:
    with postgres_folder() as folder:
        assert not [part for part in folder.parts if part.startswith("pytest-of-")]
        assert folder.is_dir()
    assert not folder.exists()
